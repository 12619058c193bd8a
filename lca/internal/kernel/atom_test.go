package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAtom holds that a row with many near copies that is far from all other neighbours is scored with its copies, and does not count in
// the moments; that with fewer copies they are left out; and that they are, too, where other neighbours are near.
func TestAtom(t *testing.T) {
	const dim, parzen, n = 3, 2, 200
	for _, c := range []struct {
		name   string
		copies int
		at     float64
		atom   bool
	}{{"many, far", AtomCopies, 50, true}, {"few, far", AtomCopies - 1, 50, false}, {"many, near", 3 * AtomCopies, 0, false}} {
		for _, shape := range []Shape{{}, {DOF: 4}} {
			r := rand.New(rand.NewPCG(3, 18))
			z := make([]float64, n*dim)
			for k := range z {
				if z[k] = r.NormFloat64(); k < c.copies*dim {
					z[k] = c.at
				}
			}
			q := append([]float64{c.at, c.at, c.at}, 0.1, 0.2, 0.3)
			pool := Neighbours[float64]{Shape: shape}
			pool.Pack(z, n, dim, parzen)
			ex := Exclusion{NearCopy: NearCopy * dim, Atom: AtomCopies}
			var m, alone, without Moments
			Update(&m, new(Scratch[float64]), q, 2, &pool, ex)
			Update(&alone, new(Scratch[float64]), q[dim:], 1, &pool, ex)
			if m.Atom[0] != c.atom || m.Atom[1] || !m.Used[0] || !m.Used[1] {
				t.Fatalf("%s %v: atoms %v, used %v", c.name, shape, m.Atom, m.Used)
			}
			if c.atom {
				if m.Nearest[0] != 0 || math.Abs(m.Sum[0]-float64(c.copies)) > 1e-6 || m.Admissible[0] != n || m.Copies != 0 || m.Rows != 1 || m.Atoms != 1 {
					t.Errorf("%s %v: %+v", c.name, shape, m)
				}
				for k, v := range m.Upper {
					if v != alone.Upper[k] {
						t.Errorf("%s %v: moments %v, and %v without the row", c.name, shape, m.Upper, alone.Upper)
						break
					}
				}
				continue
			}
			ex.Atom = 0
			if Update(&without, new(Scratch[float64]), q, 2, &pool, ex); m.Sum[0] != without.Sum[0] || m.Copies != c.copies || m.Rows != 2 {
				t.Errorf("%s %v: a sum of %v, and %v where no copies count; %d copies", c.name, shape, m.Sum[0], without.Sum[0], m.Copies)
			}
		}
	}
}
