package online_test

import (
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/lca/online"
)

// TestZeroConfig holds that a configuration that was not filled in is refused by name.
func TestZeroConfig(t *testing.T) {
	err := online.Config{}.Validate()
	if err == nil {
		t.Fatal("the zero Config is valid")
	}
	for _, want := range []string{"Dim is 0", "Kind invalid(0)", "unknown Metric", "Neighbours is 0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
