package pipeline

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/flatipc"
)

// leastPieces is how many pieces a message has: what comes before the numbers, x, y and what follows.
const leastPieces = 4

// Pieces is Append without a copy: it appends to dst the pieces of the message, which are buffers of
// rec, of w, and of this Output, and must not be changed. ok is false where the
// layout of the message is not known: then it takes Append.
func (o *Output) Pieces(dst [][]byte, rec arrow.Record, w *Whitened) (pieces [][]byte, ok bool) {
	// Columns are made of y in a buffer that the next message uses again.
	if o.layouts.Empty() || o.config.Layout != LayoutVector {
		return dst, false
	}
	w.check(int(rec.NumRows()), &o.config)
	if o.prepare(rec.Schema(), w.K) != nil || !o.plain(rec, w) {
		return dst, false
	}
	l := o.layouts.Fit(o.parts)
	if l == nil {
		return dst, false
	}
	return l.Pieces(dst, o.parts), true
}

// plain collects the buffers of a message in the order of the format. It is false for a message that is not flat.
func (o *Output) plain(rec arrow.Record, w *Whitened) bool {
	if w.Y == nil || o.config.P && w.P == nil || o.config.Why > 0 || o.config.Models || !allValid(w.Invalid) {
		return false
	}
	o.parts = o.parts[:0]
	if o.config.Passthrough {
		var ok bool
		if o.parts, ok = flatipc.Buffers(o.parts, rec); !ok {
			return false
		}
	}
	switch o.config.Layout {
	case LayoutVector:
		o.parts = append(o.parts, nil, nil, arrow.Float32Traits.CastToBytes(w.Y))
	case LayoutColumns:
		n := len(w.Y) / w.K
		o.columns = slices.Grow(o.columns[:0], len(w.Y))[:len(w.Y)]
		transpose(o.columns, w.Y, n, w.K)
		for j := range w.K {
			o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(o.columns[j*n:(j+1)*n]))
		}
	}
	if o.config.Score {
		o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(w.Score))
	}
	if o.config.P {
		o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(w.P))
	}
	if o.config.Imputed {
		o.parts = append(o.parts, nil, arrow.Int16Traits.CastToBytes(o.imputed(w, int(rec.NumRows()))))
	}
	return true
}
