package learn

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// KeyedRange is the stage that gives the rows of a range to a model for each value of model.by. Its memory is bounded: once
// the models take more than Memory, those that came last give way, and no other is begun. They come with another reading of the
// range. So a model sees either all rows of its value or none, and its rows are told apart by their place among them: what a
// model learns depends on the rows of its value alone, whatever else is in the range and however much memory there is.
//
// A round is one reading, or several where the models learn in passes. Use it so: Loop.Run for each pass, then Models, then
// NextRound while More.
type KeyedRange struct {
	neverPut
	By      modelkey.By
	Base    string                                                          // of the models' ids
	Part    func(source.Partition) int32                                    // the partition in a model's id
	Columns []string                                                        // source.features
	Memory  int64                                                           // bytes that the models may take; one model is held at least
	Wanted  func(id string) bool                                            // nil: all
	Begin   func(id string, partition source.Partition) (RangeModel, error) // returns what takes the rows of a model
	Log     *slog.Logger
	Facts   map[string]*Facts // what was accepted, by id of the model

	OnInvalid reject.OnInvalid // source.on_invalid, as KeyedLearn applies it: reject.RejectRow and reject.ImputeRow; under the others such rows are left out

	NoKey    uint64   // rows without a value
	Unusable Unusable // messages that no model can be said of

	done    map[rangePlace]bool
	models  map[rangePlace]*RangeKey
	order   []*RangeKey // of models, as they came
	bytes   int64
	full    bool // no other model is begun in this round
	pass    int  // of this round
	rounds  int
	plans   map[string]*minibatch.Features
	rows    minibatch.Rows
	touched []*RangeKey
	x       []float64 // an empty buffer, and ids
	ids     []uint64
	said    bool
}

// RangeModel takes the rows of one value.
type RangeModel interface {
	// Features says what the rows have; it is called once, before the first rows.
	Features(names []string) error
	// Take takes rows with their identities, and the stamp of their message. With reject.ImputeRow they may have NaN for nulls.
	Take(ctx context.Context, x []float64, ids []uint64, stamp int64) error
	// Bytes is the memory that the model takes.
	Bytes() int64
	// Accept lets what was held be learnt.
	Accept(*episode.Acceptance)
	// NextPass is called between two passes over the same rows.
	NextPass() error
}

// rangePlace is where a model belongs.
type rangePlace struct {
	partition int32
	value     string
}

// RangeKey is a value of the range.
type RangeKey struct {
	ID        string
	Partition int32
	Model     RangeModel
	Rows      uint64   // usable ones, of one pass
	Unusable  Unusable // of its messages

	place   rangePlace
	of      source.Partition
	facts   *Facts
	plan    *minibatch.Features // nil: none of its messages could be read so far
	ordinal int                 // of its next row
	bytes   int64
	x       []float64
	ids     []uint64
	n       int // rows of a message, usable or not
	valid   int // … that are usable
}

// aroundKey is about how much memory a value takes without its rows.
const aroundKey = 1 << 10

// Do gives the rows of a batch to their models. It counts bad messages and rows, and skips them.
func (k *KeyedRange) Do(ctx context.Context, b source.Batch) (pipeline.Work, error) {
	if k.models == nil {
		k.models, k.done, k.plans = map[rangePlace]*RangeKey{}, map[rangePlace]bool{}, map[string]*minibatch.Features{}
	}
	for i := range b.Messages {
		if err := k.message(ctx, &b.Messages[i]); err != nil {
			return pipeline.Work{}, err
		}
	}
	return pipeline.Work{}, ctx.Err()
}

// first reports whether this is the first reading of the range, in which what belongs to no model is counted.
func (k *KeyedRange) first() bool { return k.rounds == 0 && k.pass == 0 }

func (k *KeyedRange) message(ctx context.Context, m *source.Message) error {
	switch {
	case m.Err != nil:
		k.unusable(m.Err)
		return nil
	case m.Record == nil || m.Record.NumRows() == 0:
		return nil
	case k.By.Place == modelkey.Column:
		return k.byColumn(ctx, m)
	}
	value, ok := k.By.OfMessage(m)
	if !ok {
		k.homeless(m.Record.NumRows())
		return nil
	}
	t, err := k.key(m.Partition, string(value))
	if err != nil || t == nil {
		return err
	}
	k.touched = append(k.touched[:0], t)
	return k.give(ctx, m, k.touched, func(int) *RangeKey { return t })
}

// byColumn gives the rows of a message to the models that a column names.
func (k *KeyedRange) byColumn(ctx context.Context, m *source.Message) error {
	values, err := k.By.Column(m.Record)
	if err != nil {
		k.unusable(encode.Refused(m, err))
		return nil
	}
	defer values.Release()
	for row := 0; k.OnInvalid == reject.RejectRow && row < values.Len(); row++ {
		if _, ok := values.At(row); !ok {
			k.unusable(reject.Bad(m, reject.ReasonNoKey, rowError(row, errNoKey)))
			return nil
		}
	}
	of, known := map[string]*RangeKey{}, false
	k.touched = k.touched[:0]
	for row := range values.Len() {
		value, ok := values.At(row)
		if !ok {
			k.homeless(1)
			continue
		}
		if _, known = of[value]; known {
			continue
		}
		t, err := k.key(m.Partition, value)
		if err != nil {
			return err
		}
		if of[value] = t; t != nil {
			k.touched = append(k.touched, t)
		}
	}
	return k.give(ctx, m, k.touched, func(row int) *RangeKey {
		value, ok := values.At(row)
		if !ok {
			return nil
		}
		return of[value]
	})
}

func (k *KeyedRange) unusable(bad *source.RecordError) {
	if k.first() {
		k.Unusable.record(bad)
	}
}

func (k *KeyedRange) homeless(rows int64) {
	if k.first() {
		k.NoKey += uint64(rows)
	}
}

// key returns the key of a value, nil if this round is not about it.
func (k *KeyedRange) key(p source.Partition, value string) (*RangeKey, error) {
	at := rangePlace{k.Part(p), value}
	if t := k.models[at]; t != nil {
		return t, nil
	}
	if k.pass > 0 || k.full || k.done[at] {
		return nil, nil
	}
	at.value = strings.Clone(value) // the message's memory is used again, and the model stays
	id := modelkey.ID(k.Base, at.partition, []byte(value))
	if k.Wanted != nil && !k.Wanted(id) {
		return nil, nil
	}
	if k.full = len(k.order) > 0 && k.bytes >= k.Memory; k.full {
		return nil, nil
	}
	model, err := k.Begin(id, p)
	if err != nil {
		return nil, err
	}
	k.Facts[id].restart()
	t := &RangeKey{ID: id, Partition: at.partition, Model: model, place: at, of: p, facts: k.Facts[id]}
	k.models[at], k.order = t, append(k.order, t)
	k.weigh(t)
	return k.models[at], nil
}

// weigh notes what a model takes, and lets the last ones give way where all take too much.
func (k *KeyedRange) weigh(t *RangeKey) {
	if t.Model == nil {
		return
	}
	now := aroundKey + 3*int64(len(t.ID)) + t.Model.Bytes()
	k.bytes += now - t.bytes
	t.bytes = now
	for k.bytes > k.Memory && len(k.order) > 1 {
		last := k.order[len(k.order)-1]
		k.order, k.full = k.order[:len(k.order)-1], true
		k.bytes -= last.bytes
		delete(k.models, last.place)
		last.Model = nil
	}
}

// give gives the rows of a message to models, plan by plan: mostly all have the same features. Each model reads the message by itself: one
// that cannot does not keep the others from it.
func (k *KeyedRange) give(ctx context.Context, m *source.Message, touched []*RangeKey, of func(row int) *RangeKey) error {
	var plans []*minibatch.Features
	for _, t := range touched {
		if t.facts != nil { // most have none, and each message asks
			t.facts.upTo(source.Offsets{t.of: m.Offset}, t.accept)
		}
		if err := k.choose(t, m); err != nil {
			return err
		}
		if t.plan != nil && !slices.Contains(plans, t.plan) {
			plans = append(plans, t.plan)
		}
	}
	k.rows.KeepMissing = k.OnInvalid == reject.ImputeRow
	for _, plan := range plans {
		if bad := readable(k.OnInvalid, plan, &k.rows, m); bad != nil {
			for _, t := range touched {
				if t.plan == plan {
					t.Unusable.record(bad)
				}
			}
			continue
		}
		for _, t := range touched {
			if t.plan == plan {
				t.Unusable.read(plan, m.Record)
			}
		}
		err := reject.EachSlice(plan, &k.rows, m.Record, func(first int) error { return k.slice(ctx, plan, touched, m.Stamp(), first, of) })
		if err != nil {
			return err
		}
	}
	return nil
}

// choose decides the features of a model by the first message that has any.
func (k *KeyedRange) choose(t *RangeKey, m *source.Message) error {
	if t.plan != nil || t.Model == nil { // it is known, or has given way to one of the same message
		return nil
	}
	f, leftOut, err := minibatch.ChooseWithout(m.Record, k.Columns, k.By.ColumnName())
	if err != nil {
		t.Unusable.record(encode.Refused(m, err))
		return nil
	}
	if !k.said {
		k.said = true
		WarnLeftOut(k.Log, f, leftOut)
	}
	names := strings.Join(f.Names, "\x00")
	if k.plans[names] == nil {
		k.plans[names] = &minibatch.Features{Names: f.Names}
	}
	t.plan = k.plans[names]
	if err := t.Model.Features(f.Names); err != nil {
		return fmt.Errorf("model %q: %w", t.ID, err)
	}
	k.weigh(t)
	return nil
}

// slice gives the rows of a slice of a message, which begins at row first, to the models of a plan.
func (k *KeyedRange) slice(ctx context.Context, plan *minibatch.Features, touched []*RangeKey, stamp int64, first int, of func(row int) *RangeKey) error {
	id := minibatch.NewRowIDs("", 0)
	for i, reason := range k.rows.Invalid {
		t := of(first + i)
		if t == nil || t.plan != plan {
			continue
		}
		if t.n == 0 {
			t.x, t.ids, k.x, k.ids = k.x[:0], k.ids[:0], nil, nil
		}
		if reason == minibatch.ReasonNone {
			t.valid++
		}
		if reason == minibatch.ReasonNone || k.rows.Missing(i) > 0 {
			t.x = append(t.x, k.rows.X[i*k.rows.Dim:(i+1)*k.rows.Dim]...)
			t.ids = append(t.ids, id.ID(0, t.ordinal))
		}
		t.ordinal++
		t.n++
	}
	for _, t := range touched {
		if t.n == 0 || t.plan != plan {
			continue
		}
		t.Unusable.rows(t.n, t.valid)
		t.Rows += uint64(t.valid)
		if t.Model != nil { // it has not given way just now
			if err := t.Model.Take(ctx, t.x, t.ids, stamp); err != nil {
				return err
			}
			k.weigh(t)
		}
		k.x, k.ids = t.x, t.ids // for another one
		t.x, t.ids, t.n, t.valid = nil, nil, 0, 0
	}
	return nil
}

// NextPass begins another reading of the range for the models of this round.
func (k *KeyedRange) NextPass() error {
	k.pass++
	for _, t := range k.order {
		t.facts.upTo(t.facts.rest(), t.accept)
		t.facts.restart()
		t.ordinal, t.Rows, t.Unusable = 0, 0, Unusable{}
		if t.plan == nil {
			continue
		}
		if err := t.Model.NextPass(); err != nil {
			return err
		}
	}
	return nil
}

// Models returns the models of this round, sorted by partition and value. They are done with.
func (k *KeyedRange) Models() []*RangeKey {
	all := k.order
	slices.SortFunc(all, func(a, b *RangeKey) int {
		if a.Partition != b.Partition {
			return int(a.Partition) - int(b.Partition)
		}
		return strings.Compare(a.place.value, b.place.value)
	})
	for _, t := range all {
		t.facts.upTo(t.facts.rest(), t.accept)
		k.done[t.place] = true
	}
	k.models, k.order, k.bytes = map[rangePlace]*RangeKey{}, nil, 0
	return all
}

// More reports whether there are values that this round was not about.
func (k *KeyedRange) More() bool { return k.full }

// NextRound begins another reading of the range for values that are not done.
func (k *KeyedRange) NextRound() { k.full, k.pass, k.rounds = false, 0, k.rounds+1 }

// Rounds is how many rounds there were.
func (k *KeyedRange) Rounds() int { return k.rounds + 1 }

// Nothing returns the error for a range in which no value has a row that can be learnt from.
func (k *KeyedRange) Nothing() error {
	if k.Unusable.First == nil && k.NoKey > 0 {
		return &reject.Stop{
			Err:    fmt.Errorf("no rows to learn from: of %s none has a value of model.by (%s)", plural.Count(k.NoKey, "row"), k.By),
			Remedy: "see what the range holds with inspect",
		}
	}
	return k.Unusable.nothing()
}

func (t *RangeKey) accept(a *episode.Acceptance) {
	if t.Model != nil {
		t.Model.Accept(a)
	}
}

// Nothing returns the error for a value without a row that can be learnt from.
func (t *RangeKey) Nothing() error { return t.Unusable.nothing() }
