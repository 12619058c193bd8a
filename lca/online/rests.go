package online

import (
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// restsLonger is the factor by which a stuck sensor repeats its value longer than it ever did before.
const restsLonger = 2

// rests are the values that columns repeat now. Sensors that are stuck repeat one that may be as likely as any, so that no score tells. What tells is that
// they have never repeated any for half as long. A regime knows the longest of each column, of those that were learnt from the beginning to the end.
type rests struct {
	values  []float64
	rows    []uint64 // that have it
	refused []bool   // whether some of them were
}

// pass goes on by the rows of a minibatch, which are refused or learnt by the regime with these longest rests; nil: they are not known.
func (r *rests) pass(b pool.Batch, refused bool, longest []uint64, d int) {
	if r.values == nil && b.Len() > 0 {
		*r = rests{make([]float64, d), make([]uint64, d), make([]bool, d)}
	}
	for i := 0; i < len(b.X); i += d {
		for k, v := range b.X[i : i+d] {
			if v != r.values[k] {
				if longest != nil && !r.refused[k] {
					longest[k] = max(longest[k], r.rows[k])
				}
				r.values[k], r.rows[k], r.refused[k] = v, 0, false
			}
			r.rows[k]++
			r.refused[k] = r.refused[k] || refused
		}
	}
}

// longestRests returns the longest of each column in rows that are learnt together.
func longestRests(b pool.Batch, d int) []uint64 {
	var r rests
	longest := make([]uint64, d)
	r.pass(b, false, longest, d)
	for k, rows := range r.rows {
		longest[k] = max(longest[k], rows)
	}
	return longest
}

// isStuck reports whether all rows of a minibatch are equal in a column that has now repeated its value for more than twice as long as ever in this regime. Of a
// value that most rows of the pool have, only the minibatch counts.
func (l *changeWatch) isStuck(b pool.Batch) bool {
	d := l.cfg.Dim
	if l.longest == nil || b.Len() == 0 {
		return false
	}
	for _, k := range l.metric.Active {
		if !equalInColumn(b, k, d) {
			continue
		}
		rows, value := uint64(b.Len()), b.X[k]
		if usual := l.usual(k, value); !usual && value == l.rests.values[k] {
			rows += l.rests.rows[k]
		}
		if rows >= kernel.AtomCopies && rows > restsLonger*l.longest[k] {
			return true
		}
	}
	return false
}

// equalInColumn reports whether all rows have the same value in a column.
func equalInColumn(b pool.Batch, column, d int) bool {
	for i := column + d; i < len(b.X); i += d {
		if b.X[i] != b.X[column] {
			return false
		}
	}
	return true
}

// usual reports whether a column has that value in most rows of the pool. How long it has it is then chance, as where there are pulses now and then.
func (l *changeWatch) usual(column int, value float64) bool {
	n, rows := 0, 0
	for i := 0; i < l.pool.Len(); i += max(1, l.pool.Len()/gateRows) {
		if rows++; l.pool.Row(i)[column] == value {
			n++
		}
	}
	return 2*n > rows
}

// restsField passes what a regime knows.
func restsField(f *state.Fields, longest *[]uint64, d int) {
	f.Words(longest)
	f.Check(*longest == nil || len(*longest) == d, "longest rests of %d columns, want %d", len(*longest), d)
}

func (r *rests) fields(f *state.Fields) {
	f.Floats(&r.values)
	f.Words(&r.rows)
	state.List(f, &r.refused, 1, f.Flag)
	f.Check(len(r.rows) == len(r.values) && len(r.refused) == len(r.values), "rests of %d, %d and %d columns", len(r.values), len(r.rows), len(r.refused))
}
