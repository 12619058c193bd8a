package online

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// writer appends little-endian values; reader takes them back. A reader never allocates more than
// the bytes it has left could fill, and remembers its first fault.
type writer struct{ b []byte }

func (w *writer) u64(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *writer) count(n int)  { w.u64(uint64(n)) }
func (w *writer) f64(v float64) {
	w.u64(math.Float64bits(v))
}

func (w *writer) flag(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

func (w *writer) varint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }

func (w *writer) text(s string) {
	w.count(len(s))
	w.b = append(w.b, s...)
}

func (w *writer) floats(v []float64) {
	w.count(len(v))
	for i, to := 0, w.room(8*len(v)); i < len(v); i++ {
		binary.LittleEndian.PutUint64(to[8*i:], math.Float64bits(v[i]))
	}
}

// room appends n bytes, to be written to.
func (w *writer) room(n int) []byte {
	w.b = slices.Grow(w.b, n)
	w.b = w.b[:len(w.b)+n]
	return w.b[len(w.b)-n:]
}

func (w *writer) words(v []uint64) {
	w.count(len(v))
	for _, x := range v {
		w.u64(x)
	}
}

// rows writes floats in four bytes each where that loses nothing, as with rows that came as
// float32, and in eight otherwise.
func (w *writer) rows(v []float64) {
	short := true
	for _, x := range v {
		short = short && float64(float32(x)) == x
	}
	w.flag(short)
	if !short {
		w.floats(v)
		return
	}
	w.count(len(v))
	for i, to := 0, w.room(4*len(v)); i < len(v); i++ {
		binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(float32(v[i])))
	}
}

type reader struct {
	first bool // the layout is the first edition's
	b     []byte
	err   error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.err = fmt.Errorf("ends %d bytes early", n-len(r.b))
	}
	if r.err != nil {
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) varint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 && r.err == nil {
		r.err = errors.New("ends within a number")
	}
	r.take(max(n, 0))
	return v
}

func (r *reader) f64() float64 { return math.Float64frombits(r.u64()) }

func (r *reader) flag() bool {
	b := r.take(1)
	return b != nil && b[0] == 1
}

// count reads a length of items of the given size, and refuses one that the rest cannot hold.
func (r *reader) count(size int) int {
	n := r.u64()
	if r.err == nil && n > uint64(len(r.b)/size) {
		r.err = fmt.Errorf("claims %d items of %d bytes in the %d bytes left", n, size, len(r.b))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return string(r.take(r.count(1))) }

func (r *reader) floats() []float64 {
	n := r.count(8)
	if n == 0 {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = r.f64()
	}
	return out
}

func (r *reader) words() []uint64 {
	n := r.count(8)
	if n == 0 {
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = r.u64()
	}
	return out
}

func (r *reader) rows() []float64 {
	if !r.flag() {
		return r.floats()
	}
	b := r.take(4 * r.count(4))
	if len(b) == 0 {
		return nil
	}
	out := make([]float64, len(b)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return out
}

// sized reads floats that must be n, or none where that is allowed.
func (r *reader) sized(what string, n int) []float64 {
	v := r.floats()
	if r.err == nil && len(v) != n {
		r.err = fmt.Errorf("%s has %d numbers, want %d", what, len(v), n)
	}
	return v
}
