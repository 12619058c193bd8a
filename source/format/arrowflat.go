package format

import (
	"bytes"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
)

// flat is a record that is taken apart only when its columns are asked for. It holds columns of
// fixed width without a null, alone or in fixed-size lists; then a message whose metadata has the same
// bytes as that of one decoded before has all its numbers in the same places, and whatever these
// numbers are, they are sound. So two comparisons stand for the whole of decoding, and Plain gives
// the numbers as they lie.
type flat struct {
	layout  *flatLayout
	value   []byte
	decoder *arrowDecoder
	once    sync.Once
	whole   arrow.Record
}

// flatLayout is what such messages have in common.
type flatLayout struct {
	schema *arrow.Schema
	rows   int64
	size   int         // of the message
	fixed  []fixedPart // all that is not a number: metadata, padding, the end
	spans  []window    // the buffers in the order of the format; length 0 for a bitmap that is not there
}

// fixedPart is bytes that all messages of a layout share.
type fixedPart struct {
	at    int
	bytes []byte
}

// window is a range of a message.
type window struct{ from, to int }

// mostFlatLayouts bounds the layouts that an arrowDecoder knows, and maxFlatFixed the bytes that each keeps.
const (
	mostFlatLayouts = 16
	maxFlatFixed    = 1 << 20
)

// flatLayouts is read by many and written when a layout is met for the first time.
type flatLayouts struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*flatLayout]
}

// of returns value as a flat record; nil where its layout is not known.
func (c *flatLayouts) of(d *arrowDecoder, value []byte, a *Arena) *flat {
	list := c.list.Load()
	if list == nil {
		return nil
	}
	for _, l := range *list {
		if l.fits(value) {
			f := a.flat()
			f.layout, f.value, f.decoder = l, value, d
			return f
		}
	}
	return nil
}

func (l *flatLayout) fits(value []byte) bool {
	if len(value) != l.size {
		return false
	}
	for _, p := range l.fixed {
		if !bytes.Equal(value[p.at:p.at+len(p.bytes)], p.bytes) {
			return false
		}
	}
	return true
}

// learn remembers the layout of a message that was decoded to rec, if it is flat. The newest comes
// first, and the last is forgotten when there are too many.
func (c *flatLayouts) learn(value []byte, rec arrow.Record) {
	l := &flatLayout{schema: rec.Schema(), rows: rec.NumRows(), size: len(value)}
	if l.rows == 0 {
		return
	}
	for _, col := range rec.Columns() {
		if !l.column(value, col.Data(), int(l.rows)) {
			return
		}
	}
	at, total := 0, 0
	for _, s := range append(l.spans, window{len(value), len(value)}) {
		if s.to == 0 {
			continue // a bitmap that is not there
		}
		if total += s.from - at; s.from < at || total > maxFlatFixed {
			return // numbers that share bytes, or metadata not worth comparing
		}
		if s.from > at {
			l.fixed = append(l.fixed, fixedPart{at, bytes.Clone(value[at:s.from])})
		}
		at = s.to
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []*flatLayout{l}
	if was := c.list.Load(); was != nil {
		list = append(list, (*was)[:min(len(*was), mostFlatLayouts-1)]...)
	}
	c.list.Store(&list)
}

// column adds the buffers of one column; false when it is not flat.
func (l *flatLayout) column(value []byte, d arrow.ArrayData, rows int) bool {
	if d.NullN() != 0 || d.Offset() != 0 || d.Len() != rows {
		return false
	}
	l.spans = append(l.spans, window{})
	if t, ok := d.DataType().(*arrow.FixedSizeListType); ok {
		return len(d.Children()) == 1 && l.column(value, d.Children()[0], rows*int(t.Len()))
	}
	width := flatWidth(d.DataType())
	if width == 0 || d.Buffers()[1] == nil {
		return false
	}
	b := d.Buffers()[1].Bytes()
	if len(b) == 0 || len(b) != rows*width {
		return false
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(value)))
	if from > uintptr(len(value)-len(b)) { // a copy: it was compressed, or not aligned
		return false
	}
	l.spans = append(l.spans, window{int(from), int(from) + len(b)})
	return true
}

// flatWidth is the bytes of a number of the type, 0 for types that are not plain numbers.
func flatWidth(t arrow.DataType) int {
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

// PlainBuffer returns one of the buffers that Plain appends.
func (f *flat) PlainBuffer(i int) []byte {
	s := f.layout.spans[i]
	if s.to == s.from {
		return nil
	}
	return f.value[s.from:s.to:s.to]
}

// Plain appends the buffers of all columns to dst, in the depth-first order of the format: nil for
// each validity bitmap, since nothing is null, and the numbers.
func (f *flat) Plain(dst [][]byte) [][]byte {
	for i := range f.layout.spans {
		dst = append(dst, f.PlainBuffer(i))
	}
	return dst
}

// record takes the message apart.
func (f *flat) record() arrow.Record {
	f.once.Do(func() {
		rec, err := f.decoder.decodeBatches(f.value, nil)
		if err != nil {
			panic("format: internal error: a message of a known layout cannot be decoded: " + err.Error())
		}
		f.whole = rec
	})
	return f.whole
}

var _ arrow.Record = (*flat)(nil)

// Schema, NumRows, NumCols and ColumnName need no column.
func (f *flat) Schema() *arrow.Schema   { return f.layout.schema }
func (f *flat) NumRows() int64          { return f.layout.rows }
func (f *flat) NumCols() int64          { return int64(f.layout.schema.NumFields()) }
func (f *flat) ColumnName(i int) string { return f.layout.schema.Field(i).Name }

// Retain and Release do nothing: the numbers belong to the collector.
func (f *flat) Retain()  {}
func (f *flat) Release() {}

// Columns and the others take the message apart.
func (f *flat) Columns() []arrow.Array           { return f.record().Columns() }
func (f *flat) Column(i int) arrow.Array         { return f.record().Column(i) }
func (f *flat) MarshalJSON() ([]byte, error)     { return f.record().MarshalJSON() }
func (f *flat) NewSlice(i, j int64) arrow.Record { return f.record().NewSlice(i, j) }

// SetColumn returns a record with another column i.
func (f *flat) SetColumn(i int, col arrow.Array) (arrow.Record, error) {
	return f.record().SetColumn(i, col)
}
