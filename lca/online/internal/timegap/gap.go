package timegap

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// Lags is which multiple a gap is of the lag at which the autocorrelation has fallen to 1/e.
const Lags = 3

const (
	// While few rows have come, at least three quarters of them stay admissible for a row at either end.
	gapShare  = 4
	gapMargin = 0.2 // the gap is taken when it differs by more than this share
)

// Gap is the number of rows within which two rows of the same partition are no neighbours. A sensor that moves
// slowly has near copies of each row just before and after it: with these as neighbours the kernel fits the movement of
// a second, and each later row is far from all before it. In such a stream rows in a row are hardly more than one, so
// the warm-up (learner.go), the growth of n (config.go) and the patience with a change (restart.go) count rows/gap.
//
// The gap is three times the lag at which the median column's autocorrelation falls
// below 1/e, and 0 where that of adjacent rows is below it already, as in a stream whose rows are independent.
//
// A stream that jumps between levels has a gap too, because it shows a part of what it is at a time. A finite set with
// such jumps has none: it may be sorted, and is known whole at the end.
//
// The warm-up goes by the slowest column instead. A day's cycle in one column of twenty is seen by hours in the rows of a
// minute: a first model of these takes all other hours for outliers. For the neighbours one slow column does not matter,
// because rows that are near in time are near in that column alone.
type Gap struct {
	finite bool   // Config.Finite
	Rows   uint64 // the gap; 0 = none
	most   uint64 // largest gap

	autocorrelation
}

// New returns a gap that is learnt, of a finite set or not, with at most that number of neighbours.
func New(neighbours int, finite bool) Gap { return Gap{most: uint64(neighbours), finite: finite} }

// Fixed returns a gap that learns nothing more.
func Fixed(rows uint64) Gap { return Gap{Rows: rows} }

// Interrupt says that the rows to come do not follow those before.
func (g *Gap) Interrupt() { g.tracks = nil }

// Clone returns the gap of a regime that is left, with figures of its own: rows that come when it returns make no pairs with those before.
func (g *Gap) Clone() Gap {
	now := *g
	now.tracks, now.each, now.levels = nil, nil, slices.Clone(g.levels)
	for i := range now.levels {
		for _, v := range now.levels[i].columns() {
			*v = slices.Clone(*v)
		}
	}
	return now
}

// Learn adds rows to the estimate.
func (g *Gap) Learn(b pool.Batch, d int) { g.autocorrelation.learn(b, d) }

// Stretched returns how many rows stand for the given number of independent ones: at most the pool's size, because a
// stream must not wait without end.
func Stretched(rows int, gap uint64, neighbours int) int {
	if gap <= 1 {
		return rows
	}
	return min(rows*int(gap), max(rows, neighbours))
}

// Slowest returns the gap of the slowest column, for the warm-up.
func (g *Gap) Slowest() uint64 {
	if g.finite && g.Rows == 0 {
		return g.Rows
	}
	return g.Of(g.LongestLag())
}

// Of returns the gap that a lag makes.
func (g *Gap) Of(lag float64) uint64 {
	return min(uint64(math.Ceil(Lags*lag)), g.most, g.seen/gapShare)
}

// Revise computes the gap again.
func (g *Gap) Revise() {
	rows := g.Of(g.lag())
	if g.finite && rows > 0 && !g.surelyMoves() {
		rows = 0
	}
	if math.Abs(float64(rows)-float64(g.Rows)) > gapMargin*float64(g.Rows) {
		g.Rows = rows
	}
}

// Fields passes the gap to a state or from one.
func (g *Gap) Fields(f *state.Fields, dim int) {
	f.U64(&g.Rows)
	g.fields(f, dim)
}
