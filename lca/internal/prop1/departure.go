package prop1

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

const (
	constantShare = 1e-6  // s of a constant column, as a share of its level,
	constantLeast = 1e-12 // and at least
	linearMost    = 10    // cut is linear up to here
)

// Departure returns by how many nats −log p of a row rises because a column that was constant while it was learnt is at x, and not
// at its level:
//
//	½ cut(|x−level|/s)²,   s = max(10⁻⁶ |level|, 10⁻¹²)
//	cut(v) = 0 for v ≤ 1,  v for v ≤ 10,  10 (1 + log(v/10)) beyond
//
// Nothing is known of how such a column moves. What is known is that it did not, in any row. So s is the rounding of float32 with a margin, which
// is also far above what passes for constant (1e-10 of the level), and any other move counts: one of a hundredth of a percent has 545 nats, more
// than the scores of ordinary rows vary in hundreds of columns. Beyond that cut grows slowly, so that the score of a counter that begins at 0 is a number too.
func Departure(x, level float64) float64 {
	far, unit := math.Abs(x-level), max(constantShare*math.Abs(level), constantLeast)
	v := far / unit
	if v <= 1 {
		return 0
	}
	if v > linearMost { // and perhaps beyond all numbers
		v = linearMost * (1 + math.Log(far) - math.Log(linearMost*unit))
	}
	return 0.5 * v * v
}

// Constants appends to dst which of dim columns have no weight in B: those that were constant while it was learnt.
func (p Parts) Constants(dst []int, dim int) []int {
	for k := range dim {
		if noWeight(p.BG, k) && noWeight(p.BL, k) {
			dst = append(dst, k)
		}
	}
	return dst
}

func noWeight(b *mat.Dense, row int) bool {
	if Columns(b) == 0 {
		return true
	}
	return !slices.ContainsFunc(b.RawRowView(row), func(v float64) bool { return v != 0 })
}
