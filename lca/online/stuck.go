package online

import (
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// stuckTies is the largest share of the pool's rows that repeat a value of a column which never rests at one.
const stuckTies = 0.01

// Sensors that are stuck repeat a value that may be as likely as any, so that no score tells. What tells is that values are equal where they never were.

// isStuck reports whether all rows of a minibatch are equal and hardly any row of the pool is like them, or whether they are in some column which
// otherwise hardly ever has a value twice.
func (l *Learner) isStuck(b batch) bool {
	d := l.cfg.Dim
	if b.len() < kernel.AtomCopies {
		return false
	}
	if b.equalFirst(d) == b.len() && !l.rests(b, 0, d) {
		return true
	}
	for _, k := range l.metric.Active {
		if equalInColumn(b, k, d) && !l.rests(b, k, 1) && !l.repeats(k) {
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

// rests reports whether rows of the pool have the first row's values in that number of columns.
func (l *Learner) rests(b batch, column, columns int) bool {
	equal := 0
	for i := range l.pool.len() {
		if slices.Equal(l.pool.row(i)[column:][:columns], b.x[column:][:columns]) {
			equal++
		}
	}
	return equal >= kernel.AtomCopies
}

// repeats reports whether rows of the pool have a value of that column that another one has.
func (l *Learner) repeats(column int) bool {
	values := make([]float64, l.pool.len())
	for i := range values {
		values[i] = l.pool.row(i)[column]
	}
	slices.Sort(values)
	ties := 0
	for i := range values[1:] {
		if values[i] == values[i+1] {
			ties++
		}
	}
	return float64(ties) > stuckTies*float64(len(values))
}
