package snapshot

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// A direction that weighs 3 and 4 in standard deviations is 0.6 and 0.8, whatever the units.
func TestDirections(t *testing.T) {
	s := example(3, 1, 2, 1)
	s.Features = []string{"none", "small", "large"}
	s.Model.CG = mat.NewSymDense(3, []float64{1, 0, 0, 0, 1e-4, 0, 0, 0, 1e6})
	s.Model.BL = mat.NewDense(3, 1, []float64{0, 300, -0.004})
	got := s.Directions(5, 2)
	if len(got) != 1 || got[0].Eigenvalue != s.Model.Ratio[0] || len(got[0].Features) != 2 {
		t.Fatalf("got %+v", got)
	}
	for i, want := range []Loading{{"large", -0.8}, {"small", 0.6}} {
		if f := got[0].Features[i]; f.Feature != want.Feature || math.Abs(f.Weight-want.Weight) > 1e-15 {
			t.Errorf("feature %d: %+v, want %+v", i, f, want)
		}
	}
	s.Model.CG = nil
	if got := s.Directions(1, 3); len(got[0].Features) != 3 || got[0].Features[0].Feature != "small" {
		t.Errorf("without C_G weights are the entries of B_L: %+v", got)
	}
}
