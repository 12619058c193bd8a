package online

import (
	"testing"

	"github.com/lca-stream/lca-stream/lca"
)

// TestNarrowKernelsMustBeWorthIt holds that a smaller ν is not chosen for a few hundredths of a nat, except in place of a single Gaussian.
func TestNarrowKernelsMustBeWorthIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		parzen int // of the candidate before
		nu     float64
		gain   float64
		taken  bool
	}{
		{"narrower, for little", 2, 0.001, 0.06, false},
		{"narrower, for much", 2, 0.001, 0.2, true},
		{"as wide", 2, 0.01, 0.06, true},
		{"wider", 2, 0.1, 0.06, true},
		{"instead of a single Gaussian", 0, 0.001, 0.06, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := NewLearner(DefaultConfig(2))
			if err != nil {
				t.Fatal(err)
			}
			compared := &contest{learner: &l.model}
			for i, f := range []fitted{
				{candidate: candidate{recipe{nu: 0.01}, 2, nil}, nll: 10},
				{candidate: candidate{recipe{nu: 0.01}, c.parzen, nil}, nll: 9},
				{candidate: candidate{recipe{nu: c.nu}, 2, nil}, nll: 9 - c.gain},
			} {
				f.index, f.scores = i, []float64{f.nll, f.nll, f.nll}
				compared.add(lca.Trial{Parzen: f.parzen, NLL: f.nll}, f.recipe)
				compared.consider(f)
			}
			if taken := compared.out.Taken == 2; taken != c.taken {
				t.Errorf("candidate %d is taken", compared.out.Taken)
			}
		})
	}
}
