package pipeline

import (
	"context"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
)

// imputes reports whether missing features are filled.
func (c *TransformConfig) imputes() bool { return c.OnInvalid == ImputeRow }

// noteMissing takes in how many features the rows that have just been gathered lack, the last ones of the queue. What they lack will
// be filled, so it is no reason for them to be null.
func (q *queue) noteMissing() {
	reasons := q.invalid[len(q.invalid)-q.read.N:]
	for i := range reasons {
		missing := min(q.read.Missing(i), math.MaxInt16)
		q.missing = append(q.missing, int16(missing))
		if missing > 0 {
			reasons[i] = minibatch.ReasonNone
		}
	}
}

// noneMissing is noteMissing for rows that are whitened from where they lie.
func (q *queue) noneMissing(rows int) {
	n := len(q.missing)
	q.missing = slices.Grow(q.missing, rows)[:n+rows]
	clear(q.missing[n:])
}

// fill replaces what is missing in gathered rows.
func (t *Transform) fill(ctx context.Context, x []float64, n int) error {
	if !t.imputes() {
		return nil
	}
	return t.scorer.Impute(ctx, x, n)
}

// imputed returns how many features of each row of the queue have been filled, and counts the rows. A row that turned out to be
// null has none.
func (t *Transform) imputed() []int16 {
	q := &t.queue
	if !t.imputes() {
		return nil
	}
	filled := t.made.filled.take(q.rows)
	for i, n := range q.missing {
		if q.invalid[i] != minibatch.ReasonNone {
			n = 0
		}
		filled[i] = n
		if n > 0 {
			t.counts.imputed++
		}
	}
	return filled
}
