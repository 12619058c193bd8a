package online

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// Squares of larger numbers overflow on the way to a covariance. A row with one is scored but never learnt.
const absurd = 1e140

// check refuses a minibatch that cannot be learnt, before any state changes. It returns its rows, row-major, and the
// magnitude of its largest number.
func (l *Learner) check(x *mat.Dense, ids []uint64, partitions []int32) (rows []float64, largest magnitude, err error) {
	n, d := x.Dims()
	if d != l.cfg.Dim {
		return nil, 0, fmt.Errorf("lca: minibatch has %d columns, the learner %d: start a new model for other features", d, l.cfg.Dim)
	}
	if ids != nil && len(ids) != n {
		return nil, 0, fmt.Errorf("lca: minibatch has %d rows and %d identities", n, len(ids))
	}
	if partitions != nil && len(partitions) != n {
		return nil, 0, fmt.Errorf("lca: minibatch has %d rows and %d partitions", n, len(partitions))
	}
	raw := x.RawMatrix()
	rows = raw.Data[:n*d]
	if raw.Stride != d {
		l.rows = l.rows[:0]
		for i := range n {
			l.rows = append(l.rows, x.RawRowView(i)...)
		}
		rows = l.rows
	}
	if largest = largestOf(rows); largest < magnitudeOf(math.Inf(1)) {
		return rows, largest, nil
	}
	for i, v := range rows {
		if v-v != 0 { // NaN or an infinity
			err = fmt.Errorf("lca: minibatch row %d, column %d is %v: leave such rows out", i/d, i%d, v)
			break
		}
	}
	return nil, 0, err
}

// sanitise returns the rows whose squares do not overflow, with their identities and places; without ids it makes some.
func (l *Learner) sanitise(rows []float64, ids []uint64, partitions []int32, largest magnitude, s *Step) batch {
	d := l.cfg.Dim
	n := len(rows) / d
	s.Rows = n
	if ids == nil {
		l.ids = linalg.Resize(l.ids, n)
		for i := range n {
			l.ids[i] = mix(l.counts.Rows + uint64(i))
		}
		ids = l.ids
	}
	l.places = linalg.Resize(l.places, n)
	for i := range n {
		partition := int32(0)
		if partitions != nil {
			partition = partitions[i]
		}
		l.places[i] = l.clocks.next(partition)
	}
	b := batch{rows, ids, l.places}
	if largest <= magnitudeOf(absurd) {
		return b
	}
	l.kept = l.kept[:0]
	for i := range n {
		if largestOf(rows[i*d:(i+1)*d]) <= magnitudeOf(absurd) {
			l.kept = append(l.kept, i)
		}
	}
	s.Gated = n - len(l.kept)
	return new(batch).pick(b, l.kept, d)
}

// magnitude is a number without its sign, as its bits: see kernel.MaxAbs for their order.
type magnitude uint64

func magnitudeOf(v float64) magnitude { return magnitude(math.Float64bits(v) &^ (1 << 63)) }

func largestOf(x []float64) magnitude { return magnitude(kernel.MaxAbs(x)) }
