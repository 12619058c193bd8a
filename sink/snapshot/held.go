package snapshot

import (
	"cmp"
	"slices"
)

// holds are the slots of a model id whose bytes Retain and Most bound. What a topic holds of other slots is known and has no bytes, so each message costs
// the same, however many of them there are.
type holds struct {
	partial []*slot // with chunks that are no whole version, in the order in which they were touched
	whole   []*slot // with a whole version that has its bytes
}

// most is how many bytes a slot may take, and all that are not whole together.
func (a *Assembler) most() int {
	if a.Most > 0 {
		return min(a.Most, maxSlot)
	}
	return maxSlot
}

// retain puts a slot that a message has changed among those that are held, and frees the bytes of those that Retain and Most do not cover. The
// transaction that is being read is never among them, because nothing is newer.
func (a *Assembler) retain(modelID string, s *slot) {
	if a.Retain <= 0 && a.Most <= 0 {
		return
	}
	if a.held == nil {
		a.held = make(map[string]*holds)
	}
	h := a.held[modelID]
	if h == nil {
		h = new(holds)
		a.held[modelID] = h
	}
	h.partial = slices.DeleteFunc(h.partial, func(other *slot) bool { return other == s })
	h.whole = slices.DeleteFunc(h.whole, func(other *slot) bool { return other == s })
	if _, ok := s.whole(); ok {
		h.whole = append(h.whole, s)
		a.dropOlder(h)
	} else if len(s.chunks) > 0 {
		h.partial = append(h.partial, s)
		a.dropPartial(h)
	}
}

// dropPartial forgets chunks of versions that never became complete.
func (a *Assembler) dropPartial(h *holds) {
	bytes := 0
	for _, s := range h.partial {
		bytes += s.bytes
	}
	for a.Retain > 0 && len(h.partial) > a.Retain || len(h.partial) > 1 && bytes > a.most() {
		s := h.partial[0]
		h.partial = h.partial[1:]
		bytes -= s.bytes
		clear(s.chunks)
		s.bytes = 0
	}
}

// dropOlder frees the bytes of versions that Retain does not cover.
func (a *Assembler) dropOlder(h *holds) {
	slices.SortFunc(h.whole, func(x, y *slot) int { return cmp.Compare(y.version(), x.version()) })
	kept := h.whole[:0]
	for i, s := range h.whole {
		if a.Retain <= 0 || i < a.Retain || s.version() == a.Pin {
			kept = append(kept, s)
			continue
		}
		for id, c := range s.chunks {
			c.value = nil
			s.chunks[id] = c
		}
		s.decoded, s.dropped = nil, true
	}
	clear(h.whole[len(kept):])
	h.whole = kept
}
