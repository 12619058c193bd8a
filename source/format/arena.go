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
	flats []*flat
	used  int   // of flats
	room  int64 // what the next message may decode to; 0: whatever a message may
	spent int64 // what the last one has decoded to
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
	for _, f := range a.flats[:a.used] {
		*f = flat{}
	}
	a.used = 0
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
	if a.used == len(a.flats) {
		more := make([]flat, 64)
		for i := range more {
			a.flats = append(a.flats, &more[i])
		}
	}
	a.used++
	return a.flats[a.used-1]
}
