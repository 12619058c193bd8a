//go:build unix

package e2e_test

import (
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// TestQualityScripts runs a slice of `make quality`: docs/quality.md must be what its summaries give, and `run`
// with docs/quality/machine.yaml must find, and not learn, a fault that a covariance cannot see.
func TestQualityScripts(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LCA_STREAM", path)
	t.Setenv("KAFKA_BROKERS", strings.Join(kafkatest.Start(t, kafkatest.Embedded).Addrs(), ","))
	t.Log("\n" + testtools.RunPython(t, "../../docs/quality/check.py"))
}
