package kernel

import (
	"fmt"
	"math"
	"testing"
)

// TestAttract compares pulls and centres with sums over all pairs, and asks for the same bits from every implementation
// and number of goroutines.
func TestAttract(t *testing.T) {
	for _, dof := range []int{0, 3} {
		for _, dim := range []int{1, 5, 16, 23} {
			t.Run(fmt.Sprint(dof, "/", dim), func(t *testing.T) {
				attract[float64](t, dim, Shape{dof}, 1e-12)
				attract[float32](t, dim, Shape{dof}, 1e-4)
			})
		}
	}
}

func attract[T Float](t *testing.T, dim int, shape Shape, tol float64) {
	const rows, n = 61, 700
	q, qf := points[T](1, rows, dim, 1.5)
	z, zf := points[T](2, n, dim, 1)
	pool := Neighbours[T]{Shape: shape}
	pool.Pack(z, n, dim, dim)
	pull, centre := make([]float64, rows), make([]float64, rows*dim)
	for i := range rows {
		logs, top := make([]float64, n), math.Inf(-1)
		delta := make([]float64, n)
		for j := range logs {
			for k := range dim {
				e := qf[i*dim+k] - zf[j*dim+k]
				delta[j] += e * e
			}
			logs[j] = shape.Log(delta[j], dim)
			top = max(top, logs[j])
		}
		sum := 0.0
		for j := range logs {
			logs[j] = math.Exp(logs[j] - top)
			sum += logs[j]
		}
		for j, w := range logs {
			w *= shape.Pull(delta[j], dim) / sum
			pull[i] += w
			for k := range dim {
				centre[i*dim+k] += w * zf[j*dim+k]
			}
		}
		for k := range dim {
			centre[i*dim+k] /= pull[i]
		}
	}
	var first []T
	Each(func(name string) {
		for _, threads := range []int{1, 3} {
			s := Scratch[T]{Threads: threads, workers: workers{least: 1}}
			alone, lse, w, c := make([]float64, rows), make([]float64, rows), make([]float64, rows), make([]T, rows*dim)
			Attract(alone, nil, nil, &s, q, rows, &pool)
			Attract(lse, w, c, &s, q, rows, &pool)
			compare(t, name+": LSE", lse, alone)
			near(t, name+": pull", w, pull, tol)
			wide := make([]float64, len(c))
			for k, v := range c {
				wide[k] = float64(v)
			}
			near(t, name+": centre", wide, centre, 4*tol)
			if first == nil {
				first = c
			}
			compare(t, name+": centre", c, first)
		}
	})
}

// TestAttractOverflow: a row that has overflowed has no centre, and the others of its block keep theirs.
func TestAttractOverflow(t *testing.T) {
	q, _ := points[float64](1, 9, 4, 1)
	z, _ := points[float64](2, 50, 4, 1)
	var pool Neighbours[float64]
	pool.Pack(z, 50, 4, 4)
	var s Scratch[float64]
	pull, centre, lse := make([]float64, 9), make([]float64, 36), make([]float64, 9)
	want := make([]float64, 36)
	Attract(lse, pull, want, &s, q, 9, &pool)
	q[3*4+1] = 1e308
	Attract(lse, pull, centre, &s, q, 9, &pool)
	for k := range 4 {
		if v := centre[3*4+k]; v == v {
			t.Errorf("coordinate %d of the centre of a row beyond all numbers is %v", k, v)
		}
	}
	copy(centre[3*4:], want[3*4:4*4])
	if pull[3] == pull[3] || !math.IsInf(lse[3], -1) {
		t.Errorf("a row beyond all numbers has pull %v and sum %v", pull[3], lse[3])
	}
	compare(t, "the others", centre, want)
}
