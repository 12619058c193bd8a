package state

import "fmt"

// Versions of a learner's state that former editions wrote. The first one had no places.
const (
	FirstEdition  = 3
	SecondEdition = 9
)

// Fields goes over the fields of a state: it appends them to W or, where there is an R, takes them from it. So one list of them serves for both.
type Fields struct {
	W       *Writer
	R       *Reader
	Version uint32 // of the layout
}

// Reads reports whether fields are read.
func (f *Fields) Reads() bool { return f.R != nil }

func pass[T any](f *Fields, v *T, write func(*Writer, T), read func(*Reader) T) {
	if f.Reads() {
		*v = read(f.R)
		return
	}
	write(f.W, *v)
}

// U64 passes numbers of eight bytes.
func (f *Fields) U64(all ...*uint64) {
	for _, v := range all {
		pass(f, v, (*Writer).U64, (*Reader).U64)
	}
}

// F64 passes the bits of numbers.
func (f *Fields) F64(all ...*float64) {
	for _, v := range all {
		pass(f, v, (*Writer).F64, (*Reader).F64)
	}
}

// Flag passes a flag.
func (f *Fields) Flag(v *bool) { pass(f, v, (*Writer).Flag, (*Reader).Flag) }

// Varint passes a number in as few bytes as it takes.
func (f *Fields) Varint(v *uint64) { pass(f, v, (*Writer).Varint, (*Reader).Varint) }

// Text passes a text.
func (f *Fields) Text(v *string) { pass(f, v, (*Writer).Text, (*Reader).Text) }

// Floats passes a list.
func (f *Fields) Floats(v *[]float64) { pass(f, v, (*Writer).Floats, (*Reader).Floats) }

// Words passes a list.
func (f *Fields) Words(v *[]uint64) { pass(f, v, (*Writer).Words, (*Reader).Words) }

// Rows passes a list, as float32 where nothing is lost by it.
func (f *Fields) Rows(v *[]float64) { pass(f, v, (*Writer).Rows, (*Reader).Rows) }

// Sized passes a list that must have n elements.
func (f *Fields) Sized(what string, v *[]float64, n int) {
	f.Floats(v)
	f.Check(len(*v) == n, "%s has %d numbers, want %d", what, len(*v), n)
}

// Check refuses a state that is read, unless it has been refused.
func (f *Fields) Check(ok bool, format string, args ...any) {
	if f.Reads() && !ok {
		f.R.Fail(fmt.Errorf(format, args...))
	}
}

// Numbers passes whole numbers, of eight bytes each.
func Numbers[N ~int | ~int32 | ~int64 | ~uint8](f *Fields, all ...*N) {
	for _, v := range all {
		pass(f, v, func(w *Writer, v N) { w.U64(uint64(v)) }, func(r *Reader) N { return N(r.U64()) })
	}
}

// List passes a list of elements of at least that number of bytes; one without elements is read as nil.
func List[E any](f *Fields, v *[]E, least int, each func(*E)) {
	if !f.Reads() {
		f.W.Count(len(*v))
	} else {
		*v = append([]E(nil), make([]E, f.R.Count(least))...)
	}
	for i := range *v {
		each(&(*v)[i])
	}
}
