package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/lca-stream/lca-stream/lca"
)

// few is a set of rows of d columns that are mixed, or not, each with the memory phi, and rows like them of which the second half has one column wrong.
func few(seed uint64, rows, d int, mixed, phi float64) (x, normal, faulty *mat.Dense) {
	r := rand.New(rand.NewPCG(seed, 77))
	mixing := mat.NewDense(d, d, nil)
	mixing.Apply(func(i, j int, _ float64) float64 {
		v := mixed * r.NormFloat64() / math.Sqrt(float64(d))
		if i == j {
			v++
		}
		return v
	}, mixing)
	draw := func(n int, phi float64) *mat.Dense {
		z, y := mat.NewDense(n, d, nil), new(mat.Dense)
		for i := range n {
			for k := range d {
				v := r.NormFloat64()
				if i > 0 {
					v = phi*z.At(i-1, k) + math.Sqrt(1-phi*phi)*v
				}
				z.Set(i, k, v)
			}
		}
		y.Mul(z, mixing)
		return y
	}
	x, normal, faulty = draw(rows, phi), draw(300, 0), draw(300, 0)
	for i := range 300 {
		k := r.IntN(d)
		faulty.Set(i, k, faulty.At(i, k)+3*mat.Norm(mixing.ColView(k), 2))
	}
	return x, normal, faulty
}

// areaUnder returns how often one of a is above one of b.
func areaUnder(a, b []float64) (auc float64) {
	for _, v := range a {
		for _, w := range b {
			if v > w {
				auc += 1 / float64(len(a)*len(b))
			}
		}
	}
	return auc
}

// ledoitWolf returns the squared Mahalanobis distances of rows by the covariance of x, in units of its columns, drawn towards the identity (Ledoit and Wolf 2004).
func ledoitWolf(x *mat.Dense, all ...*mat.Dense) (squares [][]float64) {
	n, d := x.Dims()
	mean, scale := make([]float64, d), make([]float64, d)
	for k := range d {
		for i := range n {
			mean[k] += x.At(i, k) / float64(n)
		}
		for i := range n {
			scale[k] += (x.At(i, k) - mean[k]) * (x.At(i, k) - mean[k]) / float64(n)
		}
	}
	standard := func(x *mat.Dense) *mat.Dense {
		var z mat.Dense
		z.Apply(func(_, k int, v float64) float64 { return (v - mean[k]) / math.Sqrt(scale[k]) }, x)
		return &z
	}
	z, c := standard(x), mat.NewDense(d, d, nil)
	c.Mul(z.T(), z)
	c.Scale(1/float64(n), c)
	distance, noise := 0.0, 0.0
	for i := range d {
		for j := range d {
			identity := 0.0
			if i == j {
				identity = 1
			}
			distance += (c.At(i, j) - identity) * (c.At(i, j) - identity)
			for r := range n {
				u := z.At(r, i)*z.At(r, j) - c.At(i, j)
				noise += u * u / float64(n*n)
			}
		}
	}
	a := min(1, noise/distance)
	c.Scale(1-a, c)
	for k := range d {
		c.Set(k, k, c.At(k, k)+a)
	}
	var inverse mat.Dense
	if err := inverse.Inverse(c); err != nil {
		panic(err)
	}
	for _, rows := range all {
		z, each := standard(rows), []float64(nil)
		for i := range rows.RawMatrix().Rows {
			each = append(each, mat.Inner(z.RowView(i), &inverse, z.RowView(i)))
		}
		squares = append(squares, each)
	}
	return squares
}

// TestEndOfFewRows holds that a set makes a model as soon as it has two rows more than columns, however slow its columns, in both presets and all families; and that its scores
// tell faulty rows as well as a covariance does that is drawn towards the identity as Ledoit and Wolf have it, or better.
func TestEndOfFewRows(t *testing.T) {
	for _, c := range some(7, []struct {
		rows, d    int
		mixed, phi float64
	}{
		{120, 52, 0.5, 0}, {54, 52, 2, 0}, {250, 10, 1, 0.98}, {30, 4, 1, 0}, {6, 4, 0, 0}, {3, 1, 0, 0}, {288, 1, 0, 0.99},
		{500, 52, 0.5, 0}, {500, 52, 0.5, 0.9}, {500, 52, 2, 0.9}, {54, 52, 0, 0},
	}...) {
		for _, preset := range []lca.Preset{lca.PresetMetric, lca.PresetDensity} {
			t.Run(fmt.Sprintf("%+v %v", c, preset), func(t *testing.T) {
				t.Parallel()
				config := DefaultConfig(c.d)
				config.Preset, config.Finite = preset, true
				ours, theirs := 0.0, 0.0
				const seeds = 3
				for seed := range uint64(seeds) {
					x, normal, faulty := few(seed, c.rows, c.d, c.mixed, c.phi)
					m := ended(t, config, x)
					ours += areaUnder(m.LogDensity(nil, normal), m.LogDensity(nil, faulty)) / seeds // a log density is higher where a score is lower
					squares := ledoitWolf(x, normal, faulty)
					theirs += areaUnder(squares[1], squares[0]) / seeds
				}
				t.Logf("AUC %.3f, with Ledoit and Wolf's covariance %.3f", ours, theirs)
				if !(ours >= theirs-0.02) {
					t.Errorf("AUC %.3f, with Ledoit and Wolf's covariance %.3f", ours, theirs)
				}
			})
		}
	}
	for name, change := range map[string]func(*Config){
		"lca":                  func(c *Config) { c.Kind = lca.KindLCA },
		"lca gauss, student":   func(c *Config) { c.Kind, c.Kernel = lca.KindLCAGauss, lca.KernelStudent },
		"diagonal":             func(c *Config) { c.Metric = lca.MetricDiagonal },
		"isotropic":            func(c *Config) { c.Metric = lca.MetricIsotropic },
		"low rank":             func(c *Config) { c.Metric, c.Rank = lca.MetricLowRank, 2 },
		"a gate in widths":     func(c *Config) { c.OutlierGate = 40 },
		"no drift":             func(c *Config) { c.Drift = false },
		"a stream":             func(c *Config) { c.Finite = false },
		"float64":              func(c *Config) { c.Precision = lca.Float64 },
		"a warm-up of its own": func(c *Config) { c.WarmupRows = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			x, normal, faulty := few(1, 40, 6, 1, 0)
			config := DefaultConfig(6)
			change(&config)
			m := ended(t, config, x)
			if auc := areaUnder(m.LogDensity(nil, normal), m.LogDensity(nil, faulty)); auc < 0.6 {
				t.Errorf("AUC %.3f", auc)
			}
			if m.Info.Wanted <= 40 || m.Info.Learnt == 0 {
				t.Errorf("%+v", m.Info)
			}
		})
	}
}

// TestWantedIsWhatAStreamTakes holds that a set of few rows says no more of a stream's first model than is so: how many rows it takes, rounded up to a minibatch.
func TestWantedIsWhatAStreamTakes(t *testing.T) {
	for _, d := range []int{1, 8, 52} {
		x, _, _ := few(1, 3000, d, 0.5, 0)
		config := DefaultConfig(d)
		l, err := NewLearner(config)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		takes := 0
		for waits := true; waits; _, waits = l.Waiting() {
			feed(t, l, x.Slice(takes, takes+config.Minibatch, 0, d).(*mat.Dense), config.Minibatch)
			takes += config.Minibatch
		}
		for rows := d + spareRows; rows < takes; rows += 50 {
			set := config
			set.Finite = true
			says := ended(t, set, mat.DenseCopyOf(x.Slice(0, rows, 0, d))).Info.Wanted // 0: it had what a warm-up takes, and began a minibatch
			if says > uint64(takes) || says <= uint64(rows) && (says > 0 || rows < takes-config.Minibatch) {
				t.Errorf("d = %d: of %d rows it says that a stream takes %d; it takes %d", d, rows, says, takes)
			}
		}
	}
}

// ended returns the model of a set, which is finite and positive definite.
func ended(t *testing.T, c Config, x *mat.Dense) *lca.Model {
	t.Helper()
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	feed(t, l, x, c.Minibatch)
	if _, err := l.EndOfSet(); err != nil {
		t.Fatal(err)
	}
	m, err := l.Model()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*mat.SymDense{m.CG, m.CL} {
		var chol mat.Cholesky
		if !chol.Factorize(s) {
			t.Error("a covariance is not positive definite")
		}
	}
	if m.Scores == nil || len(m.Scores.Sorted) == 0 {
		t.Error("no scores of neighbours")
	}
	return m
}

// oneSlow is a memory of one column alone.
const oneSlow = -1

// TestFiguresOfASet holds that once a set has ended NLL and GaussianNLL are those of fresh rows under the model that it has made, and not those of the metrics on the
// way to it, which of few rows were several nats worse than a single Gaussian; that all rows count as learnt; and that with too few independent rows, be it
// by one column, there are no figures.
func TestFiguresOfASet(t *testing.T) {
	for _, c := range some(6, []struct {
		rows, d    int
		mixed, phi float64
		most       float64 // error of the difference: between two metrics that are made of the same rows, of which few decide the figures
	}{
		{500, 52, 1, 0, 2}, {500, 10, 1, 0, 0.1}, {2478, 10, 1, 0, 0.05}, {2478, 10, 1, 0.9, 0.1}, {2880, 1, 1, 0, 0.03}, {20000, 10, 1, 0, 0.03},
		{900, 30, 0.5, 0, 0.5}, {500, 52, 1, 0.9, 0}, {54, 52, 1, 0, 0}, {500, 52, 0, oneSlow, 0},
	}...) {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			all, _, _ := few(0, c.rows+4000, c.d, c.mixed, max(c.phi, 0))
			if c.phi == oneSlow {
				for i := 1; i < c.rows; i++ {
					all.Set(i, 3, 0.98*all.At(i-1, 3)+0.2*all.At(i, 3))
				}
			}
			config := DefaultConfig(c.d)
			config.Finite = true
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			feed(t, l, all.Slice(0, c.rows, 0, c.d).(*mat.Dense), config.Minibatch)
			if _, err := l.EndOfSet(); err != nil {
				t.Fatal(err)
			}
			m, err := l.Model()
			if err != nil {
				t.Fatal(err)
			}
			if m.Info.Learnt+m.Info.Gated != m.Info.Rows {
				t.Errorf("%d rows: %d learnt, %d gated", m.Info.Rows, m.Info.Learnt, m.Info.Gated)
			}
			if c.most == 0 {
				if !math.IsNaN(m.Info.NLL) || !math.IsNaN(m.Info.GaussianNLL) {
					t.Errorf("figures %v and %v of too few rows", m.Info.NLL, m.Info.GaussianNLL)
				}
				return
			}
			fresh := mat.DenseCopyOf(all.Slice(c.rows, c.rows+4000, 0, c.d))
			single := *m
			single.BL, single.BG = &mat.Dense{}, gaussianOf(t, m)
			ours, theirs := -stat.Mean(m.LogDensity(nil, fresh), nil), -stat.Mean(single.LogDensity(nil, fresh), nil)
			t.Logf("NLL %.2f, of fresh rows %.2f; of a single Gaussian %.2f and %.2f", m.Info.NLL, ours, m.Info.GaussianNLL, theirs)
			if e := (m.Info.NLL - m.Info.GaussianNLL) - (ours - theirs); !(math.Abs(e) <= c.most) {
				t.Errorf("%.3f nats above a single Gaussian, of fresh rows %.3f", m.Info.NLL-m.Info.GaussianNLL, ours-theirs)
			}
			if e := m.Info.GaussianNLL - theirs; !(math.Abs(e) <= 0.05*float64(c.d)) { // the rows are as likely as fresh ones to a twentieth of a nat per column
				t.Errorf("a single Gaussian has NLL %.3f, of fresh rows %.3f", m.Info.GaussianNLL, theirs)
			}
		})
	}
}

// TestEndOfTooFewRows holds that fewer rows than columns that vary and two more make no model, and that Waiting says how many do; that constant columns do not count.
func TestEndOfTooFewRows(t *testing.T) {
	for _, c := range []struct {
		rows, constant, want int
		varies               bool
	}{{7, 0, 8, true}, {8, 0, 0, true}, {6, 2, 0, true}, {5, 2, 6, true}, {50, 6, 2, false}, {1, 0, 2, true}} {
		x, _, _ := few(2, c.rows, 6, 1, 0)
		for i := range c.rows {
			for k := range c.constant {
				x.Set(i, k, 5)
			}
		}
		l, err := NewLearner(DefaultConfig(6))
		if err != nil {
			t.Fatal(err)
		}
		feed(t, l, x, 4)
		if _, err := l.EndOfSet(); err != nil {
			t.Fatal(err)
		}
		w, waits := l.Waiting()
		if waits != (c.want > 0) || waits && (w.Wanted != c.want || w.Rows != c.rows || w.Constant == c.varies) {
			t.Errorf("%+v: waits %v, %+v", c, waits, w)
		}
	}
}

// TestPassesOverFewRows holds that another pass over few rows gives the model of one.
func TestPassesOverFewRows(t *testing.T) {
	x, normal, _ := few(3, 60, 6, 1, 0)
	once := ended(t, DefaultConfig(6), x)
	l, err := NewLearner(DefaultConfig(6))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		l.NextPass()
		feed(t, l, x, 20)
	}
	if _, err := l.EndOfSet(); err != nil {
		t.Fatal(err)
	}
	m, err := l.Model()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := once.LogDensity(nil, normal)[0], m.LogDensity(nil, normal)[0]; a != b {
		t.Errorf("log density %v after one pass, %v after five", a, b)
	}
}
