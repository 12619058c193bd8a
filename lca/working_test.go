package lca

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestSparseScaleInFit holds that a sparse column is measured as if half of the rows differed.
func TestSparseScaleInFit(t *testing.T) {
	const n = 2000
	r := rand.New(rand.NewPCG(3, 14))
	x := mat.NewDense(n, 2, nil)
	for i := range n {
		x.SetRow(i, []float64{r.NormFloat64(), 7})
		if i%20 == 0 {
			x.Set(i, 1, 7+3*math.Copysign(1, r.NormFloat64()))
		}
	}
	w, err := newWorking(x, UnitRelative)
	if err != nil {
		t.Fatal(err)
	}
	if s := w.Scale[1]; math.Abs(s-3/math.Sqrt2) > 0.05 {
		t.Errorf("scale %.3f of a column that is 3 off in a twentieth of the rows, want 2.121", s)
	}
}
