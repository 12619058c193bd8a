package lca

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// planar is a model of three columns, standard deviations 1, 1000 and 1, whose one Parzen direction
// lies in the plane of the first two, at an angle in units of those deviations.
func planar(angle float64) *Model {
	return &Model{
		Dim: 3,
		CG:  mat.NewSymDense(3, []float64{1, 0, 0, 0, 1e6, 0, 0, 0, 1}),
		BL:  mat.NewDense(3, 1, []float64{math.Cos(angle), math.Sin(angle) / 1000, 0}),
		BG:  &mat.Dense{},
	}
}

func TestModelAngle(t *testing.T) {
	for _, want := range []float64{0, 0.1, 1, math.Pi / 2} {
		a, b := planar(0.3), planar(0.3+want)
		// acos near 1 keeps half the digits: an angle of 0 may come out as √ε.
		if got := a.Angle(b); math.Abs(got-want) > 1e-7 {
			t.Errorf("angle %v, want %v: units must not matter", got, want)
		}
		if there, back := a.Angle(b), b.Angle(a); math.Abs(there-back) > 1e-7 {
			t.Errorf("%v there, %v back", there, back)
		}
	}
	none := planar(0)
	none.BL = &mat.Dense{}
	if got := none.Angle(planar(1)); got != 0 {
		t.Errorf("without a Parzen direction: %v", got)
	}
	wider := &Model{Dim: 4}
	if got := wider.Angle(planar(1)); !math.IsNaN(got) {
		t.Errorf("of different columns: %v", got)
	}
}
