package ipcguard

import (
	"math/bits"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
)

// Validate checks the values of an array that was loaded, at offset 0, from a checked batch: all
// that a reader would follow without looking. The type of d and f must come from the same schema.
// The values of its dictionaries are checked where these are loaded.
func (s *Stream) Validate(d arrow.ArrayData, f *Field) error {
	if err := s.validate(d, f); err != nil {
		return err
	}
	return nil
}

func (s *Stream) validate(d arrow.ArrayData, f *Field) *Error {
	if err := nulls(d, f); err != nil {
		return err
	}
	if f.Dict != nil {
		return indices(d, f)
	}
	n := d.Len()
	switch f.Kind {
	case Binary, Utf8:
		return stringsOf(d, f, 4)
	case LargeBinary, LargeUtf8:
		return stringsOf(d, f, 8)
	case BinaryView, Utf8View:
		return s.views(d, f)
	case List, Map:
		if err := monotone(f, buffer(d, 1), n, 4, int64(d.Children()[0].Len())); err != nil {
			return err
		}
	case LargeList:
		if err := monotone(f, buffer(d, 1), n, 8, int64(d.Children()[0].Len())); err != nil {
			return err
		}
	case ListView:
		if err := ranges(f, buffer(d, 1), buffer(d, 2), n, 4, int64(d.Children()[0].Len())); err != nil {
			return err
		}
	case LargeListView:
		if err := ranges(f, buffer(d, 1), buffer(d, 2), n, 8, int64(d.Children()[0].Len())); err != nil {
			return err
		}
	case Union:
		if err := unionIDs(d, f); err != nil {
			return err
		}
	case RunEndEncoded:
		if err := runEnds(d, f); err != nil {
			return err
		}
	}
	return s.children(d, f)
}

// children validates the children, and what a map demands of its own: no null entries or keys.
func (s *Stream) children(d arrow.ArrayData, f *Field) *Error {
	for i, c := range d.Children() {
		if err := s.validate(c, &f.Children[i]); err != nil {
			return err
		}
	}
	if f.Kind == Map {
		if entries := d.Children()[0]; entries.NullN() != 0 || entries.Children()[0].NullN() != 0 {
			return errorf(Invalid, "map column %s has null keys or entries", f.Path)
		}
	}
	return nil
}

func buffer(d arrow.ArrayData, i int) []byte {
	if b := d.Buffers()[i]; b != nil {
		return b.Bytes()
	}
	return nil
}

// nulls checks the null count against the bitmap: readers trust either.
func nulls(d arrow.ArrayData, f *Field) *Error {
	if len(d.Buffers()) == 0 || f.Dict == nil && (f.Kind == Null || f.Kind == Union || f.Kind == RunEndEncoded) {
		return nil
	}
	bitmap := buffer(d, 0)
	if bitmap == nil {
		if d.NullN() != 0 {
			return errorf(Invalid, "column %s has %d nulls but no bitmap of them", f.Path, d.NullN())
		}
		return nil
	}
	if got := d.Len() - setBits(bitmap, d.Len()); got != d.NullN() {
		return errorf(Invalid, "column %s says it has %d nulls, its bitmap %d", f.Path, d.NullN(), got)
	}
	return nil
}

// setBits counts the ones among the first n bits.
func setBits(b []byte, n int) (ones int) {
	for ; n >= 64; n, b = n-64, b[8:] {
		ones += bits.OnesCount64(le.Uint64(b))
	}
	for ; n >= 8; n, b = n-8, b[1:] {
		ones += bits.OnesCount8(b[0])
	}
	if n > 0 {
		ones += bits.OnesCount8(b[0] & (1<<n - 1))
	}
	return ones
}

// CountNulls returns how many of the first n bits are zero; bitmap must have that many.
func CountNulls(bitmap []byte, n int) int { return n - setBits(bitmap, n) }

func valid(bitmap []byte, i int) bool { return bitmap == nil || bitmap[i/8]>>(i%8)&1 == 1 }

// integer reads value i of integers of the given width, sign extended where signed.
func integer(b []byte, i, width int, signed bool) int64 {
	switch width {
	case 1:
		if signed {
			return int64(int8(b[i]))
		}
		return int64(b[i])
	case 2:
		if v := le.Uint16(b[2*i:]); signed {
			return int64(int16(v))
		} else {
			return int64(v)
		}
	case 4:
		if v := le.Uint32(b[4*i:]); signed {
			return int64(int32(v))
		} else {
			return int64(v)
		}
	}
	return int64(le.Uint64(b[8*i:])) // uint64 beyond 2^63 turns negative, and is out of any range
}

// indices checks that every index that counts leads into the dictionary.
func indices(d arrow.ArrayData, f *Field) *Error {
	bitmap, values, size := buffer(d, 0), buffer(d, 1), int64(0)
	if dict := d.Dictionary(); dict != nil {
		size = int64(dict.Len())
	}
	ix := &f.Dict.Index
	for i := range d.Len() {
		if v := integer(values, i, ix.Width, ix.Signed); (v < 0 || v >= size) && valid(bitmap, i) {
			return errorf(Invalid, "column %s: index %d in row %d leads outside its dictionary of %d", f.Path, v, i, size)
		}
	}
	return nil
}

// unionIDs checks that every value names a child, and in a dense union a value of that child, none
// before one that came earlier.
func unionIDs(d arrow.ArrayData, f *Field) *Error {
	children := d.DataType().(arrow.UnionType).ChildIDs()
	ids, offsets := buffer(d, 1), []byte(nil)
	if f.Dense {
		offsets = buffer(d, 2)
	}
	var last [128]int64
	for i := range d.Len() {
		id := int8(ids[i])
		if id < 0 || children[id] == arrow.InvalidUnionChildID {
			return errorf(Invalid, "column %s: union id %d in row %d names no child", f.Path, id, i)
		}
		if f.Dense {
			o, size := integer(offsets, i, 4, true), d.Children()[children[id]].Len()
			if o < last[id] || o >= int64(size) {
				return errorf(Invalid, "column %s: union offset %d in row %d (after %d, its child has %d)", f.Path, o, i, last[id], size)
			}
			last[id] = o
		}
	}
	return nil
}

// runEnds checks that run ends rise from 1 to at least the length, with a value for each.
func runEnds(d arrow.ArrayData, f *Field) *Error {
	ends, values := d.Children()[0], d.Children()[1]
	if ends.NullN() != 0 || ends.Len() > values.Len() {
		return errorf(Invalid, "column %s has %d run ends (%d null) for %d values", f.Path, ends.Len(), ends.NullN(), values.Len())
	}
	var last int64
	b, width := buffer(ends, 1), f.Children[0].Width
	for i := range ends.Len() {
		v := integer(b, i, width, true)
		if v <= last {
			return errorf(Invalid, "column %s: run end %d after %d", f.Path, v, last)
		}
		last = v
	}
	if last < int64(d.Len()) {
		return errorf(Invalid, "column %s has %d values, its runs end at %d", f.Path, d.Len(), last)
	}
	return nil
}

// monotone checks n+1 offsets: from 0 or more, never falling, and none beyond size.
func monotone(f *Field, offsets []byte, n, width int, size int64) *Error {
	if n == 0 {
		return nil
	}
	last := int64(0)
	for i := range n + 1 {
		o := integer(offsets, i, width, true)
		if o < last || o > size {
			return errorf(Invalid, "column %s: offset %d in row %d (after %d, of %d)", f.Path, o, i, last, size)
		}
		last = o
	}
	return nil
}

// ranges checks that every list of a list view lies within the child.
func ranges(f *Field, offsets, sizes []byte, n, width int, child int64) *Error {
	for i := range n {
		o, s := integer(offsets, i, width, true), integer(sizes, i, width, true)
		if o < 0 || s < 0 || o > child || s > child-o {
			return errorf(Invalid, "column %s: list of %d at %d in row %d, its child has %d", f.Path, s, o, i, child)
		}
	}
	return nil
}

// stringsOf checks offsets and, for text, UTF-8.
func stringsOf(d arrow.ArrayData, f *Field, width int) *Error {
	offsets, data, n := buffer(d, 1), buffer(d, 2), d.Len()
	if err := monotone(f, offsets, n, width, int64(len(data))); err != nil {
		return err
	}
	if n == 0 || f.Kind == Binary || f.Kind == LargeBinary {
		return nil
	}
	if wholeText(offsets, data, n, width) {
		return nil
	}
	bitmap := buffer(d, 0)
	for i := range n {
		lo, hi := integer(offsets, i, width, true), integer(offsets, i+1, width, true)
		if valid(bitmap, i) && !utf8.Valid(data[lo:hi]) {
			return errorf(Invalid, "column %s: row %d is not UTF-8; send it as binary", f.Path, i)
		}
	}
	return nil
}

// wholeText reports whether all values are UTF-8, at one pass over their bytes: true if together
// they are and none begins within a character.
func wholeText(offsets, data []byte, n, width int) bool {
	lo, hi := integer(offsets, 0, width, true), integer(offsets, n, width, true)
	if !utf8.Valid(data[lo:hi]) {
		return false
	}
	for i := range n {
		if o := integer(offsets, i, width, true); o < hi && !utf8.RuneStart(data[o]) {
			return false
		}
	}
	return true
}

// views checks view headers: length, then 12 bytes of the value itself, or its first 4 bytes,
// a buffer number and an offset there. Views may share bytes, so a few MB can spell terabytes; what
// they spell is therefore bounded.
func (s *Stream) views(d arrow.ArrayData, f *Field) *Error {
	bitmap, heads := buffer(d, 0), buffer(d, 1)
	for i := range d.Len() {
		if !valid(bitmap, i) {
			continue
		}
		h := heads[16*i : 16*i+16]
		value, err := view(h, d, f, i)
		if err != nil {
			return err
		}
		if s.viewed += int64(len(value)); s.viewed > s.limits.Viewed {
			return errorf(TooLarge, "column %s: views of more than %d bytes; send them as plain strings", f.Path, s.limits.Viewed)
		}
		if f.Kind == Utf8View && !utf8.Valid(value) {
			return errorf(Invalid, "column %s: row %d is not UTF-8; send it as binary", f.Path, i)
		}
	}
	return nil
}

func view(h []byte, d arrow.ArrayData, f *Field, row int) ([]byte, *Error) {
	n := int64(int32(le.Uint32(h)))
	if n < 0 {
		return nil, errorf(Invalid, "column %s: row %d has %d bytes", f.Path, row, n)
	}
	if n <= 12 {
		return h[4 : 4+n], nil
	}
	k, o := int64(int32(le.Uint32(h[8:]))), int64(int32(le.Uint32(h[12:])))
	if k < 0 || k >= int64(len(d.Buffers())-2) {
		return nil, errorf(Invalid, "column %s: row %d is in buffer %d of %d", f.Path, row, k, len(d.Buffers())-2)
	}
	data := buffer(d, int(k)+2)
	if o < 0 || o > int64(len(data)) || n > int64(len(data))-o {
		return nil, errorf(Invalid, "column %s: row %d has %d bytes at %d, its buffer %d", f.Path, row, n, o, len(data))
	}
	value := data[o : o+n]
	if string(value[:4]) != string(h[4:8]) {
		return nil, errorf(Invalid, "column %s: row %d does not begin as its view says", f.Path, row)
	}
	return value, nil
}

// layout lays the fields of a schema over the nodes and buffers of a batch, in depth-first order,
// as every reader does.
type layout struct {
	batch                  *Batch
	limits                 Limits
	node, buffer, variadic int // next ones
}

// field takes the node, the buffers and the children of f. Its array must have want values, or at
// least as many where not exact (a child may be longer than its parent needs).
func (l *layout) field(f *Field, want int64, exact bool) *Error {
	if l.node >= len(l.batch.Nodes) {
		return errorf(Invalid, "column %s: the batch has no more than %d arrays", f.Path, l.node)
	}
	n := l.batch.Nodes[l.node]
	l.node++
	switch {
	case n.Len < 0 || n.Nulls < -1 || n.Nulls > n.Len:
		return errorf(Invalid, "column %s has %d values, %d of them null", f.Path, n.Len, n.Nulls)
	case n.Len < want || exact && n.Len != want:
		return errorf(Invalid, "column %s has %d values where %d are needed", f.Path, n.Len, want)
	case n.Len > 1<<40: // any real one is bounded by its buffers; this keeps products from overflowing
		return errorf(TooLarge, "column %s says it has %d values", f.Path, n.Len)
	}
	if f.Dict != nil {
		return l.fixed(&f.Dict.Index, n)
	}
	switch f.Kind {
	case Null:
		return l.weightless(f, n)
	case Bool, Int, Float, Decimal, Date, Time, Timestamp, Interval, FixedSizeBinary, Duration:
		return l.fixed(f, n)
	case Binary, Utf8:
		return l.firstOf(l.validity(f, n), l.offsets(f, n, 4), l.take(f, 0))
	case LargeBinary, LargeUtf8:
		return l.firstOf(l.validity(f, n), l.offsets(f, n, 8), l.take(f, 0))
	case BinaryView, Utf8View:
		return l.views(f, n)
	}
	return l.nested(f, n)
}

// nested lays out the kinds with children. How long a list's child must be is known only from its
// offsets, so Validate checks that.
func (l *layout) nested(f *Field, n Node) *Error {
	switch f.Kind {
	case List, Map:
		return l.firstOf(l.validity(f, n), l.offsets(f, n, 4), l.children(f, 0, false))
	case LargeList:
		return l.firstOf(l.validity(f, n), l.offsets(f, n, 8), l.children(f, 0, false))
	case ListView:
		return l.firstOf(l.validity(f, n), l.take(f, 4*n.Len), l.take(f, 4*n.Len), l.children(f, 0, false))
	case LargeListView:
		return l.firstOf(l.validity(f, n), l.take(f, 8*n.Len), l.take(f, 8*n.Len), l.children(f, 0, false))
	case FixedSizeList:
		if n.Len > (1<<60)/int64(f.Size) {
			return errorf(TooLarge, "column %s says it has %d lists of %d", f.Path, n.Len, f.Size)
		}
		return l.firstOf(l.validity(f, n), l.children(f, n.Len*int64(f.Size), false))
	case Struct:
		if len(f.Children) == 0 {
			return l.firstOf(l.validity(f, n), l.weightless(f, n))
		}
		return l.firstOf(l.validity(f, n), l.children(f, n.Len, false))
	case Union:
		if f.Dense {
			return l.firstOf(l.weightless(f, n), l.take(f, n.Len), l.take(f, 4*n.Len), l.children(f, 0, false))
		}
		return l.firstOf(l.weightless(f, n), l.take(f, n.Len), l.children(f, n.Len, false))
	case RunEndEncoded:
		return l.firstOf(l.weightless(f, n), l.children(f, 0, false))
	}
	return errorf(Unsupported, "column %s has type number %d", f.Path, f.Kind)
}

// firstOf returns the first error. Its arguments run in order, each taking its part of the batch;
// after an error the later ones may run, but read nothing outside the batch.
func (l *layout) firstOf(errs ...*Error) *Error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// take takes the next buffer, which must hold at least need bytes once decompressed.
func (l *layout) take(f *Field, need int64) *Error {
	if l.buffer >= len(l.batch.Buffers) {
		return errorf(Invalid, "column %s: the batch has no more than %d buffers", f.Path, l.buffer)
	}
	u := l.batch.Buffers[l.buffer]
	l.buffer++
	if u.Decoded < need {
		return errorf(Invalid, "column %s: buffer %d has %d bytes where its values need %d", f.Path, l.buffer-1, u.Decoded, need)
	}
	return nil
}

// validity takes the bitmap of nulls, which may be absent when there are none.
func (l *layout) validity(f *Field, n Node) *Error {
	if n.Nulls == 0 {
		return l.take(f, 0)
	}
	return l.take(f, (n.Len+7)/8)
}

// offsets takes n+1 offsets of the given width; an array without values may leave them out.
func (l *layout) offsets(f *Field, n Node, width int64) *Error {
	if n.Len == 0 {
		return l.take(f, 0)
	}
	return l.take(f, (n.Len+1)*width)
}

// fixed takes the bitmap and the values of a fixed width.
func (l *layout) fixed(f *Field, n Node) *Error {
	if f.Kind == Bool {
		return l.firstOf(l.validity(f, n), l.take(f, (n.Len+7)/8))
	}
	if int64(f.Width) > 1 && n.Len > (1<<60)/int64(f.Width) {
		return errorf(TooLarge, "column %s says it has %d values of %d bytes", f.Path, n.Len, f.Width)
	}
	return l.firstOf(l.validity(f, n), l.take(f, n.Len*int64(f.Width)))
}

// views takes the bitmap, a header of 16 bytes for each value, and the data buffers.
func (l *layout) views(f *Field, n Node) *Error {
	if l.variadic >= len(l.batch.Variadic) {
		return errorf(Invalid, "column %s: the batch does not say how many buffers its views have", f.Path)
	}
	count := l.batch.Variadic[l.variadic]
	l.variadic++
	if err := l.firstOf(l.validity(f, n), l.take(f, 16*n.Len)); err != nil {
		return err
	}
	if count < 0 || count > int64(len(l.batch.Buffers)-l.buffer) {
		return errorf(Invalid, "column %s has views into %d buffers", f.Path, count)
	}
	l.buffer += int(count)
	return nil
}

// children takes all children of f, each of at least want values.
func (l *layout) children(f *Field, want int64, exact bool) *Error {
	for i := range f.Children {
		if err := l.field(&f.Children[i], want, exact); err != nil {
			return err
		}
	}
	return nil
}

// weightless bounds the length of an array that needs few or no bytes for its values: elsewhere
// the bytes present are the bound.
func (l *layout) weightless(f *Field, n Node) *Error {
	if n.Len > l.limits.Rows {
		return errorf(TooLarge, "column %s says it has %d values, at most %d are read", f.Path, n.Len, l.limits.Rows)
	}
	return nil
}
