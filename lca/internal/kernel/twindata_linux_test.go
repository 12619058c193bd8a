package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// metricRows is the number of rows from which the metric of a problem is learnt.
const metricRows = 1000

// newProblem draws a minibatch and a pool of one kind, and the C_L of a few EM steps on others.
func newProblem(b *testing.B, kind string, rows, n, dim int) problem {
	b.Helper()
	x := draw(kind, metricRows+rows+n, dim)
	p := problem{dir: b.TempDir(), rows: rows, n: n, dim: dim}
	p.q, p.z = x[metricRows*dim:][:rows*dim], x[(metricRows+rows)*dim:]
	first := problem{rows: metricRows, n: n, dim: dim, q: x[:metricRows*dim], z: p.z}
	first.c = covariance(p.z, n, dim)
	nu := 0.0
	for k := range dim {
		nu += 0.01 * first.c[k*dim+k] / float64(dim)
	}
	for range 4 {
		s := newStepper(first, 1)
		s.run(b)
		for k, v := range s.c { // undo the discount, so that a few steps are enough
			first.c[k] = (v - keep*first.c[k]) / (1 - keep)
		}
		for k := range dim {
			first.c[k*dim+k] += nu
		}
	}
	p.c = first.c
	p.write(b)
	return p
}

func covariance(z []float64, n, dim int) []float64 {
	mean, centred, c := meanOf(z, n, dim), make([]float64, n*dim), make([]float64, dim*dim)
	for k, v := range z {
		centred[k] = v - mean[k%dim]
	}
	var w linalg.Workspace
	w.Product(c, dim, linalg.Dense(centred, dim).T(), linalg.Dense(centred, dim), dim, dim, n, linalg.Set)
	for k := range c {
		c[k] /= float64(n)
	}
	return c
}

// draw returns rawData with an offset of 1 or, for "usps", digits.
func draw(kind string, rows, dim int) []float64 {
	if kind != "usps" {
		return rawData(kind, rows, dim, 1)
	}
	return digits(rows, dim)
}

// digits draws rows that resemble USPS in what matters here: ten classes, each a smooth image with a dozen smooth
// deformations; grey values in [−1, 1], most of them near an end; and little noise.
func digits(rows, dim int) []float64 {
	const classes, ways = 10, 12
	r := rand.New(rand.NewPCG(uint64(dim), 10))
	smooth := func() []float64 {
		v := make([]float64, dim)
		for f := range 8 {
			a, phase := r.NormFloat64()/float64(1+f), 2*math.Pi*r.Float64()
			for k := range v {
				v[k] += a * math.Sin(2*math.Pi*float64(f+1)*float64(k)/float64(dim)+phase)
			}
		}
		return v
	}
	prototypes := make([][]float64, classes*(1+ways))
	for k := range prototypes {
		prototypes[k] = smooth()
	}
	x := make([]float64, rows*dim)
	for i := range rows {
		class := r.IntN(classes) * (1 + ways)
		var by [ways]float64
		for k := range by {
			by[k] = 0.4 * r.NormFloat64()
		}
		for k := range dim {
			v := prototypes[class][k]
			for w, a := range by {
				v += a * prototypes[class+1+w][k]
			}
			x[i*dim+k] = math.Tanh(2*v-1) + 0.05*r.NormFloat64()
		}
	}
	return x
}

// cpuSeconds is the processor time of this thread, and processSeconds of the process.
func cpuSeconds(b *testing.B) float64     { b.Helper(); return clock(b, unix.CLOCK_THREAD_CPUTIME_ID) }
func processSeconds(b *testing.B) float64 { b.Helper(); return clock(b, unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(b *testing.B, id int32) float64 {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		b.Fatal(err)
	}
	return float64(t.Nano()) / 1e9
}
