package snapshots

import (
	"math"
	"strings"
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
		{"a comparison", &lca.Choice{Rows: 3000, Candidates: trials("current")}, "\nchosen       current, after 3000 rows; nats/row of neighbours held out from the fits; current and gaussian have learnt them:\n" +
			"  current       5.905  3 Parzen, ν 0.01 (covariance), gaussian\n  gaussian  collapsed  0 Parzen, ν 0.01 (covariance), gaussian\n"},
	} {
		if got := chosen(c.choice); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCut holds that snapshot show says of the place where the directions divide only what is so.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		e      []float64
		parzen int
		want   string
	}{
		{[]float64{0.2, 0.9, 1.3}, 2, "cut at 1"},
		{[]float64{0.2, 0.9}, 2, "cut at 1"},
		{[]float64{0.2, 1.03, 1.3}, 2, "cut above 1: the pool is not full, or the data keep a direction"},
		{[]float64{1.1, 1.2}, 1, "cut above 1: the pool is not full, or the data keep a direction"},
		{[]float64{0.2, 0.99, 1.3}, 1, "cut below 1, by the data"},
		{[]float64{0.9, 1.3}, 0, "cut by the data: a single Gaussian"},
	} {
		if got := cut(c.e, c.parzen); got != c.want {
			t.Errorf("%v, %d Parzen: %q, want %q", c.e, c.parzen, got, c.want)
		}
		if got := spectrum(c.e, c.parzen); !strings.Contains(got, "──────── "+c.want+" ────────\n") {
			t.Errorf("%v, %d Parzen:\n%s", c.e, c.parzen, got)
		}
	}
}
