package house

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// cited finds citations of the paper's equations: "eq. 5", "eqs. 3, 4", "eqs. 3 and 4".
var (
	cited  = regexp.MustCompile(`\beq\. ?(\d+)|\beqs\. ?(\d+(?:(?:, ?| and )\d+)*)`)
	number = regexp.MustCompile(`\d+`)
)

func equations(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range cited.FindAllStringSubmatch(text, -1) {
		for _, n := range number.FindAllString(m[1]+" "+m[2], -1) {
			found[n] = true
		}
	}
	return found
}

// lca/doc.go holds the only table of the paper's equations: what the code cites must be listed there,
// and what is listed must be cited where it is computed.
func TestEquationsAreInTheTable(t *testing.T) {
	listed, used := map[string]bool{}, map[string]string{}
	for _, f := range goFiles(t) {
		for _, group := range f.syntax.Comments {
			found := equations(group.Text())
			if f.path == "lca/doc.go" {
				maps.Copy(listed, found)
				continue
			}
			for n := range found {
				used[n] = f.path
			}
		}
	}
	if len(listed) < 6 {
		t.Fatalf("lca/doc.go lists equations %v: the table is gone, or this test reads it wrongly", slices.Sorted(maps.Keys(listed)))
	}
	for n, path := range used {
		if !listed[n] {
			t.Errorf("%s cites eq. %s, which is not in the table of lca/doc.go", path, n)
		}
	}
	for n := range listed {
		if used[n] == "" {
			t.Errorf("lca/doc.go lists eq. %s, which no code cites", n)
		}
	}
}

func TestCitationsAreRecognised(t *testing.T) {
	for text, want := range map[string][]string{
		"(eq. 8, section 5.1)": {"8"}, "γ of eq. 8, 0 ≤ γ": {"8"}, "eqs. 3, 4; Algorithm 1": {"3", "4"}, "eqs. 3 and 4": {"3", "4"}, "seq. 5": nil, "eq. 12": {"12"},
	} {
		if got := slices.Sorted(maps.Keys(equations(text))); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
