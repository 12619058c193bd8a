package pipeline

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// maxTurning bounds how many directions are watched for turning.
const maxTurning = 32

// turned returns the principal angles, radians and ascending, by which the most structured directions
// have turned from one model to the next. Those are the directions before the widest gap of the
// spectrum, not all of B_L: where every direction is Parzen the span of B_L is the whole space, and
// between the whole space and itself there is no angle, however the structure moves in it.
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

// structured is the number of Parzen directions before the widest gap, as a ratio of eigenvalues; at
// least one direction is left behind the gap.
func structured(m *lca.Model) int {
	k, widest := 0, 0.0
	for i := 1; i <= min(m.Parzen(), len(m.Ratio)-1, maxTurning); i++ {
		if gap := math.Log(m.Ratio[i] / m.Ratio[i-1]); gap > widest {
			k, widest = i, gap
		}
	}
	return k
}

// leading is a model of the k most structured directions alone, to measure angles with.
func leading(m *lca.Model, k int) *lca.Model {
	part := *m
	part.BL = mat.DenseCopyOf(m.BL.Slice(0, m.Dim, 0, k))
	return &part
}
