package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// source draws rows of a stream.
type source func(r *rand.Rand, n int) *mat.Dense

// mixture is a source of k Gaussians in d dimensions, each with its own place and covariance.
func mixture(seed uint64, d, k int) source {
	r := rand.New(rand.NewPCG(seed, 99))
	shapes, centres := make([]*mat.Dense, k), make([][]float64, k)
	for c := range k {
		shapes[c] = mat.NewDense(d, d, nil)
		shapes[c].Apply(func(_, _ int, _ float64) float64 { return 0.3 * r.NormFloat64() }, shapes[c])
		for range d {
			centres[c] = append(centres[c], 2*r.NormFloat64())
		}
	}
	return func(r *rand.Rand, n int) *mat.Dense {
		x, z := mat.NewDense(n, d, nil), mat.NewVecDense(d, nil)
		for i := range n {
			c := r.IntN(k)
			for j := range d {
				z.SetVec(j, r.NormFloat64())
			}
			y := mat.NewVecDense(d, x.RawRowView(i))
			y.MulVec(shapes[c], z)
			y.AddVec(y, mat.NewVecDense(d, centres[c]))
		}
		return x
	}
}

// logDistance is the root mean square of log eig(A⁻¹B), where A and B are the metrics B Bᵀ of two
// models: how far they are apart, in logarithms of a variance.
func logDistance(t *testing.T, a, b *lca.Model) float64 {
	t.Helper()
	d := a.Dim
	e, low, u, w := make([]float64, d), make([]float64, d*d), make([]float64, d*d), new(linalg.Workspace)
	if _, err := prop1.Factor(low, metricOf(a), d, w); err != nil {
		t.Fatal(err)
	}
	if _, err := prop1.RatiosByFactor(e, u, low, metricOf(b), d, w); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, v := range e {
		sum += math.Log(v) * math.Log(v)
	}
	return math.Sqrt(sum / float64(d))
}

// metricOf returns B Bᵀ.
func metricOf(m *lca.Model) []float64 {
	b := prop1.Parts{BL: m.BL, BG: m.BG}.Joined()
	var metric mat.Dense
	metric.Mul(b, b.T())
	return linalg.Elements(&metric)
}

// learned returns the model after x.
func learned(t *testing.T, c Config, x *mat.Dense, ids []uint64) *lca.Model {
	t.Helper()
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	n, d := x.Dims()
	for i := 0; i+c.Minibatch <= n; i += c.Minibatch {
		if _, err := l.Learn(x.Slice(i, i+c.Minibatch, 0, d).(*mat.Dense), ids[i:i+c.Minibatch], nil); err != nil {
			t.Fatal(err)
		}
	}
	m, err := l.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// streamConfig has a pool of 1000, with which a run takes a fraction of a second, and leaves nothing to the data.
func streamConfig(d int) Config {
	c := DefaultConfig(d)
	c.Preset, c.Neighbours, c.AcceptRows = lca.PresetDensity, 1000, 1000
	return fixed(c)
}

// fixed is a configuration that leaves nothing to the data.
func fixed(c Config) Config {
	c.Kind = lca.KindLCAGauss
	c.Nu, c.NuGaussian, c.NuUnit = c.Preset.Resolve(c.Nu, c.NuGaussian, c.NuUnit)
	c.Kernel, c.DOF = lca.KernelGaussian, 0
	return c
}

// figures are a number of each seed.
type figures []float64

// below fails unless the mean is at most limit. Every seed is logged.
func (f figures) below(t *testing.T, what string, limit float64) {
	t.Helper()
	sum, squares := 0.0, 0.0
	for _, v := range f {
		sum += v
	}
	for _, v := range f {
		squares += (v - sum/float64(len(f))) * (v - sum/float64(len(f)))
	}
	mean := sum / float64(len(f))
	t.Logf("%s: %.4f ± %.4f (%.4f), at most %v", what, mean, math.Sqrt(squares/float64(len(f)*(len(f)-1))), []float64(f), limit)
	if !(mean <= limit) {
		t.Errorf("%s: %.4f (%.4f), want at most %v", what, mean, []float64(f), limit)
	}
}

const streamSeeds = 3

// TestDriftIsFollowed holds that two thousand rows after a change the metric is the new one, after one
// alarm, and that a stream that does not change raises none.
func TestDriftIsFollowed(t *testing.T) {
	const d, before, after = 10, 4000, 2000
	c := streamConfig(d)
	var distance figures
	for seed := range uint64(streamSeeds) {
		old, now := mixture(10+seed, d, 5), mixture(20+seed, d, 5)
		want := learned(t, c, now(rand.New(rand.NewPCG(seed, 1)), 10000), sequence(0, 10000))
		if want.Info.Alarms > 0 {
			t.Errorf("seed %d: %d alarms without a change", seed, want.Info.Alarms)
		}
		x := mat.NewDense(before+after, d, nil)
		x.Slice(0, before, 0, d).(*mat.Dense).Copy(old(rand.New(rand.NewPCG(seed, 2)), before))
		x.Slice(before, before+after, 0, d).(*mat.Dense).Copy(now(rand.New(rand.NewPCG(seed, 3)), after))
		got := learned(t, c, x, sequence(0, before+after))
		if got.Info.Alarms != 1 {
			t.Errorf("seed %d: %d alarms at one change", seed, got.Info.Alarms)
		}
		distance = append(distance, logDistance(t, got, want))
	}
	distance.below(t, "distance to the new metric", 0.25)
}

// TestRedelivery holds that records which come again change the kernel's width little, whether their
// identities tell or, as copies under new ones, only their values.
func TestRedelivery(t *testing.T) {
	const d, n = 10, 6000
	var again, copies figures
	for seed := range uint64(streamSeeds) {
		c := streamConfig(d)
		r := rand.New(rand.NewPCG(seed, 4))
		fresh := mixture(30+seed, d, 5)(r, n)
		// A fifth of the records are redelivered within a hundred rows, or each is sent twice.
		doubled := func(c Config, share float64, renamed bool) *lca.Model {
			r := rand.New(rand.NewPCG(seed, 5))
			var rows []float64
			var ids []uint64
			for i := range n {
				rows, ids = append(rows, fresh.RawRowView(i)...), append(ids, uint64(i))
				if r.Float64() < share {
					k := max(0, i-r.IntN(100))
					id := uint64(k)
					if renamed {
						id += 1 << 40
					}
					rows, ids = append(rows, fresh.RawRowView(k)...), append(ids, id)
				}
			}
			return learned(t, c, mat.NewDense(len(ids), d, rows), ids)
		}
		once := learned(t, c, fresh, sequence(0, n))
		width := func(m *lca.Model) float64 { // mean log of the metric's variances against those of once
			a, _ := mat.LogDet(mat.NewDense(d, d, metricOf(m)))
			b, _ := mat.LogDet(mat.NewDense(d, d, metricOf(once)))
			return math.Abs(a-b) / d
		}
		again = append(again, width(doubled(c, 0.2, false)))
		c.Neighbours = 2 * n // with every row's twin
		once = learned(t, c, fresh, sequence(0, n))
		copies = append(copies, width(doubled(c, 1, true)))
	}
	again.below(t, "a fifth redelivered: log scale", 0.05)
	// Half of the pool are copies, which do not count: 2^(2/(10+4)) alone is a log scale of .10.
	copies.below(t, "each row twice under new identities: log scale", 0.2)
}

// TestOutliers holds that rows far from all others cost the rest next to nothing.
func TestOutliers(t *testing.T) {
	const d, n = 10, 5000
	for _, o := range []struct {
		name       string
		share, far float64
	}{
		{"1 % at 1000 standard deviations", 0.01, 1000},
		{"0.1 % at 30 standard deviations", 0.001, 30},
	} {
		var excess figures
		for seed := range uint64(streamSeeds) {
			c, draw := streamConfig(d), mixture(40+seed, d, 5)
			x, fresh := draw(rand.New(rand.NewPCG(seed, 6)), n), draw(rand.New(rand.NewPCG(seed, 7)), 1000)
			centres := x.Slice(n-1000, n, 0, d).(*mat.Dense)
			clean := learned(t, c, x, sequence(0, n)).TestNLL(fresh, centres)
			r, dirty := rand.New(rand.NewPCG(seed, 8)), mat.DenseCopyOf(x)
			for i := range n {
				if r.Float64() < o.share {
					row := dirty.RawRowView(i)
					for k := range row {
						row[k] += o.far * 2 * r.NormFloat64() / math.Sqrt(d)
					}
				}
			}
			excess = append(excess, learned(t, c, dirty, sequence(0, n)).TestNLL(fresh, centres)-clean)
		}
		excess.below(t, o.name+": excess NLL", 0.03)
	}
}

// TestYoungStream holds how fast a stream learns: its excess NLL over a long stream's, each metric
// taken to the width for the same neighbours.
func TestYoungStream(t *testing.T) {
	const d, n = 10, 5000
	at := map[int]float64{1000: 0.06, 2000: 0.06, 5000: 0.02}
	excess := map[int]figures{}
	for seed := range uint64(streamSeeds) {
		c, draw := streamConfig(d), mixture(50+seed, d, 5)
		fresh, centres := draw(rand.New(rand.NewPCG(seed, 9)), 2000), draw(rand.New(rand.NewPCG(seed, 10)), c.Neighbours)
		long := learned(t, c, draw(rand.New(rand.NewPCG(seed, 11)), 20000), sequence(0, 20000)).TestNLL(fresh, centres)
		x := draw(rand.New(rand.NewPCG(seed, 12)), n)
		for rows := range at {
			m := learned(t, c, x.Slice(0, rows, 0, d).(*mat.Dense), sequence(0, rows))
			m.BL.Scale(1/math.Sqrt(prop1.WidthFactor(min(rows, c.Neighbours), c.Neighbours, m.Parzen())), m.BL)
			excess[rows] = append(excess[rows], m.TestNLL(fresh, centres)-long)
		}
	}
	for rows, limit := range at {
		excess[rows].below(t, "excess NLL after "+string(rune('0'+rows/1000))+"000 rows", limit)
	}
}
