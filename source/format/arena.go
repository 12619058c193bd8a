package format

import (
	"errors"
	"slices"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Arena is what a batch of messages is decoded into: it bounds what the next one may take, says what the last one
// took, and keeps memory for the next batch. The zero value is bounded by the limits of a message
// alone. An Arena is for one goroutine.
type Arena struct {
	flats pool[flat]
	texts pool[jsonFlat]
	slab  []float64 // those in use, of records of text
	room  int64     // what the next message may decode to; 0: whatever a message may
	spent int64     // what the last one has decoded to
}

// Begin sets what the next message may decode to, in bytes and in addition to its own.
func (a *Arena) Begin(room int64) { a.room, a.spent = room, 0 }

// Spent is the bytes that the message since Begin has decoded to.
func (a *Arena) Spent() int64 { return a.spent }

// Short reports whether err, of the message since Begin, may be for lack of room: with more of it, the message
// may decode.
func (a *Arena) Short(err error) bool {
	var e *Error
	if a.room == 0 || a.room >= ipcguard.MessageLimits().Decoded || !errors.As(err, &e) {
		return false
	}
	return slices.ContainsFunc(formats, func(f spec) bool { return f.decoder != nil && f.tooLarge == e.Code })
}

// Reset makes the memory of all records that were decoded into the arena that of later ones.
func (a *Arena) Reset() {
	a.flats.reset()
	a.texts.reset()
	a.slab = a.slab[:0]
}

// budget is what one message may decode to, where most is the most of any.
func (a *Arena) budget(most int64) int64 {
	if a == nil || a.room == 0 {
		return most
	}
	return min(most, a.room)
}

// spend notes what a message has decoded to.
func (a *Arena) spend(n int64) {
	if a != nil {
		a.spent = n
	}
}

// flat returns one that is free until the next Reset.
func (a *Arena) flat() *flat {
	if a == nil {
		return new(flat)
	}
	return a.flats.take()
}

// text is flat for a record of text.
func (a *Arena) text() *jsonFlat {
	if a == nil {
		return new(jsonFlat)
	}
	return a.texts.take()
}

// slabNumbers is how many numbers of small records share memory.
const slabNumbers = 2048

// numbers returns room for n numbers, which is free until the next Reset.
func (a *Arena) numbers(n int) []float64 {
	if a == nil || n > slabNumbers/8 {
		return make([]float64, 0, n)
	}
	if cap(a.slab)-len(a.slab) < n {
		a.slab = make([]float64, 0, slabNumbers) // the one before stays with its records
	}
	at := len(a.slab)
	a.slab = a.slab[:at+n]
	return a.slab[at : at : at+n]
}

// pool is objects that are used again after a reset.
type pool[T any] struct {
	all  []*T
	used int
}

func (p *pool[T]) take() *T {
	if p.used == len(p.all) {
		more := make([]T, 64)
		for i := range more {
			p.all = append(p.all, &more[i])
		}
	}
	p.used++
	return p.all[p.used-1]
}

func (p *pool[T]) reset() {
	var zero T
	for _, one := range p.all[:p.used] {
		*one = zero
	}
	p.used = 0
}
