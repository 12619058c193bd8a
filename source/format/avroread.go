package format

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// avroReader reads the encoding of Avro (section "Binary Encoding" of its specification). After an error it reads
// nothing but zeros.
type avroReader struct {
	b     []byte
	left  int64 // what may still be decoded to, in bytes
	spent int64
	depth int
	lost  int // values that are left out
	err   error
}

// avroDepth bounds the nesting of values whose type contains itself.
const avroDepth = 64

func (r *avroReader) fail(code, text string, args ...any) {
	if r.err == nil {
		r.err = errorf(code, text, args...)
	}
	r.b = nil
}

// spend takes room for what is decoded.
func (r *avroReader) spend(n int64) bool {
	r.spent += n
	if r.left -= n; r.left < 0 {
		r.fail(CodeAvroTooLarge, "the value decodes to more than %d bytes", r.spent+r.left)
		return false
	}
	return true
}

// long reads an integer in zigzag encoding.
func (r *avroReader) long() int64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return int64(v>>1) ^ -int64(v&1)
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(CodeAvroInvalid, "an integer is cut off, or has more than 64 bits")
		return 0
	}
	r.b = r.b[n:]
	return int64(v>>1) ^ -int64(v&1)
}

// int reads an integer of 32 bits.
func (r *avroReader) int() int32 {
	v := r.long()
	if v != int64(int32(v)) {
		r.fail(CodeAvroInvalid, "%d does not fit into an int", v)
	}
	return int32(v)
}

// take returns the next n bytes of the body.
func (r *avroReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail(CodeAvroInvalid, "%d bytes are announced, and %d are there", n, len(r.b))
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// bytes reads a length and as many bytes.
func (r *avroReader) bytes() []byte {
	n := r.long()
	if n < 0 || n > int64(len(r.b)) {
		r.fail(CodeAvroInvalid, "%d bytes are announced, and %d are there", n, len(r.b))
		return nil
	}
	return r.take(int(n))
}

// text reads a string.
func (r *avroReader) text() []byte {
	v := r.bytes()
	if !utf8.Valid(v) {
		r.fail(CodeAvroInvalid, "a string is not UTF-8")
	}
	return v
}

func (r *avroReader) boolean() bool {
	v := r.take(1)
	if r.err == nil && v[0] > 1 {
		r.fail(CodeAvroInvalid, "a boolean is %d", v[0])
	}
	return r.err == nil && v[0] == 1
}

// branch reads which branch of a union follows, and of an enum which symbol.
func (r *avroReader) branch(of int) int {
	i := r.long()
	if i < 0 || i >= int64(of) {
		r.fail(CodeAvroInvalid, "choice %d of %d", i, of)
		return 0
	}
	return int(i)
}

// block reads the head of a block of an array or map: how many items follow, 0 at the end. size is how many bytes they
// take, where that is written; −1 elsewhere. Items that the bytes cannot hold are refused.
func (r *avroReader) block(least int) (count int, size int) {
	n := r.long()
	if size = -1; n < 0 {
		bytes := r.long()
		if n == math.MinInt64 || bytes < 0 || bytes > int64(len(r.b)) {
			r.fail(CodeAvroInvalid, "a block of %d items in %d bytes, and %d are there", n, bytes, len(r.b))
			return 0, 0
		}
		n, size = -n, int(bytes)
	}
	if least > 0 && n > int64(len(r.b)/least) {
		r.fail(CodeAvroInvalid, "%d items are announced, and %d bytes are there", n, len(r.b))
		return 0, 0
	}
	if n > math.MaxInt32 {
		r.fail(CodeAvroTooLarge, "an array of %d items", n)
		return 0, 0
	}
	return int(n), size
}

// counted refuses a block whose items took other bytes than its head says. before is what was left behind the head.
func (r *avroReader) counted(size, before int) {
	if took := before - len(r.b); size >= 0 && r.err == nil && took != size {
		r.fail(CodeAvroInvalid, "the items of a block took %d bytes, and %d are announced", took, size)
	}
}

// skip passes over a value.
func (r *avroReader) skip(n *avroNode) {
	if n.exact >= 0 {
		r.take(n.exact)
		return
	}
	switch n.kind {
	case avroInt, avroLong, avroEnum:
		r.long()
	case avroBytes, avroString:
		r.bytes()
	case avroUnion:
		r.deeper(n.branches[r.branch(len(n.branches))])
	case avroRecord:
		for _, f := range n.fields {
			r.deeper(f)
		}
	case avroArray:
		r.skipItems(n.items, n.items.least, false)
	case avroMap:
		r.skipItems(n.items, n.items.least+1, true)
	}
}

// deeper is skip with a bound on nesting: types may contain themselves.
func (r *avroReader) deeper(n *avroNode) {
	if r.err != nil {
		return
	}
	if r.depth++; r.depth > avroDepth {
		r.fail(CodeAvroTooLarge, "nested deeper than %d", avroDepth)
		return
	}
	r.skip(n)
	r.depth--
}

// pass skips a field of a record, and counts what is left out.
func (r *avroReader) pass(s *avroShape, field int) {
	before := len(r.b)
	if r.deeper(s.node.fields[field]); s.left && before-len(r.b) > 1 { // null and an empty list are one byte
		r.lost++
	}
}

func (r *avroReader) skipItems(items *avroNode, least int, keys bool) {
	for {
		count, size := r.block(least)
		switch {
		case count == 0:
			return
		case size >= 0:
			r.take(size)
			continue
		case least == 0:
			continue // items without bytes, however many
		}
		for range count {
			if r.err != nil {
				return
			}
			if keys {
				r.bytes()
			}
			r.deeper(items)
		}
	}
}
