package lca

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Angle returns how far the Parzen subspace has turned from m to other, in radians: the largest of
// their principal angles. It is 0 where either has no Parzen direction, and NaN where the models have
// different columns.
func (m *Model) Angle(other *Model) float64 {
	all := m.Angles(other)
	switch {
	case m.Dim != other.Dim:
		return math.NaN()
	case m.Parzen() == 0 || other.Parzen() == 0:
		return 0
	case len(all) == 0:
		return math.Pi / 2
	}
	return all[len(all)-1]
}

// Angles returns the principal angles between the spans of the two B_L in radians, ascending, for rows
// whitened by other's C_G (as they are, where other has none). There are as many as the smaller span has
// dimensions; none where either has no Parzen direction or the columns differ.
func (m *Model) Angles(other *Model) []float64 {
	if m.Dim != other.Dim || m.Parzen() == 0 || other.Parzen() == 0 {
		return nil
	}
	cov := make([]float64, m.Dim*m.Dim)
	for i := range m.Dim {
		cov[i*m.Dim+i] = 1
		for j := 0; j < m.Dim && other.CG != nil; j++ {
			cov[i*m.Dim+j] = other.CG.At(i, j)
		}
	}
	w, pair := linalg.Borrow(), new(prop1.Spans)
	defer w.Return()
	all := pair.Angles(prop1.Span{Data: linalg.Elements(m.BL), Columns: m.Parzen()}, prop1.Span{Data: linalg.Elements(other.BL), Columns: other.Parzen()}, m.Dim, cov, w)
	for i, a := range all {
		if a < 1e-7 {
			all[i] = 0 // an arc cosine near 1 keeps half the digits: the rest is rounding
		}
	}
	return all
}

// LogDet returns log|det(B_G, B_L)| over the active columns: by how much the metric concentrates or
// thins out. It enters log p(x) as it is.
func (m *Model) LogDet() float64 {
	b := prop1.Parts{BG: m.BG, BL: m.BL}
	return float64(m.Gaussian()+m.Parzen())/2*math.Log(2*math.Pi) - normaliser(b, kernel.Shape{})
}
