package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestBeginningIsRecorded holds that what a stream was tried to begin with, and what was taken, is in the step, and that it does not take the place of
// the first comparison, which comes later.
func TestBeginningIsRecorded(t *testing.T) {
	const d, n = 4, 1000
	normal := func(r *rand.Rand) float64 { return r.NormFloat64() }
	tails := func(r *rand.Rand) float64 { return r.NormFloat64() / math.Pow(r.Float64(), 1/1.5) }
	student := "nu 0.01 covariance, student"
	for _, c := range []struct {
		name   string
		change func(*Config)
		draw   func(*rand.Rand) float64
		tried  []string
		taken  string
	}{
		{"white noise", func(*Config) {}, normal, []string{lca.FirstFit, student, "gaussian"}, "gaussian"},
		{"heavy tails", func(*Config) {}, tails, []string{lca.FirstFit, student, "gaussian"}, student},
		{"a kernel that was given", func(c *Config) { c.Kernel = lca.KernelGaussian }, normal, []string{lca.FirstFit, "gaussian"}, "gaussian"},
		{"no single Gaussian", func(c *Config) { c.Kind = lca.KindLCA }, tails, []string{lca.FirstFit, student}, student},
		{"metric", func(c *Config) { c.Preset = lca.PresetMetric }, normal, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultConfig(d)
			config.Preset = lca.PresetDensity
			c.change(&config)
			r := rand.New(rand.NewPCG(41, 12))
			x := mat.NewDense(n, d, nil)
			x.Apply(func(_, _ int, _ float64) float64 { return c.draw(r) }, x)
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			begun, compared := 0, 0
			for _, s := range feed(t, l, x, config.Minibatch) {
				switch {
				case s.Choice == nil:
					continue
				case !s.Choice.Beginning():
					compared++
					continue
				}
				begun++
				var tried []string
				for _, e := range s.Choice.Candidates {
					tried = append(tried, e.Name)
					if math.IsNaN(e.NLL) || e.NLL < s.Choice.Candidates[s.Choice.Taken].NLL {
						t.Errorf("%q has an NLL of %v", e.Name, e.NLL)
					}
				}
				if taken := s.Choice.Candidates[s.Choice.Taken]; !slices.Equal(tried, c.tried) || taken.Name != c.taken || taken.Parzen != s.Parzen || s.Choice.Rows == 0 || !s.Warmup {
					t.Errorf("%+v of %+v", s.Choice, s)
				}
			}
			if want := min(1, len(c.tried)); begun != want || compared == 0 {
				t.Errorf("%d beginnings, want %d; %d comparisons", begun, want, compared)
			}
			if m, err := l.Model(); err != nil || m.Info.Choice == nil || m.Info.Choice.Beginning() {
				t.Errorf("the model at the end has %+v: %v", m.Info.Choice, err)
			}
		})
	}
}

// TestBeginningIsInTheFirstModel holds that the record lasts: in the first model, and after a checkpoint.
func TestBeginningIsInTheFirstModel(t *testing.T) {
	const d, n = 4, 400
	config := DefaultConfig(d)
	config.Preset = lca.PresetDensity
	l, err := NewLearner(config)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	feed(t, l, five(rand.New(rand.NewPCG(42, 12)), n, d-2), config.Minibatch)
	restored, err := NewLearner(config)
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	if err := restored.UnmarshalBinary(stateOf(t, l)); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*Learner{l, restored} {
		if m, err := one.Model(); err != nil || m.Info.Choice == nil || !m.Info.Choice.Beginning() || len(m.Info.Choice.Candidates) != 3 {
			t.Errorf("the model has %+v: %v", m.Info.Choice, err)
		}
	}
}
