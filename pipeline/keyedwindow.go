package pipeline

import (
	"context"
)

// With model.by: column:NAME a window is as many rows as there is room for their models. Those that are not in memory are fetched together, in
// the order of their offsets, and none of them is put out before its rows are whitened.

// window is neighbouring rows of a batch whose models are in memory at the same time.
type window struct {
	number  uint64
	entries []*modelEntry  // of each row: of its model; nil: it has none
	touched []*modelEntry  // each once
	inUse   []*loadedModel // those of touched that were in memory
	missing []*wanted
}

// mostMissing bounds the models that are fetched for one window.
const mostMissing = 1 << 10

func (t *KeyedTransform) beginWindow() {
	t.index.windows++
	w := &t.window
	w.number, w.entries, w.touched, w.inUse, w.missing = t.index.windows, w.entries[:0], w.touched[:0], w.inUse[:0], w.missing[:0]
}

// want makes a model part of the window. It returns false if there is no room for it.
func (t *KeyedTransform) want(e *modelEntry, value string) bool {
	w := &t.window
	if e.window == w.number {
		return true
	}
	at, m, ok := t.index.place(e)
	if ok && m == nil {
		one := &wanted{entry: e, value: value, at: at}
		alone := len(w.missing) == 0 && len(w.inUse) == 0
		if len(w.missing) >= mostMissing || !t.Models.cache.reserve(one.estimate(), alone) {
			return false
		}
		one.reserved = one.estimate()
		w.missing = append(w.missing, one)
	}
	if m != nil {
		w.inUse = append(w.inUse, m)
		t.Models.cache.pin(m)
	}
	e.window, e.using = w.number, m
	w.touched = append(w.touched, e)
	return true
}

// fetchWindow fetches what is missing.
func (t *KeyedTransform) fetchWindow(ctx context.Context) error {
	if len(t.window.missing) == 0 {
		return nil
	}
	return t.index.load(ctx, t.window.missing, func(read []*wanted) error {
		for _, w := range read {
			t.index.make(w, false)
		}
		return nil
	})
}

// closeWindow lets go of the models.
func (t *KeyedTransform) closeWindow() {
	w := &t.window
	w.inUse = w.inUse[:0]
	for _, e := range w.touched {
		if e.using != nil {
			w.inUse = append(w.inUse, e.using)
			t.touched = append(t.touched, touchedModel{id: e.using.ModelID, last: e.using.last})
			e.using = nil
		}
	}
	t.Models.cache.unpin(w.inUse)
	for _, one := range w.missing {
		t.Models.cache.unreserve(one.reserved)
	}
	clear(w.inUse)
	clear(w.touched)
	clear(w.missing)
	clear(w.entries)
}
