package stats

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source/format"
)

// A rate sees the first rejected record only if its series stood at 0 before. So every code that a
// record of Kafka can be refused with is in the table, and a new one must be added.
func TestEveryCodeStandsAtZeroFromTheStart(t *testing.T) {
	constant := regexp.MustCompile(`(?m)^\s*(?:const )?[cC]ode\w+\s*=\s*"(\w+)"`)
	zero := NewStats().Tables().DeadLetters
	found := 0
	for _, file := range slices.Concat(glob(t, "../../source/*.go"), glob(t, "../../source/format/*.go"), glob(t, "../../minibatch/*.go"), []string{"../reject/reject.go"}) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constant.FindAllStringSubmatch(string(text), -1) {
			found++
			if n, ok := zero[m[1]]; (!ok || n != 0) && m[1] != format.CodeParquetInvalid && m[1] != format.CodeCSVInvalid { // files are not dead-lettered
				t.Errorf("%s has %q, which is not in recordCodes", file, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d codes only: have their files moved?", found)
	}
	if rows := NewStats().Tables().Rejected; !slices.ContainsFunc(reject.RowReasons, func(r string) bool { return r == reject.ReasonNoModel }) || len(rows) != len(reject.RowReasons) {
		t.Errorf("rows: %v", rows)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
