package kernel

import (
	"math"
	"testing"
)

// TestFactorsMakeTheMoments multiplies the factors out and compares with Update.
func TestFactorsMakeTheMoments(t *testing.T) {
	for i, p := range problems() {
		for _, shape := range []Shape{{}, {DOF: 4}} {
			q, z := p.data(uint64(i))
			pool := Neighbours[float64]{Shape: shape}
			pool.Pack(z, p.n, p.dim, p.parzen)
			var m, want Moments
			var s Scratch[float64]
			Update(&want, &s, q, p.rows, &pool, p.ex)
			f := Factors{make([]float64, p.rows*p.dim), make([]float64, p.rows*p.dim), make([]float64, p.n)}
			UpdateFactors(&m, f, &s, q, p.rows, &pool, p.ex, nil)
			if m.Rows != want.Rows || m.Copies != want.Copies {
				t.Errorf("%s: %d rows and %d copies, want %d and %d", p.name, m.Rows, m.Copies, want.Rows, want.Copies)
			}
			for r := range p.rows {
				if m.LSE(r) != want.LSE(r) || m.Admissible[r] != want.Admissible[r] {
					t.Fatalf("%s: row %d has another density", p.name, r)
				}
			}
			for a := range p.dim {
				for b := a; b < p.dim; b++ {
					sum, size := 0.0, 0.0
					add := func(v float64) { sum, size = sum+v, size+math.Abs(v) }
					for r := range p.rows {
						add(f.Residual[r*p.dim+a] * f.Residual[r*p.dim+b])
						add(-f.Mean[r*p.dim+a] * f.Mean[r*p.dim+b])
					}
					for j, w := range f.Weight {
						add(w * z[j*p.dim+a] * z[j*p.dim+b])
					}
					if upper := want.Upper[a*p.dim+b]; !(math.Abs(sum-upper) <= 1e-12*size) {
						t.Fatalf("%s: element %d, %d is %.15g, want %.15g", p.name, a, b, sum, upper)
					}
				}
			}
		}
	}
}

// TestInnerIsFromCoordinates makes the products of the first coordinate and of the others apart.
func TestInnerIsFromCoordinates(t *testing.T) {
	for i, p := range problems() {
		for _, shape := range []Shape{{}, {DOF: 4}} {
			q, z := p.data(uint64(i))
			pool := Neighbours[float64]{Shape: shape}
			pool.Pack(z, p.n, p.dim, p.parzen)
			in := Inner[float64]{Gram: make([]float64, p.rows*p.n), Factor: 2, Rank: min(1, p.parzen), Loss: 1}
			for r := range p.rows {
				in.Left = append(in.Left, q[r*p.dim:][:in.Rank]...)
				for j := range p.n {
					for k := in.Rank; k < p.parzen; k++ {
						in.Gram[r*p.n+j] += 0.5 * q[r*p.dim+k] * z[j*p.dim+k]
					}
				}
			}
			for j := range p.n {
				in.Right = append(in.Right, z[j*p.dim:][:in.Rank]...)
			}
			var m, want Moments
			var s Scratch[float64]
			factors := func() Factors {
				return Factors{make([]float64, p.rows*p.dim), make([]float64, p.rows*p.dim), make([]float64, p.n)}
			}
			f, w := factors(), factors()
			UpdateFactors(&m, f, &s, q, p.rows, &pool, p.ex, &in)
			UpdateFactors(&want, w, &s, q, p.rows, &pool, p.ex, nil)
			if m.Rows != want.Rows || m.Copies != want.Copies {
				t.Errorf("%s: %d rows and %d copies, want %d and %d", p.name, m.Rows, m.Copies, want.Rows, want.Copies)
			}
			tol := 1e-13 * p.scale * p.scale * float64(1+p.dim)
			for r := range p.rows {
				if got, want := m.LSE(r), want.LSE(r); got != want && !(math.Abs(got-want) <= tol) {
					t.Errorf("%s: row %d has %.15g, want %.15g", p.name, r, got, want)
				}
			}
			for j, v := range f.Weight {
				if !(math.Abs(v-w.Weight[j]) <= 100*tol) {
					t.Errorf("%s: point %d weighs %.15g, want %.15g", p.name, j, v, w.Weight[j])
				}
			}
		}
	}
}
