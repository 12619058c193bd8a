package main

import (
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// TestPaperScripts runs the scripts of `make paper` on small problems: docs/paper-results.md must be what they
// write from the committed summaries, and the models of every batch algorithm and metric what numpy finds from
// the paper's formulas, read from the snapshot files.
func TestPaperScripts(t *testing.T) {
	t.Setenv("LCA_STREAM", "lca-stream") // the program itself, which TestMain puts into PATH
	t.Log("\n" + testtools.RunPython(t, "../../docs/paper/check.py"))
}
