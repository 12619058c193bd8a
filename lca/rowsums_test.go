package lca_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// far is rows in clusters, of which the first column is moved by an offset.
func far(rows, d int, offset float64) []float64 {
	r := rand.New(rand.NewPCG(4, 2))
	x := make([]float64, rows*d)
	for i := range x {
		x[i] = float64(float32(r.NormFloat64() + 2*math.Round(r.NormFloat64())))
		if i%d == 0 {
			x[i] += offset
		}
	}
	return x
}

// TestRowSums holds that the mean and the scatter of a part are those of its rows, in both precisions, wherever they lie; and that neither the
// instruction set nor the type of the rows changes a bit.
func TestRowSums(t *testing.T) {
	for _, d := range []int{2, 17, 40} {
		c := lca.DefaultConfig()
		c.MaxIter = 2
		m := fit(t, mat.NewDense(300, d, far(300, d, 0)), c)
		for _, offset := range []float64{0, 1000} {
			x := far(2500, d, offset)
			narrow := make([]float32, len(x))
			for i, v := range x {
				narrow[i] = float32(v)
				x[i] = float64(narrow[i])
			}
			want := lca.Statistics{Mean: make([]float64, d), Scatter: make([]float64, d*(d+1)/2)}
			moments(m, x, &want)
			for precision, tolerance := range map[lca.Precision]float64{lca.Float64: 1e-10, lca.Float32: 1e-5} {
				var first *lca.Statistics
				kernel.Each(func(name string) {
					wide, slim := m.NewAccumulator(precision), m.NewAccumulator(precision)
					wide.Begin(0)
					slim.Begin(0)
					wide.Add(x, ids(0, 2500))
					for from := 0; from < 2500; from += 777 {
						to := min(from+777, 2500)
						slim.AddFloat32(narrow[from*d:to*d], ids(from, to-from))
					}
					got := wide.End()[0]
					if !reflect.DeepEqual(got, slim.End()[0]) {
						t.Errorf("d=%d, %v, %s: rows of float32 have other sums", d, precision, name)
					}
					if first == nil {
						first = got
					} else if !reflect.DeepEqual(got, first) {
						t.Errorf("d=%d, %v: %s has other sums", d, precision, name)
					}
				})
				within(t, "mean", first.Mean, want.Mean, tolerance)
				within(t, "scatter", first.Scatter, want.Scatter, tolerance)
			}
		}
	}
}

// within fails where a number is off by more than a share of the largest.
func within(t *testing.T, what string, got, want []float64, share float64) {
	t.Helper()
	top := max(slices.Max(want), -slices.Min(want))
	for i, v := range want {
		if math.Abs(got[i]-v) > share*top {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], v)
		}
	}
}

// moments sets the mean and the scatter of z = Bᵀ(x−μ), the plainest way.
func moments(m *lca.Model, x []float64, s *lca.Statistics) {
	d, p := m.Dim, m.Parzen()
	rows := len(x) / d
	z := mat.NewDense(rows, d, nil)
	for i := range rows {
		for k := range d {
			v := 0.0
			for l := range d {
				b := 0.0
				if k < p {
					b = m.BL.At(l, k)
				} else {
					b = m.BG.At(l, k-p)
				}
				v += b * (x[i*d+l] - m.Mean[l])
			}
			z.Set(i, k, v)
			s.Mean[k] += v / float64(rows)
		}
	}
	at := 0
	for k := range d {
		for l := k; l < d; l++ {
			for i := range rows {
				s.Scatter[at] += (z.At(i, k) - s.Mean[k]) * (z.At(i, l) - s.Mean[l])
			}
			at++
		}
	}
}
