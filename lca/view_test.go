package lca

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// Whatever the view, WᵀW is the metric of its components, and going back gives the model's own W.
func TestViewKeepsTheMetric(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := mat.NewDense(300, 4, nil)
	for i := range 300 {
		side := float64(2*rng.IntN(2) - 1)
		x.SetRow(i, []float64{6*side + rng.NormFloat64(), rng.NormFloat64(), 5 * rng.NormFloat64(), rng.NormFloat64() + side})
	}
	c := DefaultConfig()
	c.MaxIter, c.Nu = 10, 0.2
	m, err := Fit(context.Background(), x, c)
	if err != nil {
		t.Fatal(err)
	}
	if m.Gaussian() == 0 || m.Parzen() == 0 {
		t.Fatalf("d_G = %d and d_P = %d: the case needs both parts", m.Gaussian(), m.Parzen())
	}
	turn := mat.NewDense(4, 4, []float64{0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0.6, 0.8, 0, 0, -0.8, 0.6})
	var turned mat.Dense
	turned.Mul(turn, m.W)
	aligned := *m
	aligned.W = &turned
	for _, coords := range []Coordinates{CoordinatesAligned, CoordinatesComponents, CoordinatesSymmetric} {
		for _, comps := range AllComponents() {
			v, err := aligned.View(coords, comps)
			if err != nil {
				t.Fatal(err)
			}
			var b *mat.Dense
			switch comps {
			case ComponentsAll:
				b = m.parts().Joined()
			case ComponentsParzen:
				b = m.BL
			case ComponentsWeighted:
				b = m.parts().Weighted()
			}
			var got, want mat.Dense
			got.Mul(v.W.T(), v.W)
			want.Mul(b, b.T())
			if d := largest(&got, &want); d > 1e-10*mat.Max(&want) { // rounding of two products of 4×4 matrices
				t.Errorf("%v, %v: WᵀW is off by %g", coords, comps, d)
			}
		}
	}
	parzen, err := aligned.View(CoordinatesAligned, ComponentsParzen)
	if err != nil {
		t.Fatal(err)
	}
	var root, want mat.Dense
	root.CloneFrom(whitening(m.parts(), CoordinatesSymmetric, ComponentsParzen))
	want.Mul(turn, &root)
	if d := largest(parzen.W, &want); d > 1e-9 {
		t.Errorf("the Parzen view is not in the model's rotation: off by %g", d)
	}
}

func largest(a, b *mat.Dense) (d float64) {
	r, c := a.Dims()
	for i := range r {
		for j := range c {
			d = max(d, math.Abs(a.At(i, j)-b.At(i, j)))
		}
	}
	return d
}
