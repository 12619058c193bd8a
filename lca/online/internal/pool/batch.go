package pool

import (
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// Batch is rows with their identities and places.
type Batch struct {
	X      []float64 // row-major
	IDs    []uint64
	Places []Place
}

// Len returns the number of rows.
func (b *Batch) Len() int { return len(b.IDs) }

// Part returns some of the rows, with d columns each; it is b's own memory.
func (b Batch) Part(from, to, d int) Batch {
	return Batch{b.X[from*d : to*d], b.IDs[from:to], b.Places[from:to]}
}

// Clone returns a batch with memory of its own.
func (b Batch) Clone() Batch {
	return Batch{slices.Clone(b.X), slices.Clone(b.IDs), slices.Clone(b.Places)}
}

// Append appends rows.
func (b *Batch) Append(a Batch) {
	b.X, b.IDs, b.Places = append(b.X, a.X...), append(b.IDs, a.IDs...), append(b.Places, a.Places...)
}

// Pick copies the given rows of from; they are valid until the next call.
func (b *Batch) Pick(from Batch, kept []int, d int) Batch {
	b.X, b.IDs, b.Places = b.X[:0], b.IDs[:0], b.Places[:0]
	for _, i := range kept {
		b.X = append(b.X, from.X[i*d:(i+1)*d]...)
		b.IDs, b.Places = append(b.IDs, from.IDs[i]), append(b.Places, from.Places[i])
	}
	return *b
}

// Forget drops the oldest rows.
func (b *Batch) Forget(rows, d int) {
	if rows == 0 {
		return
	}
	*b = b.Part(rows, b.Len(), d).Clone()
}

// EqualFirst returns how many of the first rows are equal.
func (b *Batch) EqualFirst(d int) (rows int) {
	for rows < b.Len() && slices.Equal(b.X[rows*d:(rows+1)*d], b.X[:d]) {
		rows++
	}
	return rows
}

// Fields passes the batch to a state or from one, with dim columns.
func (b *Batch) Fields(f *state.Fields, dim int) {
	f.Rows(&b.X)
	f.Words(&b.IDs)
	Places(f, &b.Places, len(b.IDs))
	f.Check(len(b.X) == len(b.IDs)*dim && len(b.Places) == len(b.IDs), "%d numbers, %d identities and %d places of rows of %d columns", len(b.X), len(b.IDs), len(b.Places), dim)
}

// Sample picks rows of from, evenly spaced; turn shifts the choice.
func (b *Batch) Sample(from Batch, rows, turn, d int) Batch {
	n := from.Len()
	if n <= rows {
		return from
	}
	b.X, b.IDs, b.Places = b.X[:0], b.IDs[:0], b.Places[:0]
	for i := range rows {
		k := (i*n/rows + turn) % n
		b.X = append(b.X, from.X[k*d:(k+1)*d]...)
		b.IDs, b.Places = append(b.IDs, from.IDs[k]), append(b.Places, from.Places[k])
	}
	return *b
}
