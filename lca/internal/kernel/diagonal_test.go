package kernel

import "testing"

// TestDiagonalIsThatOfUpper holds that the diagonal of Ĉ is the same to the bit where no more of it is formed.
func TestDiagonalIsThatOfUpper(t *testing.T) {
	Each(func(name string) {
		t.Run(name, func(t *testing.T) {
			for i, p := range problems() {
				q, z := p.data(uint64(i))
				for _, shape := range []Shape{{}, {DOF: 3}} {
					diagonalIsThatOfUpper(t, p, shape, convert[float32](q), convert[float32](z))
					diagonalIsThatOfUpper(t, p, shape, q, z)
				}
			}
		})
	})
}

func diagonalIsThatOfUpper[T Float](t *testing.T, p problem, shape Shape, q, z []T) {
	pool := Neighbours[T]{Shape: shape}
	pool.Pack(z, p.n, p.dim, p.parzen)
	s := Scratch[T]{Threads: 2}
	var whole, part Moments
	Update(&whole, &s, q, p.rows, &pool, p.ex)
	ex := p.ex
	ex.Diagonal = true
	Update(&part, &s, q, p.rows, &pool, ex)
	for k := range p.dim {
		if got, want := part.Diagonal[k], whole.Upper[k*p.dim+k]; got != want && (got == got || want == want) {
			t.Fatalf("%s: element %d of the diagonal is %v, of the whole %v", p.name, k, got, want)
		}
	}
}
