package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchmarksSummary holds that the summary of docs/benchmarks.md says what its tables say.
func TestBenchmarksSummary(t *testing.T) {
	cmd := exec.Command("bash", filepath.Join(root, ".ci/bench-summary"))
	want, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, want)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- summary -->\n\n")
	got, _, ended := strings.Cut(rest, "\n<!-- end of the summary -->")
	if !found || !ended || got != string(want) {
		t.Errorf("the summary is\n%s\nand its tables give\n%s", got, want)
	}
}
