package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// TestSparkJob holds what the job of deploy/spark does with the program, by tests of its functions in Python with processes in Spark's place.
// With Spark itself they are tested by `make lake`.
func TestSparkJob(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob("../../deploy/spark/test_*.py") // go test runs this again when something in the directory has changed
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	cmd := exec.Command(testtools.Python(t), append([]string{"-m", "pytest", "-q", "-p", "no:cacheprovider"}, tests...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
