package transform

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// KeyedTransform is the stage that whitens one partition with a model for each value of model.by: of each message by its key or a
// header, or of each row by a column. What it does to a row is what a Transform with that row's model does.
//
// TransformConfig.Follow has nothing but the ModelID, with which the ids of models begin.
type KeyedTransform struct {
	Transform
	Models *models.KeyedModels

	index    *models.ModelIndex
	groups   messageGroups
	window   window
	rows     columnRows
	features []string // of the model used last, for how much memory a batch takes
	touched  []touchedModel
	noModel  []source.Header // see base
}

// touchedModel is a model that has whitened rows of the batch.
type touchedModel struct {
	id     string
	last   time.Time // of the last row
	raised uint64    // anomalies of the batch
}

// Do whitens a batch, window by window. Its Work lives until the next Do.
func (t *KeyedTransform) Do(ctx context.Context, b source.Batch) (pipeline.Work, error) {
	if len(b.Messages) == 0 {
		return pipeline.Work{Commit: true}, nil
	}
	t.index = t.Models.Index(b.Messages[0].Partition.ID)
	t.touched = t.touched[:0]
	if t.unusual == nil {
		t.unusual = map[string]uint64{}
	}
	clear(t.unusual)
	by := t.doMessages
	if t.Models.By.Place == modelkey.Column {
		by = t.doColumns
	}
	t.Series, t.oneSeries = t.Models.By, true
	work, err := t.do(ctx, &b, t.usual(), func(part []source.Message) error { return by(ctx, part) })
	if err == nil {
		t.countAnomalies()
	}
	return work, err
}

// usual is the features that rows have, as far as is known.
func (t *KeyedTransform) usual() []string {
	if t.features != nil {
		return t.features
	}
	return t.Columns
}

// inTurn works with an engine, without a model at first.
func (t *KeyedTransform) inTurn(ctx context.Context, work func() error) error {
	return t.Transform.inTurn(ctx, nil, func() error {
		t.model, t.labels = nil, labels{}
		return work()
	})
}

// base are the headers of outputs that belong to no model. They are made once.
func (t *KeyedTransform) base(partition int32) []source.Header {
	if t.noModel == nil {
		t.noModel = t.Models.Labels(t.Models.ModelID, 0, partition)
	}
	return t.noModel
}

// hasRows reports whether there is something to whiten.
func hasRows(m *source.Message) bool {
	return m.Err == nil && m.Record != nil && m.Record.NumRows() > 0
}

// use makes a model the one that the rows to come are whitened with. The queue is empty.
func (t *KeyedTransform) use(m *models.LoadedModel, p source.Partition) {
	e := t.engine
	e.model, e.scorer, e.slice = m.PublishedModel, m.Scorer, m.Slice
	e.scorer.Use(&e.workspace)
	if !sameNames(e.Features.Names, m.Features) {
		e.expects(m.Features)
	}
	t.features = m.Features
	t.labels = labels{model: m.PublishedModel, partition: p, fixed: m.Fixed}
	t.Alarms.ModelID, t.Alarms.Partition = m.ModelID, m.Alarms
}

// sameNames is a comparison that most often sees the same list, see nameLists.
func sameNames(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// addNoKey puts a message without a value, and hence without a model, at the end of the queue.
func (t *KeyedTransform) addNoKey(m *source.Message) {
	p := t.queue.append(m)
	p.null = true
	p.bad = t.noKey(m, 0, uint64(m.Record.NumRows()))
}

// noKey applies source.on_invalid to n rows without a value, from a row on, and counts them.
func (t *KeyedTransform) noKey(m *source.Message, row int, n uint64) *source.RecordError {
	u := t.counts.rejected(reject.ReasonNoKey, n)
	if u.N == n {
		u.Partition, u.Offset, u.Row = m.Partition, m.Offset, row
	}
	why := fmt.Errorf("row %d has no value of model.by = %v, or a longer one than %d bytes", row, t.Models.By, modelkey.MostBytes)
	switch t.OnInvalid {
	case reject.NullRow, reject.ImputeRow: // kept, with a null result
	case reject.RejectRow:
		return reject.Bad(m, reject.ReasonNoKey, why)
	case reject.StopAtRow:
		return reject.Bad(m, reject.ReasonNoKey, &reject.Stop{Err: fmt.Errorf("%s@%d: %w", m.Partition, m.Offset, why), Remedy: "fix the producer, or set source.on_invalid to null, impute or dead_letter"})
	}
	return nil
}

// countAnomalies counts the rare rows of each model.
func (t *KeyedTransform) countAnomalies() {
	for n := range t.touched { // a model is there more than once if there were several windows
		m := &t.touched[n]
		m.raised = t.unusual[m.id]
		delete(t.unusual, m.id)
	}
}

// Kept counts what was put.
func (t *KeyedTransform) Kept() {
	t.Transform.Kept()
	for i := range t.touched {
		m := &t.touched[i]
		t.Stats.Models.Change(m.id, func(r *stats.ModelRow) { // unless it was retired meanwhile
			r.LastRow = source.Calendar(m.last)
			r.Anomalies += m.raised
		})
	}
	clear(t.touched)
	t.touched = t.touched[:0]
}

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
	missing []*models.Wanted
}

// messageGroup is the messages of one model.
type messageGroup struct {
	entry       *models.ModelEntry
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
	t.index.Windows++ // marks the entries that have a group
	var e *models.ModelEntry
	var same []byte // the value of e; neighbouring messages often have the same
	for i := range all {
		m := &all[i]
		var value []byte
		ok := hasRows(m)
		if ok {
			value, ok = t.Models.By.OfMessage(m)
		}
		if ok && (same == nil || !bytes.Equal(same, value)) {
			e, same = t.index.Find(value), value
		}
		if !ok || e == nil {
			g.without = append(g.without, int32(i))
			continue
		}
		if e.Marked != t.index.Windows {
			e.Marked, e.Group = t.index.Windows, len(g.all)
			g.all = append(g.all, messageGroup{entry: e, value: value, first: int32(i)})
		} else {
			g.next[g.all[e.Group].last] = int32(i)
		}
		g.next[i], g.all[e.Group].last = -1, int32(i)
	}
}

// forgetGroups lets go of models and messages.
func (t *KeyedTransform) forgetGroups() {
	g := &t.groups
	for _, w := range g.missing {
		t.release(w.Entry)
	}
	clear(g.all)
	clear(g.missing)
	g.missing = g.missing[:0]
}

// release says that a model that was fetched is no longer in use.
func (t *KeyedTransform) release(e *models.ModelEntry) {
	if e.Using != nil {
		t.Models.Cache.Unpin([]*models.LoadedModel{e.Using})
		e.Using = nil
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
		at, m, ok := t.index.Place(one.entry)
		if ok && m == nil {
			g.missing = append(g.missing, &models.Wanted{Entry: one.entry, Value: string(one.value), At: at})
			continue
		}
		if err := t.writeGroup(ctx, all, one, m); err != nil {
			return err
		}
		if m != nil {
			t.Models.Cache.Touch(m)
		}
	}
	return nil
}

// whitenMissing fetches models, and writes their messages as they come.
func (t *KeyedTransform) whitenMissing(ctx context.Context, all []source.Message) error {
	g := &t.groups
	write := func(w *models.Wanted) error {
		defer t.release(w.Entry)
		return t.writeGroup(ctx, all, &g.all[w.Entry.Group], w.Entry.Using)
	}
	err := t.index.Load(ctx, g.missing, func(read []*models.Wanted) error {
		return t.inTurn(ctx, func() error {
			for _, w := range read {
				if !t.index.Make(w, true) {
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
			if g.all[w.Entry.Group].done {
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
func (t *KeyedTransform) writeGroup(ctx context.Context, all []source.Message, one *messageGroup, m *models.LoadedModel) error {
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
	t.use(m, last.Partition)
	t.touched = append(t.touched, touchedModel{id: m.ModelID, last: last.Time})
	for i := one.first; i >= 0; i = g.next[i] {
		g.order = append(g.order, i)
		if err := t.add(ctx, &all[i]); err != nil {
			return err
		}
	}
	err := t.flush(ctx)
	if !t.Models.Explains { // only some rows have been explained
		m.Scorer.ForgetWhy()
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
	t.labels = labels{partition: m.Partition, fixed: t.Models.Labels(t.index.ID(string(value)), 0, m.Partition.ID)}
	return t.addAlone(ctx, m)
}

func (t *KeyedTransform) addAlone(ctx context.Context, m *source.Message) error {
	if err := t.add(ctx, m); err != nil {
		return err
	}
	return t.flush(ctx)
}

// With model.by: column:NAME a window is as many rows as there is room for their models. Those that are not in memory are fetched together, in
// the order of their offsets, and none of them is put out before its rows are whitened.

// window is neighbouring rows of a batch whose models are in memory at the same time.
type window struct {
	number  uint64
	entries []*models.ModelEntry  // of each row: of its model; nil: it has none
	touched []*models.ModelEntry  // each once
	inUse   []*models.LoadedModel // those of touched that were in memory
	missing []*models.Wanted
}

// mostMissing bounds the models that are fetched for one window.
const mostMissing = 1 << 10

func (t *KeyedTransform) beginWindow() {
	t.index.Windows++
	w := &t.window
	w.number, w.entries, w.touched, w.inUse, w.missing = t.index.Windows, w.entries[:0], w.touched[:0], w.inUse[:0], w.missing[:0]
}

// want makes a model part of the window. It returns false if there is no room for it.
func (t *KeyedTransform) want(e *models.ModelEntry, value string) bool {
	w := &t.window
	if e.Window == w.number {
		return true
	}
	at, m, ok := t.index.Place(e)
	if ok && m == nil {
		one := &models.Wanted{Entry: e, Value: value, At: at}
		alone := len(w.missing) == 0 && len(w.inUse) == 0
		if len(w.missing) >= mostMissing || !t.Models.Cache.Reserve(one.Estimate(), alone) {
			return false
		}
		one.Reserved = one.Estimate()
		w.missing = append(w.missing, one)
	}
	if m != nil {
		w.inUse = append(w.inUse, m)
		t.Models.Cache.Pin(m)
	}
	e.Window, e.Using = w.number, m
	w.touched = append(w.touched, e)
	return true
}

func (t *KeyedTransform) fetchWindow(ctx context.Context) error {
	if len(t.window.missing) == 0 {
		return nil
	}
	return t.index.Load(ctx, t.window.missing, func(read []*models.Wanted) error {
		for _, w := range read {
			t.index.Make(w, false)
		}
		return nil
	})
}

// closeWindow lets go of the models.
func (t *KeyedTransform) closeWindow() {
	w := &t.window
	w.inUse = w.inUse[:0]
	for _, e := range w.touched {
		if e.Using != nil {
			w.inUse = append(w.inUse, e.Using)
			t.touched = append(t.touched, touchedModel{id: e.Using.ModelID, last: e.Using.Last})
			e.Using = nil
		}
	}
	t.Models.Cache.Unpin(w.inUse)
	for _, one := range w.missing {
		t.Models.Cache.Unreserve(one.Reserved)
	}
	clear(w.inUse)
	clear(w.touched)
	clear(w.missing)
	clear(w.entries)
}
