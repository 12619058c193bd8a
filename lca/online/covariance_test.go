package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestStreamIsAffine holds that with ν C_G a stream in another basis is learnt alike: the scores of fresh rows differ by
// log|det A| alone. The unit and the starts of a search are of the basis, so they are not left to the data; ν and the kernel are. 40 minibatches in float64 multiply the rounding of the change of basis.
func TestStreamIsAffine(t *testing.T) {
	const d, n, fresh = 5, 4000, 200
	r := rand.New(rand.NewPCG(4, 1))
	x := mixture(4, d, 3)(r, n+fresh)
	a := mat.NewDense(d, d, nil)
	a.Apply(func(i, j int, _ float64) float64 { return r.NormFloat64() + 10*float64((i+1)/(j+1)) }, a)
	logDet, _ := mat.LogDet(a)
	y := mat.NewDense(n+fresh, d, nil)
	y.Mul(x, a.T())
	score := func(c Config, x *mat.Dense) []float64 {
		m := learned(t, c, mat.DenseCopyOf(x.Slice(0, n, 0, d)), sequence(0, n))
		return m.LogDensity(nil, x.Slice(n, n+fresh, 0, d).(*mat.Dense))
	}
	for _, metric := range []lca.Metric{lca.MetricFull, lca.MetricIsotropic} {
		c := streamConfig(d)
		c.Metric, c.Precision, c.Nu, c.Kernel = metric, lca.Float64, lca.Auto, lca.KernelAuto
		p, q := score(c, x), score(c, y)
		for i := range p {
			if off := math.Abs(q[i] + logDet - p[i]); !(off <= 1e-4) {
				t.Fatalf("%v: row %d has %.6f nats, in the other basis %.6f", metric, i, -p[i], -q[i]-logDet)
			}
		}
	}
}

// TestSpanKnowsNu holds that between splits B_L is found with the same ν C_G that a split has.
func TestSpanKnowsNu(t *testing.T) {
	const d = 5
	c := streamConfig(d)
	c.Precision, c.NuGaussian = lca.Float64, 0.2
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	x := mixture(4, d, 3)(rand.New(rand.NewPCG(4, 1)), 4000)
	for !feed(t, l, mat.DenseCopyOf(x.Slice(0, 100, 0, d)), 100)[0].Eigen {
		x = mat.DenseCopyOf(x.Slice(100, x.RawMatrix().Rows, 0, d))
	}
	p := l.metric.parzen
	local := mat.NewDense(d, p, nil)
	for i := range d {
		copy(local.RawRowView(i), l.metric.basis[i*d:][:p])
	}
	var want mat.Dense
	want.Product(local.T(), mat.NewDense(d, d, l.addNu(nil, &l.metric.ColumnScale, make([]float64, d*d), l.cfg.Nu)), local)
	if got := mat.NewDense(p, p, l.metric.nu); !mat.EqualApprox(got, &want, 1e-9) {
		t.Errorf("B_Lᵀ ν C_G B_L is\n%v\nwant\n%v", mat.Formatted(got), mat.Formatted(&want))
	}
}
