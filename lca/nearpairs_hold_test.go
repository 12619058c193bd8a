package lca

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// TestNearPairsHold changes the variances until the pairs that were noted are given up: up to there no pair that was left out may have a weight above e^−40
// of the largest of its row.
func TestNearPairsHold(t *testing.T) {
	const rows, d = 120, 40
	r := rand.New(rand.NewPCG(3, 4))
	x, v := make([]float64, rows*d), make([]float64, d)
	for i := range x {
		x[i] = r.NormFloat64() + 4*float64((i/d%40)*(i%d%3))/10
	}
	for k := range v {
		v[k] = 0.1
	}
	none := func(int) []int32 { return nil }
	p, z, held := new(nearPairs), make([]float64, rows*d), 0
	for step := range 40 {
		for k := range v {
			v[k] *= 1 + 0.01*float64(k%2*2-1)*float64(step)/10
		}
		for i, a := range x {
			z[i] = a / math.Sqrt(v[i%d])
		}
		if err := p.update(context.Background(), z, v, none, 1e-6*d); err != nil {
			t.Fatal(err)
		}
		if p.only {
			held++
		}
		for i := range rows {
			least := math.Inf(1)
			delta := make([]float64, rows)
			for j := range rows {
				kernel.SquaredDistances(delta[j:j+1], z[j*d:][:d], d, z[i*d:][:d])
				if j != i {
					least = min(least, delta[j])
				}
			}
			for j := range rows {
				if p.inner[i*rows+j] == beyondAll && i != j && delta[j] < least-2*negligiblePair {
					t.Fatalf("step %d: pair %d, %d is at %.1f, the nearest at %.1f, and is left out", step, i, j, delta[j], least)
				}
			}
		}
	}
	if held == 0 || held == 40 {
		t.Errorf("the pairs noted were enough in %d of 40 steps, want some", held)
	}
}
