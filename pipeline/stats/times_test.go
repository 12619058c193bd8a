package stats

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/source"
)

// The table of models can be listed whatever the timestamp of a model's last row was.
func TestLastRowOfAnyTime(t *testing.T) {
	for _, ms := range fixtures.WildStamps {
		at := time.UnixMilli(ms)
		if _, err := json.Marshal(ModelRow{LastRow: source.Calendar(at)}); err != nil {
			t.Errorf("%d: %v", ms, err)
		}
	}
}
