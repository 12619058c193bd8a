package learn

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// Of one thing messages speak in the singular.
func TestUnusableOfOne(t *testing.T) {
	for want, p := range map[string]Unusable{
		"no rows to learn from: 1 message is unusable, the first: ":          {Records: 1, First: &source.RecordError{Err: errors.New("it is text")}},
		"no rows to learn from: every row (of 1) has a feature that is null": {Rows: 1},
	} {
		if got := p.nothing().Err.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	by := KeyedRange{NoKey: 1}
	if got, want := by.Nothing().Error(), "of 1 row none has a value of model.by"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNoModelSaysWhy holds that a replay without a model names the cause: too few rows, rows that do not vary, or numbers that are too large.
func TestNoModelSaysWhy(t *testing.T) {
	for _, c := range []struct {
		rows, d int
		draw    func(r *rand.Rand) float64
		want    string
	}{
		{1, 1, func(r *rand.Rand) float64 { return r.NormFloat64() }, "1 row is too few to learn a metric of 1 feature: the first takes "},
		{3000, 1, func(*rand.Rand) float64 { return 7 }, "the only feature is constant in 3000 rows, up to rounding"},
		{100, 3, func(r *rand.Rand) float64 { return r.NormFloat64() }, "100 rows are too few to learn a metric of 3 features: the first takes "},
		{3000, 3, func(*rand.Rand) float64 { return 7 }, "all 3 features are constant in 3000 rows"},
		{3000, 3, func(r *rand.Rand) float64 { return 1e-200 * r.NormFloat64() }, "all 3 features are constant in 3000 rows"},
		{3000, 3, func(r *rand.Rand) float64 { return 1e200 * r.NormFloat64() }, "3000 of 3000 rows have numbers whose squares are too large"},
	} {
		learner, err := online.NewLearner(online.DefaultConfig(c.d))
		if err != nil {
			t.Fatal(err)
		}
		r, x := rand.New(rand.NewPCG(1, 18)), mat.NewDense(min(c.rows, 100), c.d, nil)
		for range max(c.rows/100, 1) {
			x.Apply(func(_, _ int, _ float64) float64 { return c.draw(r) }, x)
			if _, err := learner.Learn(x, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		stop := (&Learn{learner: learner, features: minibatch.Features{Names: make([]string, c.d)}}).noModel()
		if !strings.HasPrefix(stop.Err.Error(), c.want) || stop.Remedy == "" {
			t.Errorf("%v; %s: want %q", stop, stop.Remedy, c.want)
		}
	}
}
