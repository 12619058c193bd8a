package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

const (
	stuckLonger = 2   // times as long as ever before a sensor that is stuck repeats its value
	stuckRun    = 5   // rows of the pool that a run has at least: fewer may be equal by chance, and far from one another
	stuckSoon   = 2   // minibatches: a run of the pool that began earlier has been learnt, and is as any other
	usualRows   = 256 // rows of the pool that tell a usual value
	stuckHolds  = 2   // rows that a feed has held before, each for half as long, if it holds its last one while the machine is idle
)

// Sensors that are stuck repeat a value that may be as likely as any, so that no score tells. What tells is that values are equal where they never were.

// isStuck reports whether all rows of a minibatch are equal in some column that has never before repeated a value for half as long; or whether they are equal, and
// hardly any row of the pool is like them, nor has it held other rows for half as long. The repetition may have begun within a minibatch that
// was learnt, and gone on in quarantine.
func (l *Learner) isStuck(b batch) bool {
	if b.len() < kernel.AtomCopies {
		return false
	}
	d := l.cfg.Dim
	var order []int
	for _, k := range l.metric.Active {
		if !equalInColumn(b, k, d) {
			continue
		}
		if order == nil {
			order = inOrder(l.pool.places)
		}
		if l.usual(k, b.x[k]) {
			if !l.hasRun(order, k, uint64(b.len()/stuckLonger)) {
				return true
			}
			continue
		}
		same := func(one, other []float64) bool { return one[k] == other[k] }
		if r := l.runs(order, b, same); r.longest() < r.now/stuckLonger {
			return true
		}
	}
	if order == nil || b.equalFirst(d) < b.len() {
		return false
	}
	r := l.runs(order, b, slices.Equal[[]float64])
	return !l.rests(r, b.x[:d]) && !l.holds(r, b.x[:d])
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

// poolRuns are stretches of time in which the pool's rows are equal, in one column or in all.
type poolRuns struct {
	known bool     // the places of the rows are
	rows  []int    // the first of each
	spans []uint64 // rows of the stream, from the first to the last of each
	now   uint64   // the same of the minibatch's run, with that of the pool that it goes on from
	from  place    // where that one began; of no partition: none
}

// usual reports whether a column has that value in most rows of the pool, such as 0 where there are pulses now and then. How long it has it is chance. Some
// rows tell.
func (l *Learner) usual(column int, value float64) bool {
	n, rows := 0, 0
	for i := 0; i < l.pool.len(); i += max(1, l.pool.len()/usualRows) {
		if rows++; l.pool.row(i)[column] == value {
			n++
		}
	}
	return 2*n > rows
}

// hasRun reports whether a column has repeated a value for that number of rows, as far as the pool's rows tell. It looks no further than the first such run, which
// is near the beginning where a column hardly ever has another value: runs takes all of the pool.
func (l *Learner) hasRun(order []int, column int, rows uint64) bool {
	from := 0
	for i, row := range order {
		p, first := l.pool.places[row], l.pool.places[order[from]]
		switch {
		case p.partition == noPartition:
			return true
		case p.partition != first.partition || l.pool.row(row)[column] != l.pool.row(order[from])[column]:
			from = i
		case i-from+1 >= stuckRun && p.at-first.at >= rows:
			return true
		}
	}
	return false
}

// runs finds the runs of the pool. The one that b goes on from is apart, and counts with it. order is that of time.
func (l *Learner) runs(order []int, b batch, same func(one, other []float64) bool) poolRuns {
	d := l.cfg.Dim
	first, last, row := b.places[0], b.places[b.len()-1], b.x[:d]
	goesOn := first.partition == last.partition
	for i := l.warm.len() - 1; goesOn && i >= 0 && l.warm.places[i].partition == first.partition && same(l.warm.x[i*d:(i+1)*d], row); i-- {
		first = l.warm.places[i]
	}
	r := poolRuns{known: l.pool.places[order[0]].partition != noPartition, now: uint64(b.len()), from: place{partition: noPartition}}
	if goesOn {
		r.now = last.at - first.at + 1
	}
	soon := stuckSoon * uint64(l.cfg.Minibatch)
	for from, to := 0, 0; from < len(order); from = to {
		begins := l.pool.places[order[from]]
		for to = from + 1; to < len(order) && l.pool.places[order[to]].partition == begins.partition && same(l.pool.row(order[from]), l.pool.row(order[to])); to++ {
		}
		ends := l.pool.places[order[to-1]]
		newest := to == len(order) || l.pool.places[order[to]].partition != begins.partition
		switch {
		case goesOn && newest && first.near(begins, soon) && same(l.pool.row(order[from]), row):
			r.now, r.from = last.at-begins.at+1, begins
		case to-from >= stuckRun:
			r.rows, r.spans = append(r.rows, order[from]), append(r.spans, ends.at-begins.at)
		}
	}
	return r
}

// longest returns how many rows the longest run spans. Where places are not known, it may be any number.
func (r *poolRuns) longest() (longest uint64) {
	if !r.known {
		return math.MaxUint64
	}
	for _, span := range r.spans {
		longest = max(longest, span)
	}
	return longest
}

// rests reports whether rows of the pool, before the run that goes on, are equal to its rows.
func (l *Learner) rests(r poolRuns, row []float64) bool {
	n := 0
	for i, p := range l.pool.places {
		if slices.Equal(l.pool.row(i), row) && (p.partition != r.from.partition || p.at < r.from.at) {
			n++
		}
	}
	return n >= kernel.AtomCopies
}

// holds reports whether other rows have been held for half as long: a feed repeats its last row while a machine is idle, and each time that is another
// row. At least one of them was learnt: sensors that are stuck again and again are refused each time.
func (l *Learner) holds(r poolRuns, row []float64) bool {
	var held [][]float64
	add := func(one []float64) {
		if !slices.Equal(one, row) && !slices.ContainsFunc(held, func(other []float64) bool { return slices.Equal(one, other) }) {
			held = append(held, one)
		}
	}
	for k, first := range r.rows {
		if r.spans[k] >= r.now/stuckLonger {
			add(l.pool.row(first))
		}
	}
	if !r.known || len(held) == 0 {
		return false
	}
	d := l.cfg.Dim
	for _, refused := range []batch{l.warm, l.recurring.rows} {
		for from, to := 0, 0; from < refused.len(); from = to {
			one := refused.x[from*d : (from+1)*d]
			for to = from + 1; to < refused.len() && slices.Equal(refused.x[to*d:(to+1)*d], one); to++ {
			}
			if refused.places[to-1].partition == refused.places[from].partition && refused.places[to-1].at-refused.places[from].at >= r.now/stuckLonger {
				add(one)
			}
		}
	}
	return len(held) >= stuckHolds
}
