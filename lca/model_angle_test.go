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

// Two directions that turn by different angles, and the determinant of a metric known by hand.
func TestModelAnglesAndLogDet(t *testing.T) {
	turned := func(a, b float64) *Model {
		return &Model{
			Dim: 4, CG: mat.NewSymDense(4, []float64{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}),
			BL: mat.NewDense(4, 2, []float64{math.Cos(a), 0, math.Sin(a), 0, 0, math.Cos(b), 0, math.Sin(b)}),
			BG: mat.NewDense(4, 2, []float64{-math.Sin(a), 0, math.Cos(a), 0, 0, -2 * math.Sin(b), 0, 2 * math.Cos(b)}),
		}
	}
	got := turned(0, 0).Angles(turned(0.7, 0.2))
	if len(got) != 2 || math.Abs(got[0]-0.2) > 1e-7 || math.Abs(got[1]-0.7) > 1e-7 {
		t.Errorf("angles %v, want 0.2 and 0.7", got)
	}
	// Rotations, except for one axis that is stretched by 2.
	if got := turned(0.7, 0.2).LogDet(); math.Abs(got-math.Log(2)) > 1e-12 {
		t.Errorf("log-determinant %v, want ln 2", got)
	}
	if got := (&Model{Dim: 3}).Angles(planar(0)); got != nil {
		t.Errorf("without a Parzen direction: %v", got)
	}
}
