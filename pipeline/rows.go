package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

const (
	// zeroCopyNumbers is how many numbers of small messages are whitened together where they are float32 already: 64
	// KiB. A message with a quarter of that is whitened alone, from where it lies; smaller ones are copied together.
	zeroCopyNumbers = 16 << 10

	// gatheredNumbers is how many numbers of gathered rows are whitened together: 256 KiB of float64, which stay in the
	// L2 cache.
	gatheredNumbers = 32 << 10
)

// mostWhitened bounds the bytes of all that whitening adds to one message: our columns. It is more than
// what 64 MiB of float32 whiten to. Columns of narrower numbers, or of nothing but nulls, would come to gigabytes.
const mostWhitened = 128 << 20

// tooMuch refuses a message that whitens to more than mostWhitened.
func (t *Transform) tooMuch(m *source.Message, features []string) *source.RecordError {
	n, each := m.Record.NumRows(), t.Output.added(features)
	if t.Output.Format.of(m).text() {
		each = t.Output.addedText(features)
	}
	if size := n * each; size > mostWhitened {
		return bad(m, codeOutputTooLarge, fmt.Errorf("%d rows of %d features whiten to %d bytes, at most %d are written; send fewer rows per message", n, len(features), size, mostWhitened))
	}
	return nil
}

// addZeroCopy queues a message whose rows x need no gathering: lists of float32 without a null. That they are
// finite is taken for granted until they are whitened.
func (t *Transform) addZeroCopy(ctx context.Context, m *source.Message, x []float32) error {
	q := &t.queue
	if q.rows > 0 && (q.zeroCopy == nil || len(q.zeroCopy)+len(x) > zeroCopyNumbers) {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	alone := q.rows == 0 && len(x) >= zeroCopyNumbers/4
	switch {
	case alone:
		q.zeroCopy = x
	case q.rows == 0:
		q.near = slices.Grow(q.near, zeroCopyNumbers)
		q.zeroCopy = append(q.near[:0], x...)
	default:
		q.zeroCopy = append(q.zeroCopy, x...)
	}
	n := int(m.Record.NumRows())
	q.invalid = slices.Grow(q.invalid, n)[:q.rows+n]
	clear(q.invalid[q.rows:])
	if t.imputes() {
		q.noneMissing(n)
	}
	q.joined(q.append(m), n)
	if alone {
		return t.flush(ctx)
	}
	return nil
}

// addGathered queues a message after reading its rows as float64.
func (t *Transform) addGathered(ctx context.Context, m *source.Message) error {
	q, d := &t.queue, t.features.Dim()
	n := int(m.Record.NumRows())
	sliced := n > sliceOf(d)
	if q.rows > 0 && (q.zeroCopy != nil || sliced || len(q.gathered)+n*d > cap(q.gathered)) {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	if q.rows == 0 {
		q.room(max(min(n, sliceOf(d))*d, gatheredNumbers))
	}
	if err := t.gather(ctx, q.append(m)); err != nil || !sliced {
		return err
	}
	return t.flush(ctx)
}

// room reserves memory for that number of gathered numbers; there must be none yet.
func (q *queue) room(numbers int) {
	if cap(q.gathered) < numbers {
		q.gathered = make([]float64, 0, numbers)
	}
}

// gather reads the rows of a message of the queue, or finds out why it is set aside. Of one that is larger than a
// slice only the reasons of its rows are kept, so that its rows are never all in memory as float64.
func (t *Transform) gather(ctx context.Context, p *pending) error {
	q, m, d := &t.queue, p.message, t.features.Dim()
	n, used, before := int(m.Record.NumRows()), len(q.gathered), len(q.invalid)
	numbers := min(n, sliceOf(d)) * d
	q.read.X = q.gathered[used : used : used+numbers]
	q.invalid = slices.Grow(q.invalid, n)
	q.read.KeepMissing = t.imputes()
	err := gatherEach(&t.features, &q.read, m.Record, func(int) error {
		q.invalid = append(q.invalid, q.read.Invalid...)
		if t.imputes() {
			q.noteMissing()
		}
		return ctx.Err()
	})
	switch {
	case err == nil:
		p.bad = t.invalid(m, q.invalid[before:])
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		p.bad = refused(m, err)
	}
	switch {
	case p.bad != nil:
		q.invalid, q.missing = q.invalid[:before], q.missing[:min(before, len(q.missing))]
		return nil
	case n*d > numbers:
		q.sliced = m
	default:
		q.gathered = q.gathered[:used+numbers]
	}
	q.joined(p, n)
	return nil
}

// gatherAgain reads all rows of the queue as float64 that were to be whitened from where they lie: that finds out
// which of them are not finite, and what becomes of their messages.
func (t *Transform) gatherAgain(ctx context.Context) error {
	q, d := &t.queue, t.features.Dim()
	rows := q.rows
	q.empty()
	q.room(min(rows, sliceOf(d)) * d)
	for i := range q.pending {
		p := &q.pending[i]
		if p.last == p.first {
			continue
		}
		p.first, p.last = 0, 0
		if err := t.gather(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// stopAtRow is the end of the process at an invalid row, under source.on_invalid: stop.
func stopAtRow(m *source.Message, row int, reason minibatch.Reason) *Stop {
	return &Stop{
		Err:    fmt.Errorf("%s@%d: row %d has a feature that is %v", m.Partition, m.Offset, row, reason),
		Remedy: "fix the producer, or set source.on_invalid to null, impute or dead_letter",
	}
}

// invalid applies source.on_invalid to the rows of a message, and counts.
func (t *Transform) invalid(m *source.Message, reasons []minibatch.Reason) *source.RecordError {
	count := 0
	for i, reason := range reasons {
		if reason == minibatch.ReasonNone {
			continue
		}
		count++
		if bad := t.invalidRow(m, i, reason); bad != nil {
			return bad
		}
	}
	t.counts.rows += uint64(len(reasons) - count)
	return nil
}

// invalidRow applies source.on_invalid to one row, and counts it.
func (t *Transform) invalidRow(m *source.Message, row int, reason minibatch.Reason) *source.RecordError {
	u := t.counts.rejected(reason.String(), 1)
	if u.n == 1 {
		u.partition, u.offset, u.row = m.Partition, m.Offset, row
	}
	if u.n <= looked {
		u.blame(t.features.Unusable(m.Record, row))
	}
	switch t.OnInvalid {
	case NullRow, ImputeRow: // kept, with a null result
	case RejectRow:
		return bad(m, codeRowInvalid, fmt.Errorf("row %d has a feature that is %v", row, reason))
	case StopAtRow:
		return bad(m, codeRowInvalid, stopAtRow(m, row, reason))
	}
	return nil
}
