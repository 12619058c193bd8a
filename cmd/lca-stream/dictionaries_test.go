package main

import (
	"os/exec"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// Files and streams whose dictionaries differ become one Arrow file, with the values of all.
func TestDictionariesBecomeOne(t *testing.T) {
	if out, err := exec.Command(testtools.Python(t), "testdata/dictionaries.py", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
