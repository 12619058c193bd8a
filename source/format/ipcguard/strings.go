package ipcguard

import (
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
)

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
