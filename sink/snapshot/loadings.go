package snapshot

import (
	"cmp"
	"math"
	"slices"
)

// Loading is a feature's share of a direction, between −1 and 1.
type Loading struct {
	Feature string  `json:"feature"`
	Weight  float64 `json:"weight"`
}

// Direction is one Parzen direction and the features that weigh most in it.
type Direction struct {
	Eigenvalue float64   `json:"eigenvalue"`
	Features   []Loading `json:"features"`
}

// Directions describes the first Parzen directions, those of the smallest eigenvalue, by the
// features that weigh most in them. A weight is the entry of B_L times the feature's standard
// deviation, so that units do not matter; those of a whole direction have norm 1.
func (s *Snapshot) Directions(directions, features int) []Direction {
	m := s.Model
	out := []Direction{}
	for k := range min(m.Parzen(), directions) {
		all, norm := make([]Loading, m.Dim), 0.0
		for i := range all {
			w := m.BL.At(i, k)
			if m.CG != nil {
				w *= math.Sqrt(m.CG.At(i, i))
			}
			all[i] = Loading{Feature: s.Features[i], Weight: w}
			norm += w * w
		}
		for i := range all {
			all[i].Weight /= max(math.Sqrt(norm), math.SmallestNonzeroFloat64)
		}
		slices.SortStableFunc(all, func(a, b Loading) int { return cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)) })
		out = append(out, Direction{Eigenvalue: m.Ratio[k], Features: all[:min(len(all), features)]})
	}
	return out
}
