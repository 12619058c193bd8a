package main

import (
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

func TestHistoryFlags(t *testing.T) {
	p, _, stderr := inTest()
	if code := execute(t.Context(), p, []string{"learn", "-c", "none.yaml", "--from-history", "--from-snapshot", "7"}); code != app.ExitUsage {
		t.Errorf("exit code %d with both flags:\n%s", code, stderr)
	}
}
