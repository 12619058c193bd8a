package ipcguard

import (
	"math/bits"

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
