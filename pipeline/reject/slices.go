package reject

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/minibatch"
)

// sliceCost is about how many products of numbers are made between two looks at whether the work is
// still wanted: a second or a few. A batch of many columns, or against many neighbours, takes minutes,
// and a group waits 30 s for a member before it gives the partition to another, which would begin the
// same batch, be in the way of the next division, and so on without end.
const sliceCost = 1 << 32

// SliceNumbers is how many numbers of a message are gathered, and whitened, at a time: 1 MiB of float64.
// A message may have a thousand times as many rows as that, and its numbers as float64 eight times as
// many bytes as it decodes to.
const SliceNumbers = 128 << 10

// SliceRows returns the number of rows that cost sliceCost, or hold SliceNumbers numbers, whichever is less.
func SliceRows(dim, neighbourNumbers int) int {
	return min(max(1, sliceCost/max(1, dim*dim+neighbourNumbers)), SliceOf(dim))
}

// SliceOf returns the number of rows of dim numbers that are gathered at a time.
func SliceOf(dim int) int { return max(1, SliceNumbers/max(1, dim)) }

// Readable finds out whether the features can be read from all rows of a record, so that none are used of one
// where they cannot. Where the record is a single slice, rows has it then.
func Readable(f *minibatch.Features, rows *minibatch.Rows, rec arrow.Record) error {
	return GatherEach(f, rows, rec, func(int) error { return nil })
}

// EachSlice gathers a record that is readable slice by slice, and hands each over by its first row. One that is a
// single slice is in rows already.
func EachSlice(f *minibatch.Features, rows *minibatch.Rows, rec arrow.Record, take func(first int) error) error {
	if int(rec.NumRows()) <= SliceOf(f.Dim()) {
		return take(0)
	}
	return GatherEach(f, rows, rec, take)
}

// GatherEach gathers a record slice by slice, and hands each over by its first row.
func GatherEach(f *minibatch.Features, rows *minibatch.Rows, rec arrow.Record, take func(first int) error) error {
	n, step := int(rec.NumRows()), SliceOf(f.Dim())
	if n <= step {
		if err := f.Gather(rows, rec); err != nil {
			return err
		}
		return take(0)
	}
	for first := 0; first < n; first += step {
		part := rec.NewSlice(int64(first), int64(min(first+step, n)))
		err := f.Gather(rows, part)
		part.Release()
		if err == nil {
			err = take(first)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
