package enum

import (
	"slices"
	"testing"
)

type fruit uint8

var fruits = Names[fruit]{2: "apple", 3: "pear"}

func TestOnlyNamedValuesAreValues(t *testing.T) {
	for v := range 256 {
		e := fruit(v)
		named := v == 2 || v == 3
		got, err := fruits.Parse(fruits.Of(e), "test: unknown fruit")
		if fruits.Has(e) != named || (err == nil && got == e) != named || (fruits.Check(e, "test: unknown fruit") == nil) != named {
			t.Errorf("%d: %q is read as %d, %v", v, fruits.Of(e), got, err)
		}
	}
	if all := fruits.All(); !slices.Equal(all, []fruit{2, 3}) {
		t.Errorf("all are %v", all)
	}
}

func TestUnknownNamesAreAnsweredWithTheKnownOnes(t *testing.T) {
	const want = `test: unknown fruit "plum": want one of apple, pear`
	if _, err := fruits.Parse("plum", "test: unknown fruit"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := fruits.Parse("", "test: unknown fruit"); err == nil {
		t.Error("nothing is a name")
	}
}
