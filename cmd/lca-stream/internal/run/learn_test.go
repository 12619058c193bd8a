package run

import (
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
)

// --from-history is refused where there is no history, and next to the other place to begin from.
func TestHistoryFlag(t *testing.T) {
	c := config.Default()
	if err := checkHistory(c); err != nil {
		t.Errorf("with the default start_offset: %v", err)
	}
	c.Source.StartOffset = config.StartLatest
	if err := checkHistory(c); app.ExitCode(err) != app.ExitUsage || !strings.Contains(err.Error(), "source.start_offset is latest") {
		t.Errorf("with start_offset latest: %v", err)
	}
	keyed := config.Default()
	keyed.Model.By = modelkey.By{Place: modelkey.Key}
	if err := checkHistory(keyed); app.ExitCode(err) != app.ExitUsage || !strings.Contains(err.Error(), "model.by is key") {
		t.Errorf("with a model for each value: %v", err)
	}
}
