// Package timegap tells over how many rows those of a stream depend on each other.
package timegap

import "math"

// Lags is which multiple a gap is of the lag at which the autocorrelation has fallen to 1/e.
const Lags = 3

const (
	// While few rows have come, at least three quarters of them stay admissible for a row at either end.
	gapShare  = 4
	gapMargin = 0.2 // the gap is taken when it differs by more than this share
)

// Gap returns the number of rows within which two rows of the same partition are no neighbours; 0: there are none. was is what it was, and stays where rows tell nothing, or hardly differ.
//
// A sensor that moves
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
func (a *Autocorrelation) Gap(was uint64, neighbours int, finite bool) uint64 {
	if len(a.levels) == 0 {
		return was
	}
	now := a.gap(a.lag(), neighbours)
	if finite && now > 0 && !a.surelyMoves() {
		now = 0
	}
	if math.Abs(float64(now)-float64(was)) > gapMargin*float64(was) {
		return now
	}
	return was
}

// Slowest returns the gap of the slowest column.
func (a *Autocorrelation) Slowest(neighbours int) uint64 { return a.gap(a.longestLag(), neighbours) }

// gap returns the gap that a lag makes.
func (a *Autocorrelation) gap(lag float64, neighbours int) uint64 {
	return min(uint64(math.Ceil(Lags*lag)), uint64(neighbours), a.span/gapShare)
}

// Stretched returns how many rows stand for the given number of independent ones: at most the pool's size, because a
// stream must not wait without end.
func Stretched(rows int, gap uint64, neighbours int) int {
	if gap <= 1 {
		return rows
	}
	return min(rows*int(gap), max(rows, neighbours))
}
