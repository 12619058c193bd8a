package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
)

const (
	gapLags = 3 // a gap is this multiple of the lag at which the autocorrelation has fallen to 1/e

	// While few rows have come, at least three quarters of them stay admissible for a row at either end.
	gapShare = 4
	// The gap is computed again after this number of minibatches, and taken when it differs by more than a fifth.
	gapEvery  = 16
	gapMargin = 0.2
)

// timeGap is the number of rows within which two rows of the same partition are no neighbours. A sensor that moves
// slowly has near copies of each row just before and after it: with these as neighbours the kernel fits the movement of
// a second, and each later row is far from all before it. In such a stream rows in a row are hardly more than one, so
// the warm-up (waiting.go), the growth of n (growth.go) and the patience with a change (restart.go) count rows/gap.
//
// Unless Config.TimeGap is a number, the gap is three times the lag at which the median column's autocorrelation falls
// below 1/e, and 0 where that of adjacent rows is below it already, as in a stream whose rows are independent.
//
// A stream that jumps between levels has a gap too, because it shows a part of what it is at a time. A finite set with
// such jumps has none: it may be sorted, and is known whole at the end.
//
// The warm-up goes by the slowest column instead. A day's cycle in one column of twenty is seen by hours in the rows of a
// minute: a first model of these takes all other hours for outliers. For the neighbours one slow column does not matter,
// because rows that are near in time are near in that column alone.
type timeGap struct {
	fixed  bool   // Config.TimeGap is a number
	finite bool   // Config.Finite
	rows   uint64 // the gap; 0 = none
	most   uint64 // largest gap

	autocorrelation
}

func newTimeGap(c Config) timeGap {
	g := timeGap{most: uint64(c.Neighbours), finite: c.Finite}
	if c.TimeGap != lca.Auto {
		g.fixed, g.rows = true, uint64(c.TimeGap)
	}
	return g
}

// interrupted returns the gap of a regime that is left: rows that come when it returns make no pairs with those before.
func (g *timeGap) interrupted() timeGap {
	now := *g
	now.tracks, now.each = nil, nil
	return now
}

// clone returns the gap of a regime that was left, with figures of its own.
func (g *timeGap) clone() timeGap {
	now := g.interrupted()
	now.levels = slices.Clone(g.levels)
	for i := range now.levels {
		for _, v := range now.levels[i].columns() {
			*v = slices.Clone(*v)
		}
	}
	return now
}

// reviseGap takes the rows of a minibatch in, and from time to time computes the gap again.
func (l *Learner) reviseGap(b batch) {
	l.gap.learn(b, l.cfg.Dim)
	if l.counts.Minibatches%gapEvery == 0 {
		l.gap.revise()
	}
}

// learn adds rows to the estimate.
func (g *timeGap) learn(b batch, d int) {
	if !g.fixed {
		g.autocorrelation.learn(b, d)
	}
}

// stretched returns how many rows stand for the given number of independent ones: at most the pool's size, because a
// stream must not wait without end.
func stretched(rows int, gap uint64, neighbours int) int {
	if gap <= 1 {
		return rows
	}
	return min(rows*int(gap), max(rows, neighbours))
}

// slowest returns the gap of the slowest column, for the warm-up.
func (g *timeGap) slowest() uint64 {
	if g.fixed || g.finite && g.rows == 0 {
		return g.rows
	}
	return g.of(g.longestLag())
}

// of returns the gap that a lag makes.
func (g *timeGap) of(lag float64) uint64 {
	return min(uint64(math.Ceil(gapLags*lag)), g.most, g.seen/gapShare)
}

// revise computes the gap again.
func (g *timeGap) revise() {
	if g.fixed {
		return
	}
	rows := g.of(g.lag())
	if g.finite && rows > 0 && !g.surelyMoves() {
		rows = 0
	}
	if math.Abs(float64(rows)-float64(g.rows)) > gapMargin*float64(g.rows) {
		g.rows = rows
	}
}

func (g *timeGap) write(w *writer) {
	w.u64(g.rows)
	g.autocorrelation.write(w)
}

// read reads a gap, which a configuration with a number replaces.
func (g *timeGap) read(r *reader, dim int) {
	was := timeGap{fixed: g.fixed, finite: g.finite, most: g.most, rows: r.u64()}
	was.autocorrelation.read(r, dim)
	if !g.fixed {
		*g = was
	}
}
