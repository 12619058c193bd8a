package streams

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/clustering"
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
			for _, seed := range few(2) {
				r := measured(t, f.stream, lca.PresetDensity, 40+seed)
				gaussian, excess = append(gaussian, r.Gaussian), append(excess, r.Excess)
			}
			atMost(t, "nats above a single Gaussian", gaussian, f.gaussian)
			atMost(t, "nats above the truth", excess, f.excess)
		})
	}
}

// TestYoungDensity holds that no stream is worse off than with a single Gaussian long before its pool is full, and that structure is found from a
// third of N rows on. The first model, after 400 rows, may be Gaussian kernels, a single Gaussian or t kernels (warmup.go).
func TestYoungDensity(t *testing.T) {
	for _, f := range []struct {
		stream      string
		first, then float64 // nats above a single Gaussian after 500 and 1000 rows
	}{
		{"white noise", 0.1, 0.1},
		{"t, 1.5 degrees", 0, 0},
		{"lognormal 1.5", 0, 0},
		{"five + 8 noise, mixed", 0.15, -0.3},
	} {
		t.Run(f.stream, func(t *testing.T) {
			var first, then []float64
			for _, seed := range few(testSeeds) {
				first = append(first, measuredRows(t, f.stream, lca.PresetDensity, 60+seed, 500).Gaussian)
				then = append(then, measuredRows(t, f.stream, lca.PresetDensity, 60+seed, 1000).Gaussian)
			}
			atMost(t, "nats above a single Gaussian after 500 rows", first, f.first)
			atMost(t, "nats above a single Gaussian after 1000 rows", then, f.then)
		})
	}
}

// TestClustersInNoise holds that k-means finds five clusters behind ten columns of noise, all of them mixed, in what
// PresetMetric whitens.
func TestClustersInNoise(t *testing.T) {
	var lost []float64
	for _, seed := range few(4) {
		lost = append(lost, 1-clustersFound(t, seed))
	}
	atMost(t, "1 − ARI", lost, 0.03)
	atMost(t, "1 − ARI, worst", []float64{slices.Max(lost)}, 0.06)
}

// clustersFound returns the adjusted Rand index of the clusters that k-means finds among mixed columns, whitened by PresetMetric.
func clustersFound(t testing.TB, seed uint64) float64 {
	const d, n, fresh = 12, 8000, 1500
	r := rand.New(rand.NewPCG(seed, 19))
	l := five(d-2).mixed(mixing(r, d), make([]float64, d))
	m := learntRows(t, online.DefaultConfig(d), l.rows(r, n))
	x, y, labels := l.rows(r, fresh), new(mat.Dense), make([]int, fresh)
	for i := range labels {
		labels[i] = int(l.cluster(x.RawRowView(i)))
	}
	m.Whiten(y, x)
	return clustering.AdjustedRand(labels, clustering.KMeans(y.RawMatrix().Data, d, 5, r))
}

// TestBrokenRelation holds that rows in which a column is no longer the sum of the others, by 0.3 of its standard deviation, score
// higher than rows in which it is.
func TestBrokenRelation(t *testing.T) {
	if auc := brokenFound(t, 5); auc < 0.99 {
		t.Errorf("AUC %.4f, want at least 0.99", auc)
	}
}

// brokenFound returns the AUC of the score for such rows.
func brokenFound(t testing.TB, seed uint64) float64 {
	const d, n, fresh = 6, 6000, 1000
	r := rand.New(rand.NewPCG(seed, 19))
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
	return rank(m.LogDensity(nil, sound), m.LogDensity(nil, broken))
}

// BenchmarkFound measures both on RUNS seeds, and writes the means, the standard errors and the least to the file FOUND.
func BenchmarkFound(b *testing.B) {
	var lines []map[string]any
	for _, f := range []struct {
		figure  string
		measure func(t testing.TB, seed uint64) float64
	}{{"clusters", clustersFound}, {"broken relation", brokenFound}} {
		var v []float64
		for seed := range uint64(seeds()) {
			v = append(v, f.measure(b, 1000+seed))
		}
		mean, standardError := spread(v)
		line := map[string]any{"figure": f.figure, "runs": len(v), "found": map[string]float64{"mean": mean, "se": standardError}, "least": slices.Min(v)}
		b.Logf("%v", line)
		lines = append(lines, line)
	}
	b.ReportMetric(0, "ns/op")
	store(b, "FOUND", lines)
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
