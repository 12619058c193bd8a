package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

const (
	stuckLonger = 2 // times as long as ever before a sensor that is stuck repeats its value
	stuckRun    = 5 // rows of the pool that a run has at least: fewer may be equal by chance, and far from one another
)

// Sensors that are stuck repeat a value that may be as likely as any, so that no score tells. What tells is that values are equal where they never were.

// isStuck reports whether all rows of a minibatch are equal and hardly any row of the pool is like them, or whether they are in some column which
// has never before repeated a value for half as long.
func (l *Learner) isStuck(b batch) bool {
	d := l.cfg.Dim
	if b.len() < kernel.AtomCopies {
		return false
	}
	if b.equalFirst(d) == b.len() && !l.rests(b) {
		return true
	}
	var order []int
	for _, k := range l.metric.Active {
		if !equalInColumn(b, k, d) {
			continue
		}
		if order == nil {
			order = inOrder(l.pool.places)
		}
		if l.longestRun(k, order) < uint64(b.len()/stuckLonger) {
			return true
		}
	}
	return false
}

// equalInColumn reports whether all rows have the same value in a column.
func equalInColumn(b batch, column, d int) bool {
	for i := column + d; i < len(b.x); i += d {
		if b.x[i] != b.x[column] {
			return false
		}
	}
	return true
}

// rests reports whether rows of the pool are equal to the first row.
func (l *Learner) rests(b batch) bool {
	equal := 0
	for i := range l.pool.len() {
		if slices.Equal(l.pool.row(i), b.x[:l.cfg.Dim]) {
			equal++
		}
	}
	return equal >= kernel.AtomCopies
}

// longestRun returns how many rows the longest run of one value in a column spans, as far as the pool's rows tell; order is that of time.
// Where their places are not known, neither is that, and it may be any number.
func (l *Learner) longestRun(column int, order []int) (longest uint64) {
	places, from := l.pool.places, 0
	for i, row := range order {
		p, first := places[row], places[order[from]]
		if p.partition == noPartition {
			return math.MaxUint64
		}
		if p.partition != first.partition || l.pool.row(row)[column] != l.pool.row(order[from])[column] {
			from = i
			continue
		}
		if i-from+1 >= stuckRun {
			longest = max(longest, p.at-first.at)
		}
	}
	return longest
}
