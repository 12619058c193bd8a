// Package state writes numbers as the bytes of a state, and reads them back: little-endian, and before each list the number of its elements.
//
// A [Reader] never allocates more than the bytes it has left could fill, and remembers its first fault: after it all that it reads is 0.
package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Writer appends values to B.
type Writer struct{ B []byte }

// U64 appends a number of eight bytes.
func (w *Writer) U64(v uint64) { w.B = binary.LittleEndian.AppendUint64(w.B, v) }

// Count appends the number of elements of what follows.
func (w *Writer) Count(n int) { w.U64(uint64(n)) }

// F64 appends the bits of a number.
func (w *Writer) F64(v float64) { w.U64(math.Float64bits(v)) }

// Flag appends a byte, 0 or 1.
func (w *Writer) Flag(v bool) {
	if v {
		w.B = append(w.B, 1)
	} else {
		w.B = append(w.B, 0)
	}
}

// Varint appends a number in as few bytes as it takes.
func (w *Writer) Varint(v uint64) { w.B = binary.AppendUvarint(w.B, v) }

// Text appends a text.
func (w *Writer) Text(s string) {
	w.Count(len(s))
	w.B = append(w.B, s...)
}

// Floats appends a list.
func (w *Writer) Floats(v []float64) {
	w.Count(len(v))
	for i, to := 0, w.room(8*len(v)); i < len(v); i++ {
		binary.LittleEndian.PutUint64(to[8*i:], math.Float64bits(v[i]))
	}
}

// Floats32 appends a list.
func (w *Writer) Floats32(v []float32) {
	w.Count(len(v))
	for i, to := 0, w.room(4*len(v)); i < len(v); i++ {
		binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(v[i]))
	}
}

// Round returns the number that Halves writes of v: the nearest with 20 binary digits behind the first. It has the range of float64, which a float32
// has not.
func Round(v float64) float64 {
	if v-v != 0 {
		return v
	}
	return math.Float64frombits((math.Float64bits(v) + 1<<31) &^ (1<<32 - 1))
}

// Halves appends a list of numbers that Round has returned, four bytes each.
func (w *Writer) Halves(v []float64) {
	w.Count(len(v))
	for i, to := 0, w.room(4*len(v)); i < len(v); i++ {
		binary.LittleEndian.PutUint32(to[4*i:], uint32(math.Float64bits(v[i])>>32))
	}
}

// room appends n bytes, to be written to.
func (w *Writer) room(n int) []byte {
	w.B = slices.Grow(w.B, n)
	w.B = w.B[:len(w.B)+n]
	return w.B[len(w.B)-n:]
}

// Words appends a list.
func (w *Writer) Words(v []uint64) {
	w.Count(len(v))
	for _, x := range v {
		w.U64(x)
	}
}

// Rows appends a flag and a list: as float32 if the flag is 1, which it is where nothing is lost by it, as with rows that came so.
func (w *Writer) Rows(v []float64) {
	short := true
	for _, x := range v {
		short = short && float64(float32(x)) == x
	}
	w.Flag(short)
	if !short {
		w.Floats(v)
		return
	}
	w.Count(len(v))
	for i, to := 0, w.room(4*len(v)); i < len(v); i++ {
		binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(float32(v[i])))
	}
}

// Reader takes from B what a Writer has appended.
type Reader struct {
	B   []byte
	Err error // the first fault
}

// Fail notes a fault, unless there was one; nil is none.
func (r *Reader) Fail(err error) {
	if r.Err == nil && err != nil {
		r.Err = err
	}
}

func (r *Reader) take(n int) []byte {
	if r.Err == nil && (n < 0 || n > len(r.B)) {
		r.Err = fmt.Errorf("ends %d bytes early", n-len(r.B))
	}
	if r.Err != nil {
		return nil
	}
	out := r.B[:n]
	r.B = r.B[n:]
	return out
}

// U64 reads a number.
func (r *Reader) U64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Varint reads a number.
func (r *Reader) Varint() uint64 {
	v, n := binary.Uvarint(r.B)
	if n <= 0 {
		r.Fail(errors.New("ends within a number"))
	}
	r.take(max(n, 0))
	return v
}

// F64 reads a number.
func (r *Reader) F64() float64 { return math.Float64frombits(r.U64()) }

// Flag reads a flag.
func (r *Reader) Flag() bool {
	b := r.take(1)
	return b != nil && b[0] == 1
}

// Count reads a number of elements of the given size, and refuses one that the rest cannot hold.
func (r *Reader) Count(size int) int {
	n := r.U64()
	if r.Err == nil && n > uint64(len(r.B)/size) {
		r.Err = fmt.Errorf("claims %d items of %d bytes in the %d bytes left", n, size, len(r.B))
	}
	if r.Err != nil {
		return 0
	}
	return int(n)
}

// Text reads a text.
func (r *Reader) Text() string { return string(r.take(r.Count(1))) }

// Floats reads a list; nil: it has no elements.
func (r *Reader) Floats() []float64 { return numbers(r, 8, float64At) }

// Words reads a list; nil: it has no elements.
func (r *Reader) Words() []uint64 { return numbers(r, 8, binary.LittleEndian.Uint64) }

// Floats32 reads a list; nil: it has no elements.
func (r *Reader) Floats32() []float32 {
	return numbers(r, 4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
}

// Halves reads what Writer.Halves has appended; nil: no elements.
func (r *Reader) Halves() []float64 {
	return numbers(r, 4, func(b []byte) float64 { return math.Float64frombits(uint64(binary.LittleEndian.Uint32(b)) << 32) })
}

// Rows reads what Writer.Rows has appended; nil: no elements.
func (r *Reader) Rows() []float64 {
	if !r.Flag() {
		return r.Floats()
	}
	return numbers(r, 4, func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) })
}

func float64At(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

func numbers[E any](r *Reader, size int, at func([]byte) E) []E {
	b := r.take(size * r.Count(size))
	if len(b) == 0 {
		return nil
	}
	out := make([]E, len(b)/size)
	for i := range out {
		out[i] = at(b[size*i:])
	}
	return out
}

// Sized reads a list that must have n elements.
func (r *Reader) Sized(what string, n int) []float64 {
	v := r.Floats()
	if len(v) != n {
		r.Fail(fmt.Errorf("%s has %d numbers, want %d", what, len(v), n))
	}
	return v
}
