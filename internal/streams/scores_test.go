package streams

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// TestPOfFreshRows: of rows that are like those of the stream, one in a hundred has a p below 0.01.
func TestPOfFreshRows(t *testing.T) {
	for _, name := range []string{"white noise", "t, 1.5 degrees", "five + 8 noise, mixed", "collinear columns"} {
		t.Run(name, func(t *testing.T) {
			var shares []float64
			for _, seed := range few(testSeeds) {
				m, trial := learnt(t, name, lca.KernelAuto, seed, true)
				n, _ := trial.Fresh.Dims()
				score, below := make([]float32, n), 0.0
				m.NewScorer().Score(nil, score, trial.Fresh.RawMatrix().Data, n)
				for _, s := range score {
					if m.Scores.P(float64(s)) < 0.01 {
						below += 1 / float64(n)
					}
				}
				shares = append(shares, below)
			}
			if mean, standardError := spread(shares); mean < 0.005-2*standardError || mean > 0.015+2*standardError {
				t.Errorf("a share of %.4f ± %.4f of fresh rows has p < 0.01", mean, standardError)
			}
		})
	}
}

// TestPOfManyColumns holds the same where there are few rows per column: the rows that give p have had their part in μ and C_G, and fresh ones have not.
func TestPOfManyColumns(t *testing.T) {
	const d, n = 100, 1500
	fresh := 20000
	if testing.Short() {
		fresh = 5000
	}
	var shares []float64
	for seed := range uint64(testSeeds) { // with -short, too: 1,500 rows say what is rarer than 1 in 100 to a quarter
		c := online.DefaultConfig(d)
		c.Preset = lca.PresetDensity
		r, score, below := rand.New(rand.NewPCG(seed, 20)), make([]float32, fresh), 0.0
		m := learntRows(t, c, normal(d).rows(r, n))
		m.NewScorer().Score(nil, score, normal(d).rows(r, fresh).RawMatrix().Data, fresh)
		for _, s := range score {
			if m.Scores.P(float64(s)) < 0.01 {
				below += 1 / float64(fresh)
			}
		}
		shares = append(shares, below)
	}
	if mean, standardError := spread(shares); mean < 0.005-2*standardError || mean > 0.015+2*standardError {
		t.Errorf("a share of %.4f ± %.4f of fresh rows has p < 0.01", mean, standardError)
	}
}

// learnt is the model of a stream, with the given kernel and the defaults of the preset density; unless they may be chosen by
// the data, with those of a young stream.
func learnt(t testing.TB, name string, kernel lca.Kernel, seed uint64, chosen bool) (*lca.Model, Trial) {
	t.Helper()
	for _, s := range All() {
		if s.Name != name {
			continue
		}
		c := online.DefaultConfig(s.Dim)
		c.Preset, c.Kernel = lca.PresetDensity, kernel
		if !chosen {
			c.Kind = lca.KindLCAGauss
			c.Nu, c.NuGaussian, c.NuUnit = c.Preset.Resolve(c.Nu, c.NuGaussian, c.NuUnit)
		}
		trial := s.Draw(seed)
		return learntRows(t, c, trial.Rows), trial
	}
	t.Fatalf("no stream %q", name)
	return nil, Trial{}
}

// TestWhyNamesTheColumn: of rows of which one column is four standard deviations off, Why names this column first. The form
// that it computes is exact where one centre rules, with the column and without, as it does where most directions are
// Parzen. So the settings are those of a young stream. BenchmarkWhy measures those that the data choose.
func TestWhyNamesTheColumn(t *testing.T) {
	for _, name := range []string{"white noise", "A/B/A/B", "five + 8 noise, mixed", "collinear columns"} {
		for _, kernel := range []lca.Kernel{lca.KernelGaussian, lca.KernelStudent} {
			t.Run(name+" "+kernel.String(), func(t *testing.T) {
				m, trial := learnt(t, name, kernel, 1, false)
				first, three := named(m, trial.Fresh, 4)
				if first < 0.85 || three < 0.95 {
					t.Errorf("the column is named first in %.3f of the rows, and among three in %.3f", first, three)
				}
			})
		}
	}
}

// named returns in what share of rows Why names a column first, and among three, that is then moved by a number of its robust
// standard deviations: half the width of the middle 68 %. It changes the rows.
func named(m *lca.Model, x *mat.Dense, off float64) (first, three float64) {
	n, d := x.Dims()
	r := rand.New(rand.NewPCG(4, 4))
	deviation := make([]float64, d)
	for k := range deviation {
		column := mat.Col(nil, k, x)
		slices.Sort(column)
		deviation[k] = (stat.Quantile(0.84, stat.Empirical, column, nil) - stat.Quantile(0.16, stat.Empirical, column, nil)) / 2
	}
	for i := range n {
		k := i % d
		x.Set(i, k, x.At(i, k)+float64(2*r.IntN(2)-1)*off*deviation[k])
	}
	gains := make([]lca.Gain, 3*n)
	m.NewScorer().Why(gains, x.RawMatrix().Data, n)
	for k, g := range gains {
		if g.Column == k/3%d {
			three += 1 / float64(n)
			if k%3 == 0 {
				first += 1 / float64(n)
			}
		}
	}
	return first, three
}
