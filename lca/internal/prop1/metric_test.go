package prop1

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// What plain LCA minimises: tr Σ⁻¹ C + log det Σ.
func divergence(t *testing.T, sigma, c *mat.SymDense) float64 {
	t.Helper()
	var chol mat.Cholesky
	if !chol.Factorize(sigma) {
		t.Fatal("Σ is not positive definite")
	}
	var ratio mat.Dense
	if err := chol.SolveTo(&ratio, c); err != nil {
		t.Fatal(err)
	}
	return mat.Trace(&ratio) + chol.LogDet()
}

// TestProjectIsTheBestOfItsFamily compares each projection of C with others of the same family.
func TestProjectIsTheBestOfItsFamily(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	c := randomCovariance(5, r)
	for name := range families {
		t.Run(name, func(t *testing.T) {
			f, err := FamilyOf(name, 2)
			if err != nil {
				t.Fatal(err)
			}
			best, err := f.Project(c)
			if err != nil {
				t.Fatal(err)
			}
			lowest := divergence(t, best, c)
			for range 50 {
				other, err := f.Project(randomCovariance(5, r))
				if err != nil {
					t.Fatal(err)
				}
				other.ScaleSym(math.Exp(r.NormFloat64()), other)
				if got := divergence(t, other, c); got < lowest {
					t.Fatalf("another Σ of the family has %.9g, the projection %.9g", got, lowest)
				}
			}
		})
	}
}

// TestSplitIsTheBestOfItsFamily holds that the d_P which a family chooses by itself has the lowest bound of all
// d_P, and that its B and its C_L belong together.
func TestSplitIsTheBestOfItsFamily(t *testing.T) {
	const d = 5
	r := rand.New(rand.NewPCG(6, 3))
	for name := range families {
		t.Run(name, func(t *testing.T) {
			f, err := FamilyOf(name, 2)
			if err != nil {
				t.Fatal(err)
			}
			m1, m2 := randomCovariance(d, r), randomCovariance(d, r)
			root, err := InverseRoot(m1)
			if err != nil {
				t.Fatal(err)
			}
			m := MStep{Family: f}
			b, sigma, err := m.Solve(m1, root, m2, Auto)
			if err != nil {
				t.Fatal(err)
			}
			chosen := bound(m1, m2, b)
			for parzen := range d + 1 {
				other, _, err := m.Solve(m1, root, m2, parzen)
				if err != nil {
					t.Fatal(err)
				}
				if got := bound(m1, m2, other); got < chosen-1e-10 { // rounding of a sum of ten terms near 10
					t.Errorf("d_P = %d has the bound %.12g, the family's own choice of %d has %.12g", parzen, got, Columns(b.BL), chosen)
				}
			}
			var inner, both mat.Dense
			if Columns(b.BL) > 0 {
				inner.Mul(b.BL.T(), sigma)
				both.Mul(&inner, b.BL)
				if one := mat.NewDiagDense(Columns(b.BL), ones(Columns(b.BL))); !mat.EqualApprox(&both, one, 1e-9) {
					t.Errorf("B_Lᵀ Σ B_L is not the identity:\n%v", mat.Formatted(&both))
				}
			}
		})
	}
}

// A metric that has no M-step is refused, and never taken for another.
func TestUnknownMetricIsRefused(t *testing.T) {
	if f, err := FamilyOf("invalid(9)", 0); err == nil {
		t.Errorf("it became %T", f)
	}
}

func ones(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}
