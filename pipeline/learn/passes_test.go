package learn

import (
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
)

// TestNoModelSaysWhy holds that a replay without a model names the cause: too few rows, rows that do not vary, or numbers that are too large.
func TestNoModelSaysWhy(t *testing.T) {
	const d = 3
	for _, c := range []struct {
		rows int
		draw func(r *rand.Rand) float64
		want string
	}{
		{100, func(r *rand.Rand) float64 { return r.NormFloat64() }, "100 rows are too few to learn a metric of 3 features: the first takes "},
		{3000, func(*rand.Rand) float64 { return 7 }, "all 3 features are constant in 3000 rows"},
		{3000, func(r *rand.Rand) float64 { return 1e-200 * r.NormFloat64() }, "all 3 features are constant in 3000 rows"},
		{3000, func(r *rand.Rand) float64 { return 1e200 * r.NormFloat64() }, "3000 of 3000 rows have numbers whose squares are too large"},
	} {
		learner, err := online.NewLearner(online.DefaultConfig(d))
		if err != nil {
			t.Fatal(err)
		}
		r, x := rand.New(rand.NewPCG(1, 18)), mat.NewDense(100, d, nil)
		for range c.rows / 100 {
			x.Apply(func(_, _ int, _ float64) float64 { return c.draw(r) }, x)
			if _, err := learner.Learn(x, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		stop := (&Learn{learner: learner, features: minibatch.Features{Names: make([]string, d)}}).noModel()
		if !strings.HasPrefix(stop.Err.Error(), c.want) || stop.Remedy == "" {
			t.Errorf("%v; %s: want %q", stop, stop.Remedy, c.want)
		}
	}
}
