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
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

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

// Layout is what flat messages of one schema and one number of rows have in common. It never changes.
type Layout struct {
	Schema *arrow.Schema
	Rows   int64

	size  int     // of the message
	fixed []fixed // all that is not a number or a text
	spans []span  // of the buffers; empty for one without bytes

	offsets []fixed // of texts
	texts   []span  // that must be UTF-8
}

// fixed is bytes that all messages of a layout share.
type fixed struct {
	at    int
	bytes []byte
}

// span is a range of a message.
type span struct{ from, to int }

// mostFixed bounds the bytes that a Layout keeps.
const mostFixed = 1 << 20

// Read returns the layout of a message that was decoded to rec; nil if it is not flat, or if its numbers do not lie in
// the message as they are.
func Read(message []byte, rec arrow.Record) *Layout {
	l := &Layout{Schema: rec.Schema(), Rows: rec.NumRows(), size: len(message)}
	if l.Rows == 0 {
		return nil
	}
	var few [4][]byte
	for _, c := range rec.Columns() {
		buffers, ok := topColumn(few[:0], c.Data(), int(l.Rows))
		if !ok {
			return nil
		}
		for _, b := range buffers {
			s, ok := within(message, b)
			if !ok {
				return nil
			}
			l.spans = append(l.spans, s)
		}
		if t := c.DataType(); isText(t) {
			n := len(l.spans)
			l.offsets = append(l.offsets, fixed{l.spans[n-2].from, bytes.Clone(buffers[1])})
			if t.ID() == arrow.STRING {
				l.texts = append(l.texts, l.spans[n-1])
			}
		}
	}
	if !l.cut(message) {
		return nil
	}
	return l
}

// within returns where b lies in the message; false for a copy, because it was compressed or not aligned.
func within(message, b []byte) (s span, ok bool) {
	if len(b) == 0 {
		return span{}, true
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(message)))
	if len(b) > len(message) || from > uintptr(len(message)-len(b)) {
		return span{}, false
	}
	return span{int(from), int(from) + len(b)}, true
}

// alignment is the multiple of bytes at which the Arrow library begins each buffer.
const alignment = 8

// endBytes are those of the end of the stream.
const endBytes = 8

// Written returns the layout of a message that the Arrow library wrote with these buffers and no others, of which the first begins
// at body; nil unless putting the buffers back gives the message again, byte for byte.
func Written(message []byte, body int, buffers [][]byte) *Layout {
	l := &Layout{size: len(message)}
	at := body
	for _, b := range buffers {
		if len(b) == 0 {
			l.spans = append(l.spans, span{})
			continue
		}
		l.spans = append(l.spans, span{at, at + len(b)})
		if at += len(b) + -len(b)&(alignment-1); at > len(message) {
			return nil
		}
	}
	if at+endBytes != len(message) { // where all are zeros they would be found in other places, too
		return nil
	}
	if !l.cut(message) || !bytes.Equal(l.Append(nil, buffers), message) {
		return nil
	}
	return l
}

// cut keeps what is between the spans; false where these share bytes, or where there is more than is worth comparing.
func (l *Layout) cut(message []byte) bool {
	at, total := 0, 0
	for _, s := range append(l.spans, span{len(message), len(message)}) {
		if s.to == 0 {
			continue
		}
		if total += s.from - at; s.from < at || total > mostFixed {
			return false
		}
		if s.from > at {
			l.fixed = append(l.fixed, fixed{at, bytes.Clone(message[at:s.from])})
		}
		at = s.to
	}
	return true
}

// Buffer returns one buffer of a message of this layout, as it lies there.
func (l *Layout) Buffer(message []byte, i int) []byte {
	s := l.spans[i]
	if s.to == s.from {
		return nil
	}
	return message[s.from:s.to:s.to]
}

// Buffers appends all buffers of a message of this layout to dst.
func (l *Layout) Buffers(dst [][]byte, message []byte) [][]byte {
	for i := range l.spans {
		dst = append(dst, l.Buffer(message, i))
	}
	return dst
}

// Pieces appends to dst the pieces of the message with these buffers, in their order: the buffers that have bytes, and
// between them those of the layout. None of them may be changed.
func (l *Layout) Pieces(dst, buffers [][]byte) [][]byte {
	at, rest := 0, l.fixed
	for i, s := range l.spans {
		if s.to == s.from {
			continue
		}
		if s.from > at {
			dst, rest = append(dst, rest[0].bytes), rest[1:]
		}
		dst, at = append(dst, buffers[i]), s.to
	}
	for _, f := range rest {
		dst = append(dst, f.bytes)
	}
	return dst
}

// Append appends the message with these buffers to dst.
func (l *Layout) Append(dst []byte, buffers [][]byte) []byte {
	if need := len(dst) + l.size; cap(dst) < need {
		dst = append(make([]byte, 0, need), dst...)
	}
	at, rest := 0, l.fixed
	for i, s := range l.spans {
		if s.to == s.from {
			continue
		}
		if s.from > at {
			dst, rest = append(dst, rest[0].bytes...), rest[1:]
		}
		dst, at = append(dst, buffers[i]...), s.to
	}
	for _, f := range rest {
		dst = append(dst, f.bytes...)
	}
	return dst
}

// has reports whether the message is of this layout.
func (l *Layout) has(message []byte) bool {
	if len(message) != l.size {
		return false
	}
	for _, all := range [...][]fixed{l.fixed, l.offsets} {
		for _, f := range all {
			if !bytes.Equal(message[f.at:f.at+len(f.bytes)], f.bytes) {
				return false
			}
		}
	}
	for _, s := range l.texts {
		if !utf8.Valid(message[s.from:s.to]) {
			return false
		}
	}
	return true
}

// takes reports whether the buffers have the lengths of this layout.
func (l *Layout) takes(buffers [][]byte) bool {
	if len(l.spans) != len(buffers) {
		return false
	}
	for i, s := range l.spans {
		if len(buffers[i]) != s.to-s.from {
			return false
		}
	}
	return true
}

// mostLayouts bounds how many layouts are remembered.
const mostLayouts = 16

// Layouts is the layouts that were met last. It is read by many, and written when a layout is met for the first time.
// The zero value is empty.
type Layouts struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*Layout]
}

// Match returns the layout of a message; nil where it is not known.
func (c *Layouts) Match(message []byte) *Layout {
	if list := c.list.Load(); list != nil {
		for _, l := range *list {
			if l.has(message) {
				return l
			}
		}
	}
	return nil
}

// Fit returns the layout that takes these buffers; nil where it is not known. All layouts must be of one schema.
func (c *Layouts) Fit(buffers [][]byte) *Layout {
	if list := c.list.Load(); list != nil {
		for _, l := range *list {
			if l.takes(buffers) {
				return l
			}
		}
	}
	return nil
}

// Learn remembers a layout, unless it is nil. The newest comes first, and the last is forgotten when there are too many.
func (c *Layouts) Learn(l *Layout) {
	if l == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []*Layout{l}
	if was := c.list.Load(); was != nil {
		list = append(list, (*was)[:min(len(*was), mostLayouts-1)]...)
	}
	c.list.Store(&list)
}

// Empty reports whether no layout is known.
func (c *Layouts) Empty() bool { return c.list.Load() == nil }

// Forget forgets all layouts.
func (c *Layouts) Forget() { c.list.Store(nil) }
