package kernel

import (
	"fmt"
	"math"
	"testing"
)

// TestMean compares the means of the pool seen from rows that lack some coordinates with sums over all pairs, and asks for the
// same bits from every implementation and number of goroutines. Without the first coordinates a distance is that of the others,
// of which either the ones or the others are given.
func TestMean(t *testing.T) {
	for _, dof := range []int{0, 1, 2, 4} {
		for _, dim := range []int{2, 5, 23} {
			for _, lacking := range []int{0, 1, dim - 1} {
				t.Run(fmt.Sprint(dof, "/", dim, "/", lacking), func(t *testing.T) {
					meanOf[float64](t, dim, lacking, Shape{dof}, 1e-12)
					meanOf[float32](t, dim, lacking, Shape{dof}, 1e-3)
				})
			}
		}
	}
}

func meanOf[T Float](t *testing.T, dim, lacking int, shape Shape, tol float64) {
	const rows, n = 61, 701
	q, qf := points[T](1, rows, dim, 1.5)
	z, zf := points[T](2, n, dim, 1)
	pool := Neighbours[T]{Shape: shape}
	pool.Pack(z, n, dim, dim)
	square, want := make([]float64, rows), make([]float64, rows*dim)
	for i := range rows {
		for k := range lacking {
			q[i*dim+k], qf[i*dim+k] = 0, 0
		}
		square[i] = NormSquared(qf[i*dim : (i+1)*dim])
		sum := 0.0
		for j := range n {
			delta := 0.0
			for k := lacking; k < dim; k++ {
				e := qf[i*dim+k] - zf[j*dim+k]
				delta += e * e
			}
			w := math.Exp(shape.Log(delta, dim-lacking))
			sum += w
			for k := range dim {
				want[i*dim+k] += w * zf[j*dim+k]
			}
		}
		for k := range dim {
			want[i*dim+k] /= sum
		}
	}
	basis, others := make([]T, lacking*dim), make([]T, (dim-lacking)*dim)
	for k := range dim {
		if k < lacking {
			basis[k*dim+k] = 1
		} else {
			others[(k-lacking)*dim+k] = 1
		}
	}
	var first [2][]T
	Each(func(name string) {
		for _, threads := range []int{1, 3} {
			s := Scratch[T]{Threads: threads, workers: workers{least: 1}}
			for c, complement := range []bool{false, true} {
				var m Marginal[T]
				if complement {
					m.Pack(&s, &pool, others, dim-lacking, true, dim-lacking)
				} else {
					m.Pack(&s, &pool, basis, lacking, false, dim-lacking)
				}
				mean, wide := make([]T, rows*dim), make([]float64, rows*dim)
				Mean(mean, &s, q, square, rows, &pool, &m)
				for k, v := range mean {
					wide[k] = float64(v)
				}
				near(t, fmt.Sprint(name, ", complement ", complement), wide, want, tol)
				if first[c] == nil {
					first[c] = mean
				}
				compare(t, name, mean, first[c])
			}
		}
	})
}

// TestMeanOverflow: a row that has overflowed has no mean, and the others of its block keep theirs.
func TestMeanOverflow(t *testing.T) {
	q, _ := points[float64](1, 9, 4, 1)
	z, _ := points[float64](2, 50, 4, 1)
	for _, dof := range []int{0, 1, 4} {
		pool := Neighbours[float64]{Shape: Shape{dof}}
		pool.Pack(z, 50, 4, 4)
		var s Scratch[float64]
		var m Marginal[float64]
		m.Pack(&s, &pool, nil, 0, false, 2)
		square, want, got := make([]float64, 9), make([]float64, 36), make([]float64, 36)
		Mean(want, &s, q, square, 9, &pool, &m)
		rows := append([]float64(nil), q...)
		rows[3*4+1] = math.Inf(1)
		Mean(got, &s, rows, square, 9, &pool, &m)
		for k := range 4 {
			if v := got[3*4+k]; v == v {
				t.Errorf("coordinate %d of the mean of a row beyond all numbers is %v", k, v)
			}
		}
		copy(got[3*4:], want[3*4:4*4])
		compare(t, "the others", got, want)
	}
}
