package lca_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// BenchmarkAccumulator sums rows of 64 columns, half of them Parzen, and next to it runs the kernels alone: projection and E-step in the same precision.
func BenchmarkAccumulator(b *testing.B) {
	const rows, d = 8192, 64
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{256, 3000} {
		x := mat.NewDense(n, d, nil)
		for i := range n {
			for k := range d {
				v := r.NormFloat64()
				if k < d/2 {
					v = .2*v + 3*math.Round(r.NormFloat64())
				}
				x.Set(i, k, v)
			}
		}
		c := lca.DefaultConfig()
		c.MaxIter = 1
		m, err := lca.Fit(context.Background(), x, c)
		if err != nil {
			b.Fatal(err)
		}
		q := make([]float64, 0, rows*d)
		for range rows {
			row := x.RawRowView(r.IntN(n))
			for _, v := range row {
				q = append(q, v+.1*r.NormFloat64())
			}
		}
		all := ids(0, rows)
		for _, precision := range []lca.Precision{lca.Float32, lca.Float64} {
			b.Run(caseName("N=", n, "/", precision, "/sums"), func(b *testing.B) {
				a := m.NewAccumulator(precision)
				a.Begin(0)
				for b.Loop() {
					a.Add(q, all)
				}
				b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
			})
			b.Run(caseName("N=", n, "/", precision, "/kernels"), func(b *testing.B) {
				run := bareIn(precision, m)
				for b.Loop() {
					run(q, rows)
				}
				b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// bareIn returns the kernels alone: projection and E-step of rows under a model, in steps as the Accumulator takes them.
func bareIn(precision lca.Precision, m *lca.Model) func(q []float64, rows int) {
	if precision == lca.Float32 {
		return bare[float32](m)
	}
	return bare[float64](m)
}

func bare[T kernel.Float](m *lca.Model) func(q []float64, rows int) {
	const step = 2048
	d := m.Dim
	w := mat.NewDense(d, d, nil)
	w.Slice(0, m.Parzen(), 0, d).(*mat.Dense).Copy(m.BL.T())
	if m.Gaussian() > 0 {
		w.Slice(m.Parzen(), d, 0, d).(*mat.Dense).Copy(m.BG.T())
	}
	var p kernel.Projection
	p.Pack(m.Mean, w.RawMatrix().Data, d, d)
	var project kernel.Scratch[float64]
	var s kernel.Scratch[T]
	x := make([]float64, len(m.Neighbours))
	for i, v := range m.Neighbours {
		x[i] = float64(v) + m.Mean[i%d]
	}
	z := make([]T, len(x))
	kernel.Project(&p, z, &project, x, len(x)/d)
	var pool kernel.Neighbours[T]
	pool.Pack(z, len(z)/d, d, m.Parzen())
	out := make([]T, step*d)
	var moments kernel.Moments
	ex := kernel.Exclusion{NearCopy: kernel.NearCopy * float64(d)}
	return func(q []float64, rows int) {
		for i := 0; i < rows; i += step {
			kernel.Project(&p, out, &project, q[i*d:(i+step)*d], step)
			kernel.Update(&moments, &s, out, step, &pool, ex)
		}
	}
}
