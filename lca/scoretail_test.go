package lca

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTailOfFewScores holds how often fresh scores have a p below 0.01, 0.001 and 0.0001, in the mean over many small sets, where scores
// beyond the gate are left out of them, and where they are not.
func TestTailOfFewScores(t *testing.T) {
	pareto := func(xi float64) func(float64) float64 {
		return func(e float64) float64 { return math.Expm1(xi*e) / xi }
	}
	for _, c := range []struct {
		name string
		at   func(e float64) float64 // the score with the probability exp(−e)
		gate float64                 // probability of a score that is refused; 0: none is
		rows int
	}{
		{"exponential", func(e float64) float64 { return e }, 0, 3000},
		{"exponential, with a gate", func(e float64) float64 { return e }, 5e-4, 3000},
		{"light", func(e float64) float64 { return math.Pow(e, 0.8) }, 5e-4, 3000},
		{"heavy", pareto(0.3), 0, 3000},
		{"heavy, with a gate", pareto(0.3), 5e-4, 3000},
		{"heavy, with a gate that refuses much", pareto(0.3), 1e-2, 3000},
		{"few rows", func(e float64) float64 { return e }, 0, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			const sets = 100
			limit, below := math.Inf(1), [3]float64{}
			if c.gate > 0 {
				limit = c.at(-math.Log(c.gate))
			}
			for seed := range uint64(sets) {
				r := rand.New(rand.NewPCG(seed, 18))
				var values []float64
				for len(values) < c.rows {
					if v := c.at(r.ExpFloat64()); v <= limit {
						values = append(values, v)
					}
				}
				s := newScores(values, limit, 1)
				for k, p := range [...]float64{1e-2, 1e-3, 1e-4} {
					below[k] += probabilityBeyond(c.at, s, p) / p / sets
				}
			}
			// A share of 1 is right. Of 300 rows, 30 are beyond u, and less is certain: so p is larger.
			for k, most := range [...]float64{1.1, 1.35, 2} {
				least := [...]float64{0.85, 0.5, 0.2}[k]
				if c.rows < 1000 {
					least = [...]float64{0.7, 0.2, 0}[k]
				}
				if below[k] < least || below[k] > most {
					t.Errorf("p below 1e-%d comes %.2f times as often as it should, want %v to %v", k+2, below[k], least, most)
				}
			}
		})
	}
}

// probabilityBeyond returns how often scores of a law have a p below that one.
func probabilityBeyond(at func(e float64) float64, s *Scores, p float64) float64 {
	low, high := 0.0, 60.0
	for range 60 {
		if e := 0.5 * (low + high); s.P(at(e)) < p {
			high = e
		} else {
			low = e
		}
	}
	return math.Exp(-high)
}

// TestTailOfAlikeScores holds that the tail of scores of which few are independent is longer, and that of one score too, and that both are
// the same for scores in other units.
func TestTailOfAlikeScores(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 18))
	values := make([]float64, 3000)
	for i := range values {
		values[i] = r.ExpFloat64()
	}
	for _, share := range []float64{1, 0.1, 0.001} {
		s := newScores(slices.Clone(values), math.Inf(1), share)
		scaled := make([]float64, len(values))
		for i, v := range values {
			scaled[i] = 1e6 * (v - 3)
		}
		u := newScores(scaled, math.Inf(1), share)
		if math.Abs(u.Tail.Xi-s.Tail.Xi) > 1e-6 || math.Abs(u.Tail.Beta/s.Tail.Beta-1e6) > 1 {
			t.Errorf("share %v: tail %+v, and in other units %+v", share, s.Tail, u.Tail)
		}
		if all := newScores(slices.Clone(values), math.Inf(1), 1); share < 1 && !(s.P(12) > 2*all.P(12)) {
			t.Errorf("share %v: p of 12 is %v, with all independent %v", share, s.P(12), all.P(12))
		}
	}
	for _, beyond := range [][]float64{{1}, {1, 1}, {1e-300, 1}, {1e-12, 1e-12, 1e12}} {
		for _, limit := range []float64{0.5, 1, 1e13, math.Inf(1)} {
			if xi, beta := fitTail(beyond, 0, limit, 1); !(beta > 0) || math.IsInf(beta, 0) || math.IsNaN(xi) {
				t.Errorf("%v cut at %v: xi %v, beta %v", beyond, limit, xi, beta)
			}
		}
	}
}

// TestScoresWithoutTheirPart holds that the score of a row without its part in μ and C_G is that under the moments of the others.
func TestScoresWithoutTheirPart(t *testing.T) {
	values := []float64{-1, 0.5, 2, -0.5, 4}
	moments := func(skip int) (mean, variance float64) {
		n := 0.0
		for i, v := range values {
			if i != skip {
				n, mean = n+1, mean+v
			}
		}
		mean /= n
		for i, v := range values {
			if i != skip {
				variance += (v - mean) * (v - mean) / n
			}
		}
		return mean, variance
	}
	mean, variance := moments(-1)
	for i, v := range values {
		others, theirs := moments(i)
		got, want := withoutOwn(0.5*(v-mean)*(v-mean)/variance, 1/float64(len(values)), 1), 0.5*(v-others)*(v-others)/theirs
		if own := 1 - 1.0/5 - (v-mean)*(v-mean)/variance/5; own > ownLeast && math.Abs(got-want) > 1e-12 {
			t.Errorf("row %v: half a squared distance of %v, want %v", v, got, want)
		}
	}
}
