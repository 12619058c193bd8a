package kernel

import (
	"fmt"
	"math"
	"testing"
)

// fewProblems are the pools of groupedProblems that fit into a Few.
func fewProblems() (all []grouped) {
	for _, p := range groupedProblems() {
		if p.n = 500; FewFit(p.n, p.dim, p.dim) {
			p.z = p.z[:p.n*p.dim]
			for i, v := range p.z {
				p.z[i] = float64(float32(v))
			}
			all = append(all, p)
		}
	}
	return all
}

// fewLSE is the result for a pool whose rows are its points, in calls of that number of rows.
func fewLSE(p grouped, shape Shape, together int) []float64 {
	pool, dst := Few{Shape: shape}, make([]float64, p.rows)
	eye, rows := make([]float64, p.dim*p.dim), make([]float32, len(p.z))
	for k := range p.dim {
		eye[k*p.dim+k] = 1
	}
	for i, v := range p.z {
		rows[i] = float32(v)
	}
	var from Projection
	from.Pack(make([]float64, p.dim), eye, p.dim, p.dim)
	var s FewScratch
	var scratch Scratch[float64]
	pool.Pack(&s, &scratch, &from, rows, p.n)
	for i := 0; i < p.rows; i += together {
		n := min(together, p.rows-i)
		pool.LSE(dst[i:][:n], &s, &scratch, p.q[i*p.dim:], n, &from, rows)
	}
	return dst
}

// TestFew: a score is off by at most two roundings of a float32 of 64 nats, or of itself, and every implementation and every company of
// rows gives the same bits.
func TestFew(t *testing.T) {
	for i, p := range fewProblems() {
		for _, dof := range []int{0, 3} {
			t.Run(fmt.Sprint(p.name, ", ", dof), func(t *testing.T) {
				want, got := exactLSE(p, Shape{dof}), fewLSE(p, Shape{dof}, p.rows)
				if i%8 == 0 { // the generic implementation takes its time
					Each(func(name string) { compare(t, name, fewLSE(p, Shape{dof}, 7), got) })
				}
				compare(t, "one row at a time", fewLSE(p, Shape{dof}, 1), got)
				for i, v := range got {
					if e := math.Abs(v - want[i]); !(e <= 2*math.Exp2(-24)*max(64, math.Abs(want[i]))) {
						t.Fatalf("row %d: %v, want %v: off by %.2g", i, v, want[i], e)
					}
				}
			})
		}
	}
}

// TestFewOfFew: pools of no point, of one and of just more than panels.
func TestFewOfFew(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 511, 512} {
		p := grouped{rows: 3, n: n, dim: 2}
		p.q, _ = points[float64](1, 3, 2, 1)
		p.z, _ = points[float64](2, n, 2, 5)
		near(t, fmt.Sprint(n, " points"), fewLSE(p, Shape{}, 3), exactLSE(p, Shape{}), 1e-5)
	}
	for i, v := range fewLSE(grouped{rows: 3, dim: 2, q: make([]float64, 6)}, Shape{}, 3) {
		if !math.IsInf(v, -1) {
			t.Errorf("row %d has the sum %v over no point", i, v)
		}
	}
}

// TestFewOverflow: a row that is not finite, or beyond float32, has no sum, and the others of its block keep theirs.
func TestFewOverflow(t *testing.T) {
	for _, p := range fewProblems() {
		want := fewLSE(p, Shape{}, p.rows)
		for k, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e200, 1e30} {
			p.q[7*p.dim+k%p.dim] = v
			got := fewLSE(p, Shape{}, p.rows)
			if !math.IsInf(got[7], -1) {
				t.Fatalf("%s: a row with %v has the sum %v", p.name, v, got[7])
			}
			got[7] = want[7]
			compare(t, p.name, got, want)
		}
	}
}
