package lca

import "math"

// Angle returns how far the Parzen subspace has turned from m to other, in radians: the largest
// principal angle between the spans of their B_L, for rows whitened by other's C_G (as they are, where
// other has none). It is 0 where either has no Parzen direction, and NaN where the models have
// different columns.
func (m *Model) Angle(other *Model) float64 {
	if m.Dim != other.Dim {
		return math.NaN()
	}
	if m.Parzen() == 0 || other.Parzen() == 0 {
		return 0
	}
	cov := make([]float64, m.Dim*m.Dim)
	for i := range m.Dim {
		cov[i*m.Dim+i] = 1
		for j := 0; j < m.Dim && other.CG != nil; j++ {
			cov[i*m.Dim+j] = other.CG.At(i, j)
		}
	}
	turned := angle(m.BL, other.BL, cov)
	if turned < 1e-7 {
		return 0 // an arc cosine near 1 keeps half the digits: the rest is rounding
	}
	return turned
}
