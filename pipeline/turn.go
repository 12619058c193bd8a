package pipeline

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// maxTurning bounds the number of directions whose rotation is measured.
const maxTurning = 32

// turned returns the principal angles, in radians and ascending, by which the most structured directions have rotated
// from one model to the next. These are the directions before the widest gap of the spectrum, not all of B_L. If
// every direction is Parzen, B_L spans the whole space, and there is no angle between the whole space and itself,
// however the structure moves in it.
func turned(before, now *PublishedModel) []float64 {
	if before == nil || before.Model.Dim != now.Model.Dim || !slices.Equal(before.Features, now.Features) {
		return nil
	}
	k := structured(now.Model)
	if k == 0 || before.Model.Parzen() < k {
		return nil
	}
	return leading(now.Model, k).Angles(leading(before.Model, k))
}

// structured returns the number of Parzen directions before the widest gap, as a ratio of eigenvalues. At least one
// direction is left behind the gap.
func structured(m *lca.Model) int {
	k, widest := 0, 0.0
	for i := 1; i <= min(m.Parzen(), len(m.Ratio)-1, maxTurning); i++ {
		if gap := math.Log(m.Ratio[i] / m.Ratio[i-1]); gap > widest {
			k, widest = i, gap
		}
	}
	return k
}

// leading returns a model of only the k most structured directions, for measuring angles.
func leading(m *lca.Model, k int) *lca.Model {
	part := *m
	part.BL = mat.DenseCopyOf(m.BL.Slice(0, m.Dim, 0, k))
	return &part
}
