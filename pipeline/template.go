package pipeline

import (
	"bytes"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/minibatch"
)

// template is an output message without its numbers. Messages of one schema and one number of rows
// differ only in the contents of their buffers, as long as these are of fixed width and nothing is
// null: then a message is its metadata, which stays, and the buffers one after the other.
//
// A template is cut from a message that the Arrow library wrote, and kept only if putting the same
// buffers back gives that message again, byte for byte.
type template struct {
	rows    int
	head    []byte // all before the body
	zeros   []byte // to fill up with
	end     []byte // of the stream
	lengths []int  // of the buffers
	size    int    // of the whole message
}

// mostTemplates bounds how many numbers of rows are remembered for a schema: the last ones seen.
const mostTemplates = 16

const bufferAlignment = 8

// newTemplate cuts the message into a template; nil when that does not work out.
func newTemplate(message []byte, body, rows int, parts [][]byte) *template {
	t := &template{rows: rows, head: bytes.Clone(message[:body]), zeros: make([]byte, bufferAlignment), end: []byte(endOfStream), size: len(message)}
	for _, p := range parts {
		t.lengths = append(t.lengths, len(p))
	}
	if !bytes.Equal(t.append(nil, parts), message) {
		return nil
	}
	return t
}

// fits says whether the parts have the lengths of this template.
func (t *template) fits(rows int, parts [][]byte) bool {
	if t.rows != rows || len(t.lengths) != len(parts) {
		return false
	}
	for i, p := range parts {
		if len(p) != t.lengths[i] {
			return false
		}
	}
	return true
}

// append writes the message with the given buffers.
func (t *template) append(dst []byte, parts [][]byte) []byte {
	var zeros [bufferAlignment]byte
	if need := len(dst) + t.size; cap(dst) < need {
		dst = append(make([]byte, 0, need), dst...)
	}
	dst = append(dst, t.head...)
	for _, p := range parts {
		dst = append(dst, p...)
		dst = append(dst, zeros[:-len(p)&(bufferAlignment-1)]...)
	}
	return append(dst, endOfStream...)
}

// pieces is append without copying the buffers.
func (t *template) pieces(dst [][]byte, parts [][]byte) [][]byte {
	dst = append(dst, t.head)
	for _, p := range parts {
		if len(p) > 0 {
			dst = append(dst, p)
		}
		if n := -len(p) & (bufferAlignment - 1); n > 0 {
			dst = append(dst, t.zeros[:n:n])
		}
	}
	return append(dst, t.end)
}

// templated returns the template for the message at hand; nil where there is none.
func (o *Output) templated(rows int) *template {
	for i, t := range o.templates {
		if t.fits(rows, o.parts) {
			o.templates[0], o.templates[i] = t, o.templates[0]
			return t
		}
	}
	return nil
}

// leastPieces is how many pieces a message has: what comes before the numbers, x, y and what follows.
const leastPieces = 4

// Pieces is Append without a copy: it appends to dst the pieces of the message, which are buffers of
// rec, of y and of score, and of this Output, and must not be changed. ok is false where there is no
// template for the message: then it takes Append.
func (o *Output) Pieces(dst [][]byte, rec arrow.Record, y []float32, k int, score []float32, invalid []minibatch.Reason) (pieces [][]byte, ok bool) {
	// Columns are made of y in a buffer that the next message uses again.
	if len(o.templates) == 0 || o.config.Layout != LayoutVector {
		return dst, false
	}
	n := int(rec.NumRows())
	o.checkShapes(n, y, k, score, invalid)
	if y == nil || !allValid(invalid) || o.prepare(rec.Schema(), k) != nil || !o.plain(rec, y, k, score) {
		return dst, false
	}
	t := o.templated(n)
	if t == nil {
		return dst, false
	}
	return t.pieces(dst, o.parts), true
}

// learnTemplate keeps the message just written, which begins at start and has the buffers of o.parts.
func (o *Output) learnTemplate(out []byte, start, rows int) {
	t := newTemplate(out[start:], o.stream.body-start, rows, o.parts)
	if t == nil {
		return
	}
	if len(o.templates) == mostTemplates {
		o.templates = o.templates[:mostTemplates-1]
	}
	o.templates = append(o.templates, t)
}

// plain collects the buffers of a message in the order of the format: from arrays or, cheaper, from a
// record that shows them without being taken apart. It is false for a message that fits no template.
func (o *Output) plain(rec arrow.Record, y []float32, k int, score []float32) bool {
	o.parts = o.parts[:0]
	if r, ok := rec.(interface{ Plain([][]byte) [][]byte }); ok && o.config.Passthrough {
		o.parts = r.Plain(o.parts)
	} else if o.config.Passthrough {
		for _, c := range rec.Columns() {
			if !o.plainColumn(c.Data(), int(rec.NumRows())) {
				return false
			}
		}
	}
	switch o.config.Layout {
	case LayoutVector:
		o.parts = append(o.parts, nil, nil, arrow.Float32Traits.CastToBytes(y))
	case LayoutColumns:
		n := len(y) / k
		o.columns = resize(o.columns, len(y))
		transpose(o.columns, y, n, k)
		for j := range k {
			o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(o.columns[j*n:(j+1)*n]))
		}
	}
	if o.config.Score {
		o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(score))
	}
	return true
}

func (o *Output) plainColumn(d arrow.ArrayData, rows int) bool {
	if d.NullN() != 0 || d.Offset() != 0 || d.Len() != rows {
		return false
	}
	switch t := d.DataType().(type) {
	case *arrow.FixedSizeListType:
		o.parts = append(o.parts, nil) // no validity bitmap
		return len(d.Children()) == 1 && o.plainColumn(d.Children()[0], rows*int(t.Len()))
	case *arrow.Float32Type, *arrow.Float64Type, *arrow.Float16Type, *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type, *arrow.TimestampType, *arrow.Date32Type, *arrow.Date64Type:
		b := d.Buffers()[1]
		if b == nil {
			return false
		}
		o.parts = append(o.parts, nil, b.Bytes())
		return true
	}
	return false
}
