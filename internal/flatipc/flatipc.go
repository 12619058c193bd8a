// Package flatipc reads and writes flat messages without the Arrow library. A flat message is an uncompressed IPC
// stream of one batch whose columns are numbers of fixed width, or fixed-size lists of them, without a null. In a batch of one row, columns
// may be text or bytes, too.
//
//	| schema, metadata of the batch | numbers | padding | numbers | padding | end of the stream |
//
// Flat messages of one schema, one number of rows and one length of each text differ in their numbers and texts alone: all other bytes, and where
// these lie, are the same. That is their [Layout]. So a message that has the bytes of a known layout needs no
// decoding, whatever its numbers are, and a message of a known layout is written by copying. [Layouts] keeps those
// that were met last: [Layouts.Match] finds the layout of a message, [Layouts.Fit] that of numbers to be written.
//
// What a flat message holds is passed on as its buffers, in the depth-first order of the Arrow format: for each column
// nil, because there is no validity bitmap, and the numbers; a list has a nil of its own before those of its items, and
// a text its offsets before its bytes.
package flatipc

import (
	"encoding/binary"

	"github.com/apache/arrow/go/v15/arrow"
)

// Record is a record that shows its buffers without making arrays of them. It is flat, and no buffer is longer
// than needed.
type Record interface {
	arrow.Record

	// Buffers appends the buffers of all columns to dst.
	Buffers(dst [][]byte) [][]byte
	// Buffer returns one of those that Buffers appends.
	Buffer(i int) []byte
}

// width is the bytes of a number of the type; 0 for types that are not numbers of fixed width.
func width(t arrow.DataType) int {
	switch t.ID() {
	case arrow.INT8, arrow.UINT8:
		return 1
	case arrow.INT16, arrow.UINT16, arrow.FLOAT16:
		return 2
	case arrow.INT32, arrow.UINT32, arrow.FLOAT32, arrow.DATE32:
		return 4
	case arrow.INT64, arrow.UINT64, arrow.FLOAT64, arrow.DATE64, arrow.TIMESTAMP:
		return 8
	}
	return 0
}

// isText says whether values of the type are text or bytes with offsets of 32 bits.
func isText(t arrow.DataType) bool { return t.ID() == arrow.STRING || t.ID() == arrow.BINARY }

// Count is the number of buffers of a flat column.
func Count(t arrow.DataType) int {
	if isText(t) {
		return 3
	}
	if list, ok := t.(*arrow.FixedSizeListType); ok {
		return 1 + Count(list.Elem())
	}
	return 2
}

// Buffers appends the buffers of a record to dst; ok is false where the record is not flat.
func Buffers(dst [][]byte, rec arrow.Record) (buffers [][]byte, ok bool) {
	if r, ok := rec.(Record); ok {
		return r.Buffers(dst), true
	}
	for _, c := range rec.Columns() {
		if dst, ok = topColumn(dst, c.Data(), int(rec.NumRows())); !ok {
			return dst, false
		}
	}
	return dst, true
}

// topColumn appends the buffers of a column.
func topColumn(dst [][]byte, d arrow.ArrayData, rows int) (buffers [][]byte, ok bool) {
	if rows == 1 && isText(d.DataType()) {
		return text(dst, d)
	}
	return column(dst, d, rows)
}

// text appends the buffers of one text; it begins where its bytes do, and there are no others.
func text(dst [][]byte, d arrow.ArrayData) (buffers [][]byte, ok bool) {
	offsets, bytes := d.Buffers()[1], []byte(nil)
	if b := d.Buffers()[2]; b != nil {
		bytes = b.Bytes()
	}
	if d.NullN() != 0 || d.Offset() != 0 || d.Len() != 1 || offsets == nil || offsets.Len() != 8 ||
		binary.LittleEndian.Uint64(offsets.Bytes()) != uint64(len(bytes))<<32 {
		return dst, false
	}
	return append(dst, nil, offsets.Bytes(), bytes), true
}

func column(dst [][]byte, d arrow.ArrayData, rows int) (buffers [][]byte, ok bool) {
	if d.NullN() != 0 || d.Offset() != 0 || d.Len() != rows {
		return dst, false
	}
	dst = append(dst, nil)
	if t, ok := d.DataType().(*arrow.FixedSizeListType); ok {
		if len(d.Children()) != 1 {
			return dst, false
		}
		return column(dst, d.Children()[0], rows*int(t.Len()))
	}
	size := width(d.DataType())
	if size == 0 || d.Buffers()[1] == nil || d.Buffers()[1].Len() != rows*size {
		return dst, false
	}
	return append(dst, d.Buffers()[1].Bytes()), true
}
