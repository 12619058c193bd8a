package pipeline

import (
	"bytes"
	"context"
	"slices"

	"github.com/lca-stream/lca-stream/source"
)

// With model.by: key or header:NAME each message has a model. The messages of a batch are divided by their models, and each model whitens all
// of its rows in one go: a model that is in memory is looked at once, and one that is not is fetched once, however its messages lie among
// others. Models are fetched in the order of their offsets, and each has whitened its rows before the next one is decoded, so
// that one model more than there is memory for is enough. In the end the outputs are brought into the order of the input.

// messageGroups are the messages of a batch, divided by their models.
type messageGroups struct {
	all     []messageGroup
	next    []int32 // of each message, the next one of its group; −1: it is the last
	without []int32 // messages without a model
	order   []int32 // messages in the order in which they were written
	place   []int32 // of each message, its place in order
	missing []*wanted
}

// messageGroup is the messages of one model.
type messageGroup struct {
	entry       *modelEntry
	value       []byte
	first, last int32
	done        bool // they are written
}

// doMessages whitens a batch by the messages' models.
func (t *KeyedTransform) doMessages(ctx context.Context, all []source.Message) error {
	t.unordered = true
	defer func() { t.unordered = false }()
	t.divideBatch(all)
	defer t.forgetGroups()
	err := t.inTurn(ctx, func() error { return t.whitenPresent(ctx, all) })
	if err == nil && len(t.groups.missing) > 0 {
		err = t.whitenMissing(ctx, all)
	}
	if err != nil {
		return err
	}
	g := &t.groups
	for n, i := range g.order {
		g.place[i] = int32(n)
	}
	return t.made.inOrder(g.place, func(i int, bad *source.RecordError) error { return t.settle(&all[i], bad) })
}

// divideBatch divides the messages of a batch.
func (t *KeyedTransform) divideBatch(all []source.Message) {
	g := &t.groups
	g.all, g.without, g.order = g.all[:0], g.without[:0], g.order[:0]
	g.next, g.place = slices.Grow(g.next[:0], len(all))[:len(all)], slices.Grow(g.place[:0], len(all))[:len(all)]
	t.index.windows++ // marks the entries that have a group
	var e *modelEntry
	var same []byte // the value of e; neighbouring messages often have the same
	for i := range all {
		m := &all[i]
		var value []byte
		ok := hasRows(m)
		if ok {
			value, ok = t.Models.By.OfMessage(m)
		}
		if ok && (same == nil || !bytes.Equal(same, value)) {
			e, same = t.index.find(value), value
		}
		if !ok || e == nil {
			g.without = append(g.without, int32(i))
			continue
		}
		if e.marked != t.index.windows {
			e.marked, e.group = t.index.windows, len(g.all)
			g.all = append(g.all, messageGroup{entry: e, value: value, first: int32(i)})
		} else {
			g.next[g.all[e.group].last] = int32(i)
		}
		g.next[i], g.all[e.group].last = -1, int32(i)
	}
}

// forgetGroups lets go of models and messages.
func (t *KeyedTransform) forgetGroups() {
	g := &t.groups
	for _, w := range g.missing {
		t.release(w.entry)
	}
	clear(g.all)
	clear(g.missing)
	g.missing = g.missing[:0]
}

// release says that a model that was fetched is no longer in use.
func (t *KeyedTransform) release(e *modelEntry) {
	if e.using != nil {
		t.Models.cache.unpin([]*loadedModel{e.using})
		e.using = nil
	}
}

// whitenPresent writes the messages that no model has to be fetched for, and notes the models that have to be.
func (t *KeyedTransform) whitenPresent(ctx context.Context, all []source.Message) error {
	g := &t.groups
	for _, i := range g.without {
		if err := t.writeWithout(ctx, all, i); err != nil {
			return err
		}
	}
	for k := range g.all {
		one := &g.all[k]
		at, m, ok := t.index.place(one.entry)
		if ok && m == nil {
			g.missing = append(g.missing, &wanted{entry: one.entry, value: string(one.value), at: at})
			continue
		}
		if err := t.writeGroup(ctx, all, one, m); err != nil {
			return err
		}
		if m != nil {
			t.Models.cache.touch(m)
		}
	}
	return nil
}

// whitenMissing fetches models, and writes their messages as they come.
func (t *KeyedTransform) whitenMissing(ctx context.Context, all []source.Message) error {
	g := &t.groups
	write := func(w *wanted) error {
		defer t.release(w.entry)
		return t.writeGroup(ctx, all, &g.all[w.entry.group], w.entry.using)
	}
	err := t.index.load(ctx, g.missing, func(read []*wanted) error {
		return t.inTurn(ctx, func() error {
			for _, w := range read {
				if !t.index.make(w, true) {
					continue
				}
				if err := write(w); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return t.inTurn(ctx, func() error { // those that are here now by other means, or that there is no model for in the end
		for _, w := range g.missing {
			if g.all[w.entry.group].done {
				continue
			}
			if err := write(w); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeGroup writes the messages of a group, whitened by a model; nil: there is none.
func (t *KeyedTransform) writeGroup(ctx context.Context, all []source.Message, one *messageGroup, m *loadedModel) error {
	g := &t.groups
	one.done = true
	if m == nil {
		for i := one.first; i >= 0; i = g.next[i] {
			if err := t.writeWithout(ctx, all, i); err != nil {
				return err
			}
		}
		return nil
	}
	last := &all[one.last]
	if err := t.use(m, last.Partition); err != nil {
		return err
	}
	t.touched = append(t.touched, touchedModel{id: m.ModelID, last: last.Time})
	for i := one.first; i >= 0; i = g.next[i] {
		g.order = append(g.order, i)
		if err := t.add(ctx, &all[i]); err != nil {
			return err
		}
	}
	err := t.flush(ctx)
	if !t.Models.Explains { // only some rows have been explained
		m.scorer.ForgetWhy()
	}
	return err
}

// writeWithout writes a message that no model whitens.
func (t *KeyedTransform) writeWithout(ctx context.Context, all []source.Message, i int32) error {
	m := &all[i]
	t.groups.order = append(t.groups.order, i)
	t.model = nil
	if !hasRows(m) { // where it came from is said in any case
		t.labels = labels{partition: m.Partition, fixed: t.base(m.Partition.ID)}
		return t.addAlone(ctx, m)
	}
	value, ok := t.Models.By.OfMessage(m)
	if !ok {
		t.labels = labels{partition: m.Partition, fixed: t.base(m.Partition.ID)}
		t.addNoKey(m)
		return t.flush(ctx)
	}
	t.labels = labels{partition: m.Partition, fixed: t.Models.labels(t.index.id(string(value)), 0, m.Partition.ID)}
	return t.addAlone(ctx, m)
}

func (t *KeyedTransform) addAlone(ctx context.Context, m *source.Message) error {
	if err := t.add(ctx, m); err != nil {
		return err
	}
	return t.flush(ctx)
}
