package online_test

import (
	"slices"
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

// TestEveryPoolKindHasAName holds that a pool is chosen by name, and that a value without one is refused.
func TestEveryPoolKindHasAName(t *testing.T) {
	for v := range 256 {
		kind := online.PoolKind(v)
		known := slices.Contains(online.PoolKinds(), kind)
		if invalid := strings.HasPrefix(kind.String(), "invalid"); known == invalid {
			t.Errorf("PoolKind(%d) is called %q", v, kind)
		}
		c := online.DefaultConfig(2)
		c.Pool = kind
		if _, err := online.NewLearner(c); known != (err == nil) {
			t.Errorf("a learner with PoolKind(%d): %v", v, err)
		}
	}
}
