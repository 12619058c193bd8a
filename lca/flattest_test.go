package lca

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// TestDescend holds that directions end in local minima of the fourth moment, among them the one along which the rows are in two clusters.
func TestDescend(t *testing.T) {
	const n, d, starts = 400, 6, 30
	r := rand.New(rand.NewPCG(1, 31))
	z, w := mat.NewDense(n, d, nil), mat.NewDense(starts, d, nil)
	for i := range n {
		for k := range d {
			z.Set(i, k, r.NormFloat64())
		}
		z.Set(i, 0, 0.3*z.At(i, 0)+float64(2*(i%2)-1))
	}
	for s := range starts {
		for k := range d {
			w.Set(s, k, r.NormFloat64())
		}
		normalise(w.RawRowView(s))
	}
	moment := func(w []float64) (sum float64) {
		for i := range n {
			u := floats.Dot(z.RawRowView(i), w)
			sum += u * u * u * u / n
		}
		return sum
	}
	ends, err := descend(t.Context(), w, z)
	if err != nil {
		t.Fatal(err)
	}
	if len(ends) == 0 || len(ends) > starts {
		t.Fatalf("%d directions of %d starts", len(ends), starts)
	}
	nearest := 0.0
	for i, v := range ends {
		nearest = max(nearest, math.Abs(v.w[0]))
		// To the second order in the step; the slope that is left is below a hundredth of the moment.
		if got := moment(v.w); math.Abs(got-v.fourth) > 1e-9*got {
			t.Errorf("direction %d: moment %v, said to be %v", i, got, v.fourth)
		}
		for range 20 {
			const step = 0.05
			near := make([]float64, d)
			for k := range near {
				near[k] = v.w[k] + step/math.Sqrt(d)*r.NormFloat64()
			}
			normalise(near)
			if got := moment(near); got < v.fourth*(1-4*descentLevel*2*step) {
				t.Errorf("direction %d has moment %v, and %v is near", i, v.fourth, got)
			}
		}
	}
	if nearest < 0.99 {
		t.Errorf("the cosine with the direction of the clusters is at most %v", nearest)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := descend(ended, w, z); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
