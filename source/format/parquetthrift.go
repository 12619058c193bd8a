package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What a Parquet file says of itself is Thrift in its compact protocol. The library makes lists and texts of the size that they say they have, and
// reads what is nested by calling itself, so that a few bytes would end the process.

const (
	thriftDepth   = 32  // of structs and lists in one another
	thriftElement = 512 // about what an element of a list takes in memory
)

var errThrift = errors.New("its metadata is broken, or nested too deeply")

// checkFooter measures the metadata at the end of a file.
func checkFooter(f io.ReaderAt, size, most int64) error {
	const tail = 8 // length and mark
	if size < tail {
		return io.ErrUnexpectedEOF
	}
	b := make([]byte, tail)
	if _, err := f.ReadAt(b, size-tail); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if n > size-tail {
		return fmt.Errorf("metadata of %d bytes in a file of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	if n > most {
		return fmt.Errorf("metadata of %d bytes, at most %d are read (half of memory.limit): raise memory.limit, or write larger row groups", n, most)
	}
	b = make([]byte, n)
	if _, err := f.ReadAt(b, size-tail-n); err != nil {
		return err
	}
	w := thriftWalk{b: b}
	if w.fields(0); w.bad {
		return errThrift
	}
	if takes := w.elements * thriftElement; takes > most {
		return fmt.Errorf("metadata of %d columns and row groups takes about %d bytes in memory, at most %d are read (half of memory.limit): raise memory.limit, or write larger row groups", w.elements, takes, most)
	}
	return nil
}

// thriftLength is the length of the struct that b begins with.
func thriftLength(b []byte) (int, error) {
	w := thriftWalk{b: b}
	if w.fields(0); w.bad {
		return 0, errThrift
	}
	return len(b) - len(w.b), nil
}

// thriftWalk walks over a struct.
type thriftWalk struct {
	b        []byte // what follows
	elements int64  // of all lists
	bad      bool
}

// The types of Thrift that have a size.
const (
	thriftStop, thriftTrue, thriftFalse, thriftByte = 0, 1, 2, 3
	thriftI64, thriftDouble, thriftBinary           = 6, 7, 8
	thriftList, thriftSet, thriftMap, thriftStruct  = 9, 10, 11, 12
)

// fields walks over the fields of a struct.
func (w *thriftWalk) fields(depth int) {
	for !w.bad {
		head := w.byte()
		if head == thriftStop {
			return
		}
		if head>>4 == 0 { // the field's number follows
			w.number()
		}
		if t := head & 15; t != thriftTrue && t != thriftFalse {
			w.value(t, depth)
		}
	}
}

func (w *thriftWalk) value(t byte, depth int) {
	if w.bad = w.bad || depth > thriftDepth; w.bad {
		return
	}
	switch {
	case t >= thriftTrue && t <= thriftByte:
		w.byte()
	case t > thriftByte && t <= thriftI64:
		w.number()
	case t == thriftDouble:
		w.skip(8)
	case t == thriftBinary:
		w.skip(w.number())
	case t == thriftList || t == thriftSet:
		w.list(depth)
	case t == thriftMap:
		if n := w.number(); n > 0 {
			types := w.byte()
			for ; n > 0 && !w.bad; n-- {
				w.value(types>>4, depth+1)
				w.value(types&15, depth+1)
			}
		}
	case t == thriftStruct:
		w.fields(depth + 1)
	default:
		w.bad = true
	}
}

func (w *thriftWalk) list(depth int) {
	head := w.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = w.number()
	}
	if n > uint64(len(w.b)) { // each takes a byte at least
		w.bad = true
		return
	}
	w.elements += int64(n)
	for ; n > 0 && !w.bad; n-- {
		w.value(head&15, depth+1)
	}
}

func (w *thriftWalk) byte() byte {
	if len(w.b) == 0 {
		w.bad = true
		return thriftStop
	}
	b := w.b[0]
	w.b = w.b[1:]
	return b
}

func (w *thriftWalk) number() uint64 {
	u, n := binary.Uvarint(w.b)
	if n <= 0 {
		w.bad = true
		return 0
	}
	w.b = w.b[n:]
	return u
}

func (w *thriftWalk) skip(n uint64) {
	if n > uint64(len(w.b)) {
		w.bad = true
		return
	}
	w.b = w.b[n:]
}
