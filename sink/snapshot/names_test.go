package snapshot_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
)

// TestPagesNameEveryChoice holds that the pages which describe the metadata of a snapshot list every name that a
// key can have.
func TestPagesNameEveryChoice(t *testing.T) {
	for _, path := range []string{"doc.go", "../../docs/wire-format.md"} {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		listed(t, path, string(page), "lca.kind", lca.Kinds())
		listed(t, path, string(page), "lca.metric", lca.Metrics())
		listed(t, path, string(page), "lca.kernel", lca.Kernels())
		listed(t, path, string(page), "lca.nu_unit", lca.Units())
		listed(t, path, string(page), "lca.coordinates", lca.AllCoordinates())
		listed(t, path, string(page), "lca.components", lca.AllComponents())
	}
}

// listed looks for the names of all in the first line of page that begins with key, which is a row of a table.
// "auto" never reaches a snapshot.
func listed[E fmt.Stringer](t *testing.T, path, page, key string, all []E) {
	t.Helper()
	for line := range strings.Lines(page) {
		row := strings.TrimLeft(line, "|/\t `")
		if !strings.HasPrefix(row, "lca.") || !strings.Contains(row, key) {
			continue
		}
		for _, e := range all {
			if name := e.String(); name != "auto" && !hasWord(row, name) {
				t.Errorf("%s: the line of %s does not name %q: %s", path, key, name, line)
			}
		}
		return
	}
	t.Errorf("%s has no line of %s", path, key)
}

// hasWord reports whether word stands in s as a whole: "lca" does not in "lca_gauss" and "lca.kind".
func hasWord(s, word string) bool {
	inName := func(r rune) bool { return r == '_' || r == '.' || 'a' <= r && r <= 'z' }
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return !inName(r) }) {
		if w == word {
			return true
		}
	}
	return false
}
