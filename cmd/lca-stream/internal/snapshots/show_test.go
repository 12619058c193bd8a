package snapshots

import (
	"math"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
)

// TestChosen holds what snapshot show says of a choice: of one where a stream begins that its rows were fitted to.
func TestChosen(t *testing.T) {
	trials := func(first string) []lca.Trial {
		return []lca.Trial{{Name: first, Parzen: 3, Nu: 0.01, NuUnit: lca.UnitCovariance, Kernel: lca.KernelGaussian, NLL: 5.905}, {Name: "gaussian", Nu: 0.01, NuUnit: lca.UnitCovariance, Kernel: lca.KernelGaussian, NLL: math.Inf(1)}}
	}
	for _, c := range []struct {
		name   string
		choice *lca.Choice
		want   string
	}{
		{"none", nil, ""},
		{"a beginning", &lca.Choice{Rows: 400, Candidates: trials(lca.FirstFit)}, "\nchosen       first fit, after 400 rows; nats/row of these rows, each without itself, and of the numbers fitted to them:\n" +
			"  first fit      5.905  3 Parzen, ν 0.01 (covariance), gaussian\n  gaussian   collapsed  0 Parzen, ν 0.01 (covariance), gaussian\n"},
		{"a comparison", &lca.Choice{Rows: 3000, Candidates: trials("current")}, "\nchosen       current, after 3000 rows; nats/row of the neighbours that a candidate was not fitted to:\n" +
			"  current       5.905  3 Parzen, ν 0.01 (covariance), gaussian\n  gaussian  collapsed  0 Parzen, ν 0.01 (covariance), gaussian\n"},
	} {
		if got := chosen(c.choice); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
