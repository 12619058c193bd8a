package plural

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 addresses", 1: "1 address", 2: "2 addresses", -1: "-1 addresses"} {
		if got := Count(n, "address"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Count(int64(2), "row"); got != "2 rows" {
		t.Error(got)
	}
	if one, two := Are(1, "row"), Are(2, "row"); one != "1 row is" || two != "2 rows are" {
		t.Error(one, two)
	}
}
