package streams

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/demo"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// TestDensityIsNoWorseThanAGaussian holds that with PresetDensity no stream is worse off than with a single Gaussian, and
// that the directions that carry structure are found among noise.
func TestDensityIsNoWorseThanAGaussian(t *testing.T) {
	for _, f := range []struct {
		stream           string
		gaussian, excess float64 // nats above a Gaussian, and above the truth
	}{
		{"white noise", 0.05, 0.05},
		{"duplicated columns", 0, 0.3},
		{"five + 8 noise, mixed", 0, 0.3},
	} {
		t.Run(f.stream, func(t *testing.T) {
			var gaussian, excess []float64
			for seed := range uint64(2) {
				r := measured(t, f.stream, lca.PresetDensity, 40+seed)
				gaussian, excess = append(gaussian, r.Gaussian), append(excess, r.Excess)
			}
			atMost(t, "nats above a single Gaussian", gaussian, f.gaussian)
			atMost(t, "nats above the truth", excess, f.excess)
		})
	}
}

// TestYoungDensity holds that a stream has what the data choose long before its pool is full: from a third of N rows on, none is worse
// off than with a single Gaussian, and structure is found.
func TestYoungDensity(t *testing.T) {
	const rows = 1000
	for _, f := range []struct {
		stream   string
		gaussian float64 // nats above a single Gaussian
	}{
		{"white noise", 0.1},
		{"t, 1.5 degrees", 0},
		{"lognormal 1.5", 0},
		{"five + 8 noise, mixed", -0.3},
	} {
		t.Run(f.stream, func(t *testing.T) {
			var gaussian []float64
			for seed := range uint64(testSeeds) {
				gaussian = append(gaussian, measuredRows(t, f.stream, lca.PresetDensity, 60+seed, rows).Gaussian)
			}
			atMost(t, "nats above a single Gaussian", gaussian, f.gaussian)
		})
	}
}

// TestClustersInNoise holds that k-means finds five clusters behind ten columns of noise, all of them mixed, in what
// PresetMetric whitens.
func TestClustersInNoise(t *testing.T) {
	const d, n, fresh = 12, 8000, 1500
	var lost []float64 // 1 − the adjusted Rand index
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 19))
		l := five(d-2).mixed(mixing(r, d), make([]float64, d))
		m := learntRows(t, online.DefaultConfig(d), l.rows(r, n))
		x, y, labels := l.rows(r, fresh), new(mat.Dense), make([]int, fresh)
		for i := range labels {
			labels[i] = int(l.cluster(x.RawRowView(i)))
		}
		m.Whiten(y, x)
		lost = append(lost, 1-demo.AdjustedRand(labels, demo.KMeans(y.RawMatrix().Data, d, 5, r)))
	}
	atMost(t, "1 − ARI", lost, 0.03)
	atMost(t, "1 − ARI, worst", []float64{slices.Max(lost)}, 0.06)
}

// TestBrokenRelation holds that rows in which a column is no longer the sum of the others, by 0.3 of its standard deviation, score
// higher than rows in which it is.
func TestBrokenRelation(t *testing.T) {
	const d, n, fresh = 6, 6000, 1000
	r := rand.New(rand.NewPCG(5, 19))
	rows := func(n int) *mat.Dense {
		x := five(d-2).rows(r, n)
		for i := range n {
			row, sum := x.RawRowView(i), 0.0
			for _, v := range row[:d-1] {
				sum += v
			}
			row[d-1] = sum + 0.01*r.NormFloat64()
		}
		return x
	}
	c := online.DefaultConfig(d)
	c.Preset = lca.PresetDensity
	m := learntRows(t, c, rows(n))
	sound, broken := rows(fresh), rows(fresh)
	wide := deviationsOf(sound)[d-1]
	for i := range fresh {
		broken.Set(i, d-1, broken.At(i, d-1)+0.3*wide*float64(2*r.IntN(2)-1))
	}
	if auc := rank(m.LogDensity(nil, sound), m.LogDensity(nil, broken)); auc < 0.99 {
		t.Errorf("AUC %.4f, want at least 0.99", auc)
	}
}

// learntRows is the model that a learner makes of rows.
func learntRows(t testing.TB, c online.Config, x *mat.Dense) *lca.Model {
	t.Helper()
	l, err := online.NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n, d := x.Dims()
	for i := 0; i+c.Minibatch <= n; i += c.Minibatch {
		if _, err := l.Learn(x.Slice(i, i+c.Minibatch, 0, d).(*mat.Dense), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	m, err := l.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rank returns the probability that a value of high exceeds one of low, ties at half.
func rank(high, low []float64) float64 {
	type value struct {
		v    float64
		high bool
	}
	var all []value
	for _, v := range high {
		all = append(all, value{v, true})
	}
	for _, v := range low {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(a, b value) int { return cmp.Compare(a.v, b.v) })
	sum := 0.0
	for i, a := range all {
		if a.high {
			sum += float64(i + 1)
		}
	}
	h := float64(len(high))
	return math.Min(1, (sum-h*(h+1)/2)/(h*float64(len(low))))
}
