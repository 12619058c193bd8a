package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
)

// TestChoiceFindsTheSplit holds that LCA-Gauss-Red gives the noise columns of a stream to the Gaussian part, which
// LCA-Gauss keeps, and is the better density for it.
func TestChoiceFindsTheSplit(t *testing.T) {
	const noise, n = 10, 2500
	r := rand.New(rand.NewPCG(1, 12))
	x, fresh := five(r, n, noise), five(r, 1000, noise)
	nll, parzen, changes := map[lca.Kind]float64{}, map[lca.Kind]int{}, 0
	for _, kind := range []lca.Kind{lca.KindLCAGauss, lca.KindLCAGaussRed} {
		c := DefaultConfig(2 + noise)
		c.Kind, c.Preset, c.Neighbours = kind, lca.PresetDensity, 1000
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range feed(t, l, x, c.Minibatch) {
			if s.Choice != nil && !s.Choice.Beginning() && s.Choice.Taken != 0 {
				changes++
				if i != 7 && i != 14 { // begun when the pool held 500 rows and 1000, the warm-up's among them; it whitens from 750 and 1500
					t.Errorf("a choice replaced the metric at minibatch %d", i)
				}
			}
		}
		l.Close()
		m, err := l.Model()
		if err != nil {
			t.Fatal(err)
		}
		nll[kind], parzen[kind] = -stat.Mean(m.LogDensity(nil, fresh), nil), m.Parzen()
	}
	t.Logf("NLL and d_P: %v, %v", nll, parzen)
	if changes < 1 || parzen[lca.KindLCAGaussRed] > 3 || !(nll[lca.KindLCAGaussRed] < nll[lca.KindLCAGauss]-0.3) {
		t.Errorf("%d changes, NLL %v, d_P %v", changes, nll, parzen)
	}
}

// TestChoiceDependsOnRowsAlone holds that neither threads nor checkpoints, in the midst of a search or
// not, change what LCA-Gauss-Red learns.
func TestChoiceDependsOnRowsAlone(t *testing.T) {
	const d, n = 6, 1300
	x := five(rand.New(rand.NewPCG(2, 12)), n, d-2)
	c := DefaultConfig(d)
	c.Kind, c.Neighbours, c.Preset = lca.KindLCAGaussRed, 400, lca.PresetDensity
	learn := func(looked bool) []byte {
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for i := 0; i < n; i += 50 {
			if _, err := l.Learn(x.Slice(i, i+50, 0, d).(*mat.Dense), sequence(i, 50), nil); err != nil {
				t.Fatal(err)
			}
			if looked {
				stateOf(t, l)
			}
		}
		return stateOf(t, l)
	}
	want := learn(false)
	if !bytes.Equal(learn(true), want) {
		t.Error("writing the state changed it")
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	if !bytes.Equal(learn(false), want) {
		t.Error("GOMAXPROCS=1 learnt other bits")
	}
}

// TestChoicesGetRare holds that the data choose at N, 2N, 4N … rows and at no others, however the rows are cut.
func TestChoicesGetRare(t *testing.T) {
	for _, step := range []uint64{1, 7, 100, 300} {
		var at []uint64
		for n := uint64(0); n < 70000; n += step {
			if doubled(n, n+step, 256) {
				at = append(at, (n+step)/256)
			}
		}
		if want := []uint64{1, 2, 4, 8, 16, 32, 64, 128, 256}; !slices.Equal(at, want) {
			t.Errorf("%d rows at a time: %v pools, want %v", step, at, want)
		}
	}
}

// TestSmallPoolsWait holds that a learner of a small pool skips a doubling after a comparison that changed nothing, and none after another.
func TestSmallPoolsWait(t *testing.T) {
	for _, f := range []struct {
		name       string
		neighbours int
		taken      int
		want       []uint64 // pools of rows
	}{
		{"nothing changed", 250, 0, []uint64{1, 4, 16, 64}},
		{"each time another", 250, 1, []uint64{1, 2, 4, 8, 16, 32, 64}},
		{"a large pool", 3000, 0, []uint64{1, 2, 4, 8, 16, 32, 64}},
	} {
		c := DefaultConfig(2)
		c.Neighbours = f.neighbours
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		for l.pool.Len() < f.neighbours {
			id := uint64(l.pool.Len())
			l.pool.Put(l.pool.Offer(id), id, pool.Place{}, []float64{0, 0})
		}
		var at []uint64
		for range 100 * f.neighbours / 50 {
			before := l.since
			l.since, l.counts.Learnt = before+50, l.counts.Learnt+50
			if l.choiceDue(before, l.pool.Len()) {
				at = append(at, l.since/uint64(f.neighbours))
				l.chosen = lca.Choice{Rows: l.counts.Learnt, Taken: f.taken, Candidates: make([]lca.Trial, 2)}
			}
		}
		if !slices.Equal(at, f.want) {
			t.Errorf("%s: compared at %v pools, want %v", f.name, at, f.want)
		}
	}
}

// TestChoiceDropped holds that a search ends with its learner, with a drift alarm, and where another
// state takes its place.
func TestChoiceDropped(t *testing.T) {
	const d = 6
	c := DefaultConfig(d)
	c.Kind, c.Neighbours = lca.KindLCAGaussRed, 300
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	young := stateOf(t, l)
	feed(t, l, five(rand.New(rand.NewPCG(3, 12)), 350, d-2), 50)
	if l.choice.began == 0 {
		t.Fatal("no search after 350 rows with a pool of 300")
	}
	if err := l.UnmarshalBinary(young); err != nil {
		t.Fatal(err)
	}
	if l.choice.comparison != nil || !bytes.Equal(stateOf(t, l), young) {
		t.Error("the search outlived the state")
	}
	feed(t, l, five(rand.New(rand.NewPCG(3, 12)), 350, d-2), 50)
	now := mixture(3, d, 4)(rand.New(rand.NewPCG(5, 12)), 200)
	if s, err := l.quarantine(pool.Batch{X: linalg.Elements(now), IDs: sequence(1<<30, 200), Places: make([]pool.Place, 200)}, Step{}); err != nil || s.Alarm != AlarmDrift || l.choice.began != 0 {
		t.Errorf("the search outlived a drift alarm: %v", err)
	}
	l.Close()
}

func TestSurelyLower(t *testing.T) {
	b := []float64{5, 6, 7, 8, 9}
	add := func(by ...float64) []float64 {
		a := append([]float64(nil), b...)
		for i, v := range by {
			a[i] += v
		}
		return a
	}
	for _, c := range []struct {
		name string
		a    []float64
		want bool
	}{
		{"each by about one", add(-1, -1.1, -0.9, -1, -1), true},
		{"on average only", add(-9, 1, 1, 1, 1), false},
		{"higher", add(1, 1.1, 0.9, 1, 1), false},
		{"the same", add(), false},
		{"rows without a neighbour do not count", add(-1, -1.1, -0.9, -1, math.NaN()), true},
		{"no row", add(math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := surelyLower(c.a, b, 5); got != c.want {
				t.Errorf("%v below %v: %v", c.a, b, got)
			}
		})
	}
}

// TestChoiceObeys holds that what the configuration gives is not left to the data, and that PresetMetric leaves d_P alone.
func TestChoiceObeys(t *testing.T) {
	density := func(c *Config) { c.Preset = lca.PresetDensity }
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   freedom
	}{
		{"metric", func(*Config) {}, freedom{red: true, affine: true}},
		{"metric, a unit", func(c *Config) { c.NuUnit = lca.UnitRelative }, freedom{red: true}},
		{"metric, lca_gauss", func(c *Config) { c.Kind = lca.KindLCAGauss }, freedom{}},
		{"density", density, freedom{red: true, gaussian: true, nu: true, unit: true, kernel: true}},
		{"density, lca", func(c *Config) { density(c); c.Kind = lca.KindLCA }, freedom{nu: true, unit: true, kernel: true}},
		{"density, ν", func(c *Config) { density(c); c.Nu = 0.05 }, freedom{red: true, gaussian: true, unit: true, kernel: true}},
		{"density, a kernel", func(c *Config) { density(c); c.Kernel = lca.KernelGaussian }, freedom{red: true, gaussian: true, nu: true, unit: true}},
		{"density, diagonal", func(c *Config) { density(c); c.Metric = lca.MetricDiagonal }, freedom{nu: true, unit: true, kernel: true}},
		{"density, plain", func(c *Config) { density(c); c.Plain = true }, freedom{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultConfig(3)
			c.change(&config)
			if got := config.freedom(); got != c.want {
				t.Errorf("open is %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestChoiceOfAnyRows holds that rows of which candidates collapse are learnt on, with figures that are numbers.
func TestChoiceOfAnyRows(t *testing.T) {
	const n = 700
	slow := make([]float64, 2)
	normal := func(r *rand.Rand, x []float64) {
		for k := range x {
			x[k] = r.NormFloat64()
		}
	}
	for _, c := range []struct {
		name   string
		dim    int
		change func(*Config)
		draw   func(r *rand.Rand, i int, x []float64)
	}{
		{"noise", 4, func(*Config) {}, func(r *rand.Rand, _ int, x []float64) { normal(r, x) }},
		{"one column", 1, func(*Config) {}, func(r *rand.Rand, _ int, x []float64) { normal(r, x) }},
		{"a constant column", 3, func(*Config) {}, func(r *rand.Rand, _ int, x []float64) { normal(r, x); x[1] = 7 }},
		{"a column that moves later", 3, func(*Config) {}, func(r *rand.Rand, i int, x []float64) {
			if normal(r, x); i < 250 {
				x[1] = 7
			}
		}},
		{"few values", 3, func(*Config) {}, func(r *rand.Rand, _ int, x []float64) {
			for k := range x {
				x[k] = float64(r.IntN(3))
			}
		}},
		{"heavy tails", 2, func(*Config) {}, func(r *rand.Rand, _ int, x []float64) {
			for k := range x {
				x[k] = r.NormFloat64() / math.Abs(r.NormFloat64())
			}
		}},
		{"slow rows", 2, func(*Config) {}, func(r *rand.Rand, i int, x []float64) {
			for k := range x {
				slow[k] = 0.7*slow[k] + r.NormFloat64()
			}
			copy(x, slow)
		}},
		{"a diagonal metric", 4, func(c *Config) { c.Metric = lca.MetricDiagonal }, func(r *rand.Rand, _ int, x []float64) { normal(r, x) }},
		{"a finite set", 4, func(c *Config) { c.Finite = true }, func(r *rand.Rand, _ int, x []float64) { normal(r, x) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultConfig(c.dim)
			config.Preset, config.Neighbours, config.WarmupRows, config.Minibatch = lca.PresetDensity, 200, 50, 50
			c.change(&config)
			r := rand.New(rand.NewPCG(7, 12))
			x := mat.NewDense(n, c.dim, nil)
			for i := range n {
				c.draw(r, i, x.RawRowView(i))
			}
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			choices := 0
			for _, s := range feed(t, l, x, config.Minibatch) {
				if s.Choice != nil {
					if !s.Choice.Beginning() {
						choices++
					}
					if v := s.Choice.Candidates[s.Choice.Taken].NLL; math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("took %q, whose NLL is %v", s.Choice.Candidates[s.Choice.Taken].Name, v)
					}
				}
			}
			m, err := l.Model()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range m.LogDensity(nil, mat.DenseCopyOf(x.Slice(n-20, n, 0, c.dim))) {
				if math.IsNaN(v) || math.IsInf(v, 1) {
					t.Fatalf("row %d has the density e^%v", i, v)
				}
			}
			if choices == 0 {
				t.Error("the data chose nothing")
			}
			restored, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			if err := restored.UnmarshalBinary(stateOf(t, l)); err != nil || !bytes.Equal(stateOf(t, restored), stateOf(t, l)) {
				t.Errorf("the state does not come back: %v", err)
			}
		})
	}
}

// TestEndOfSet holds that rows too few for a choice in a stream have it at their end, once: white noise is then no worse than a single
// Gaussian, and clusters are better than before.
func TestEndOfSet(t *testing.T) {
	const d, n, b = 8, 600, 100
	for _, c := range []struct {
		name  string
		draw  source
		most  float64 // nats above the Gaussian
		stays bool    // as it began
	}{
		{"white noise", func(r *rand.Rand, n int) *mat.Dense {
			x := mat.NewDense(n, d, nil)
			x.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, x)
			return x
		}, 0.05, true},
		{"clusters in noise", func(r *rand.Rand, n int) *mat.Dense { return five(r, n, d-2) }, -0.5, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultConfig(d)
			config.Preset, config.Finite = lca.PresetDensity, true
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			r := rand.New(rand.NewPCG(18, 8))
			if chosen, err := l.EndOfSet(); chosen != nil || err != nil {
				t.Fatalf("a choice without rows: %v, %v", chosen, err)
			}
			x, fresh := c.draw(r, n), c.draw(r, 3000)
			for i := 0; i < n; i += b {
				if _, err := l.Learn(x.Slice(i, i+b, 0, d).(*mat.Dense), sequence(i, b), nil); err != nil {
					t.Fatal(err)
				}
			}
			above := func() float64 {
				m, err := l.Model()
				if err != nil {
					t.Fatal(err)
				}
				single := *m
				single.BL, single.BG = &mat.Dense{}, gaussianOf(t, m)
				return stat.Mean(single.LogDensity(nil, fresh), nil) - stat.Mean(m.LogDensity(nil, fresh), nil)
			}
			before := above()
			chosen, err := l.EndOfSet()
			if err != nil || chosen == nil || c.stays != (chosen.Taken == 0) {
				t.Fatalf("chosen %v: %v", chosen, err)
			}
			after := above()
			t.Logf("%.3f nats above the Gaussian, %.3f before", after, before)
			if after > c.most || !c.stays && after >= before {
				t.Errorf("%.3f nats above the Gaussian, %.3f before, want at most %v", after, before, c.most)
			}
			if again, err := l.EndOfSet(); again != nil || err != nil {
				t.Errorf("a second choice: %v, %v", again, err)
			}
		})
	}
}

// gaussianOf returns B_G with B_G B_Gᵀ = C_G⁻¹.
func gaussianOf(t *testing.T, m *lca.Model) *mat.Dense {
	t.Helper()
	var factor mat.Cholesky
	if !factor.Factorize(mat.NewSymDense(m.Dim, linalg.Elements(m.CG))) {
		t.Fatal("C_G is not positive definite")
	}
	var low, inverse mat.TriDense
	factor.LTo(&low)
	if err := inverse.InverseTri(&low); err != nil {
		t.Fatal(err)
	}
	return mat.DenseCopyOf(inverse.T())
}

// TestChoiceOfFewRows holds that a choice which takes effect before the level of the NLL has settled, with few rows per column, does not make that of rows which
// have been learnt the level: fresh rows of the same law would be anomalous, and the learner would restart from them.
func TestChoiceOfFewRows(t *testing.T) {
	const d = 40
	for _, seen := range []uint64{2, watch.Settle} {
		c := DefaultConfig(d)
		c.Kind, c.Preset, c.WarmupRows = lca.KindLCAGauss, lca.PresetMetric, 400
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(3, 8))
		feed(t, l, five(r, 600, d-2), 100)
		rows := l.pool.Batch().Clone()
		l.drift.nll.Seen = seen
		before := l.drift.nll
		adopted, err := l.adopt(candidate{l.settings, 0, l.cl}, rows)
		if err != nil || !adopted || l.knowsScores() {
			t.Fatalf("a single Gaussian is adopted: %v, %v; the test is of few rows: %v", adopted, err, !l.knowsScores())
		}
		if now := l.drift.nll; seen < watch.Settle && now != (watch.Level{}) || seen >= watch.Settle && (now.Seen != seen || now.Mean == before.Mean) {
			t.Errorf("the level was %+v and is %+v", before, now)
		}
		l.Close()
	}
}
