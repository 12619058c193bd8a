package online

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestColumnsThatWakeTogether holds that the figures are of the other rows where two columns of a young stream move for the first time in the same row, so that
// no row after it in which one of them moves alone has a likelihood; and that these rows are learnt.
func TestColumnsThatWakeTogether(t *testing.T) {
	const d, b, rows = 6, 50, 2000
	for _, preset := range []lca.Preset{lca.PresetMetric, lca.PresetDensity} {
		for _, unit := range []lca.Unit{lca.UnitCovariance, lca.UnitRelative} {
			t.Run(fmt.Sprintf("%v %v", preset, unit), func(t *testing.T) {
				c := DefaultConfig(d)
				c.Preset, c.NuUnit, c.Neighbours, c.Minibatch = preset, unit, 500, b
				r := rand.New(rand.NewPCG(3, 5))
				x := mat.NewDense(rows, d, nil)
				for i := range rows {
					for k := range d - 3 {
						x.Set(i, k, r.NormFloat64())
					}
					if r.Float64() < 0.05 {
						x.Set(i, d-3, 1)
					}
					if i >= 600 && i%200 == 0 {
						x.Set(i, d-2, 1)
					}
					if i == 600 || i > 800 && i%150 == 0 {
						x.Set(i, d-1, 1)
					}
				}
				l, err := NewLearner(c)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				feed(t, l, x, b)
				info := l.Info()
				if !(info.NLL < 100) || !(info.GaussianNLL < 100) {
					t.Errorf("NLL %.4g and of a single Gaussian %.4g nats", info.NLL, info.GaussianNLL)
				}
				if info.Gated > 0 || l.Quarantined() > 0 {
					t.Errorf("%d rows left out, %d set aside", info.Gated, l.Quarantined())
				}
			})
		}
	}
}
