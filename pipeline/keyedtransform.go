package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// KeyedTransform is the stage that whitens one partition with a model for each value of model.by: of each message by its key or a
// header, or of each row by a column. What it does to a row is what a Transform with that row's model does.
//
// TransformConfig.Follow has nothing but the ModelID, with which the ids of models begin.
type KeyedTransform struct {
	Transform
	Models *KeyedModels

	index    *modelIndex
	groups   messageGroups
	window   window
	rows     columnRows
	features []string // of the model used last, for how much memory a batch takes
	touched  []touchedModel
	noModel  []source.Header // see base
	warned   time.Time       // that a model is old
}

// touchedModel is a model that has whitened rows of the batch.
type touchedModel struct {
	id     string
	last   time.Time // of the last row
	raised uint64    // anomalies of the batch
}

// CatchUp waits until the index of a partition has read the snapshot topic to its end. A new owner does this before its first
// output, so that versions never go back within a key.
func (k *KeyedModels) CatchUp(ctx context.Context, partition int32) error {
	return k.index(partition).catchUp(ctx)
}

// Do whitens a batch, window by window. Its Work lives until the next Do.
func (t *KeyedTransform) Do(ctx context.Context, b source.Batch) (Work, error) {
	if len(b.Messages) == 0 {
		return Work{Commit: true}, nil
	}
	start := time.Now()
	t.index = t.Models.index(b.Messages[0].Partition.ID)
	if err := b.Reserve(ctx, t.takesOf(ctx, &b, t.usual())); err != nil {
		return Work{}, err
	}
	if t.Engines == nil {
		t.Engines = NewEngines(1, 2*slabMost)
	}
	if t.made == nil {
		t.made = t.Engines.made()
	}
	t.made.begin(len(b.Messages))
	t.touched = t.touched[:0]
	if t.unusual == nil && !t.Alarms.scores() {
		t.unusual = map[string]uint64{}
	}
	clear(t.unusual)
	by := t.doMessages
	if t.Models.By.Place == modelkey.Column {
		by = t.doColumns
	}
	if err := by(ctx, b.Messages); err != nil {
		return Work{}, err
	}
	t.countAnomalies()
	t.counts.read(b.Messages)
	t.Stats.Transform.observe(time.Since(start))
	return Work{Commit: true, Messages: t.made.messages, inputs: t.made.inputs}, nil
}

// usual is the features that rows have, as far as is known.
func (t *KeyedTransform) usual() []string {
	if t.features != nil {
		return t.features
	}
	return t.Columns
}

// inTurn works with an engine. Nothing is waited for meanwhile.
func (t *KeyedTransform) inTurn(ctx context.Context, work func() error) error {
	one, err := t.Engines.take(ctx)
	if err != nil {
		return err
	}
	t.engine = one
	defer func() { t.engine = nil; t.Engines.give(one) }()
	if err := t.adopt(&t.TransformConfig, nil); err != nil {
		return err
	}
	t.model, t.labels = nil, labels{}
	return work()
}

// base are the headers of outputs that belong to no model. They are made once.
func (t *KeyedTransform) base(partition int32) []source.Header {
	if t.noModel == nil {
		t.noModel = t.Models.labels(t.Models.ModelID, 0, partition)
	}
	return t.noModel
}

// hasRows reports whether there is something to whiten.
func hasRows(m *source.Message) bool {
	return m.Err == nil && m.Record != nil && m.Record.NumRows() > 0
}

// use makes a model the one that the rows to come are whitened with. The queue is empty.
func (t *KeyedTransform) use(m *loadedModel, p source.Partition) error {
	e := t.engine
	e.model, e.scorer, e.slice = m.PublishedModel, m.scorer, m.slice
	e.scorer.Use(&e.workspace)
	if !sameNames(e.features.Names, m.Features) {
		e.features = minibatch.Features{Names: m.Features}
	}
	t.features = m.Features
	t.labels = labels{model: m.PublishedModel, partition: p, fixed: m.fixed}
	t.Alarms.ModelID, t.Alarms.Partition = m.ModelID, m.alarms
	return t.checkAgeOf(m.PublishedModel)
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
	u := t.counts.rejected(reasonNoKey, n)
	if u.n == n {
		u.partition, u.offset, u.row = m.Partition, m.Offset, row
	}
	why := fmt.Errorf("row %d has no value of model.by = %v, or a longer one than %d bytes", row, t.Models.By, modelkey.MostBytes)
	switch t.OnInvalid {
	case NullRow, ImputeRow: // kept, with a null result
	case RejectRow:
		return bad(m, reasonNoKey, why)
	case StopAtRow:
		return bad(m, reasonNoKey, &Stop{Err: fmt.Errorf("%s@%d: %w", m.Partition, m.Offset, why), Remedy: "fix the producer, or set source.on_invalid to null, impute or dead_letter"})
	}
	return nil
}

// checkAgeOf applies transform.max_model_age. Models of keys that are seldom heard of are old, so the warning comes at most once a minute.
func (t *KeyedTransform) checkAgeOf(m *PublishedModel) error {
	if t.MaxModelAge == 0 {
		return nil
	}
	now := t.Now()
	age := m.Age(now)
	switch {
	case age <= t.MaxModelAge:
	case t.StopOnStale:
		return &Stop{
			Err:    fmt.Errorf("snapshot %d of model %q is %v old, more than transform.max_model_age = %v", m.Version, m.ModelID, age.Round(time.Second), t.MaxModelAge),
			Remedy: "see whether the learner runs, or set transform.on_stale to warn",
		}
	case now.Sub(t.warned) >= modelEvery:
		t.warned = now
		t.Log.Warn("a model is older than transform.max_model_age", "model_id", m.ModelID, "version", m.Version, "age", age.Round(time.Second))
	}
	return nil
}

// countAnomalies counts the alarms of each model, or, where rows raise none, its unusual rows.
func (t *KeyedTransform) countAnomalies() {
	if !t.Alarms.scores() {
		for n := range t.touched { // a model is there more than once if there were several windows
			m := &t.touched[n]
			m.raised = t.unusual[m.id]
			delete(t.unusual, m.id)
		}
		return
	}
	var at map[string]int
	for i := range t.made.messages {
		if t.made.messages[i].Topic != t.Alarms.Topic {
			continue
		}
		if at == nil {
			at = map[string]int{}
			for n := range t.touched {
				at[t.touched[n].id] = n
			}
		}
		if n, ok := at[string(t.made.messages[i].Key)]; ok {
			t.touched[n].raised++
		}
	}
}

// Kept counts what was put.
func (t *KeyedTransform) Kept() {
	t.Transform.Kept()
	for i := range t.touched {
		m := &t.touched[i]
		t.Stats.Models.Change(m.id, func(r *ModelRow) { // unless it was retired meanwhile
			r.LastRow = source.Calendar(m.last)
			r.Anomalies += m.raised
		})
	}
	clear(t.touched)
	t.touched = t.touched[:0]
}
