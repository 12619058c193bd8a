package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

const (
	// mostLookups bounds how often a model is looked up again because its snapshot is gone: compacted since its offset was
	// remembered. A newer one is on the topic by then.
	mostLookups = 5

	// mostAcross is how many records between two snapshots are read rather than sought over.
	mostAcross = 32

	// grows is about how much larger a model is in memory than its snapshot.
	grows = 3
)

// wanted is a model that rows ask for and that is not in memory.
type wanted struct {
	entry    *modelEntry
	value    string
	at       modelPlace
	reserved int // bytes of the cache
	gone     int // how often there was nothing at the same place

	chunks []source.Record // as far as they have been read
	kept   int             // those of them that are copies
	read   bool            // all was read that is there
	err    error           // why there is no model of it
}

func (w *wanted) estimate() int { return grows * int(w.at.bytes) }

// load fetches models in the order of their offsets, and hands them to take as they have been read, which makes them. An entry whose newest
// snapshot is unusable has an older one afterwards, or no model.
func (x *modelIndex) load(ctx context.Context, all []*wanted, take func(read []*wanted) error) error {
	for try := 0; len(all) > 0; try++ {
		if try == mostLookups {
			return fmt.Errorf("pipeline: the newest snapshot of model %q was not at its offset %d times in a row", x.id(all[0].value), mostLookups)
		}
		all = slices.Clone(all) // the caller's has all of them
		slices.SortFunc(all, func(a, b *wanted) int { return cmp.Compare(a.at.first, b.at.first) })
		if err := x.fetch(ctx, all, take); err != nil {
			return err
		}
		again, err := x.unusable(all)
		if err != nil || len(again) == 0 {
			return err
		}
		if err := x.patiently(ctx, func() error { return x.catchUp(ctx) }); err != nil {
			return err
		}
		all = all[:0]
		for _, w := range again {
			if x.again(w) {
				all = append(all, w)
			}
		}
	}
	return nil
}

// unusable returns what has to be looked up again.
func (x *modelIndex) unusable(all []*wanted) (again []*wanted, err error) {
	for _, w := range all {
		switch {
		case w.err == nil:
		case errors.Is(w.err, snapshot.ErrIncomplete):
			again = append(again, w)
		case errors.Is(w.err, snapshot.ErrNewer) && w.entry.served == 0:
			return nil, &Stop{Err: w.err, Remedy: "use that release; or go on under another snapshot.model_id"}
		default:
			x.models.faults.say(x.models.Log, "a snapshot is unusable; the one before it is used, if there is one", x.id(w.value), w.at.version, w.err)
			x.giveUp(w.entry, w.at)
			again = append(again, w)
		}
	}
	return again, nil
}

// make makes the model of a snapshot of which all was read that is there, and takes it into memory, or lets it pass if it may. It returns false
// if that is not a model.
func (x *modelIndex) make(w *wanted, mayPass bool) bool {
	passes := !x.models.cache.admits(w.entry, w.estimate()) && mayPass
	m, err := x.made(w, passes)
	w.err, w.chunks, w.kept = err, nil, 0
	if err != nil {
		return false
	}
	x.serve(w.entry, m.Version)
	w.entry.using = m
	if passes {
		x.models.cache.passed()
	} else {
		x.models.cache.put(m, w.reserved)
		w.reserved = 0
	}
	x.models.show(m)
	return true
}

// again looks a model up again whose snapshot is gone or unusable. It returns false if there is nothing to fetch.
func (x *modelIndex) again(w *wanted) bool {
	const surely = 2 // a log that was replaced comes back from its beginning
	at, m, ok := x.place(w.entry)
	if at != w.at {
		w.gone = 0
	}
	if w.gone++; ok && m == nil && at == w.at && w.gone == surely {
		x.models.faults.say(x.models.Log, "a snapshot is no longer on the topic; the one before it is used, if there is one", x.id(w.value), at.version, errors.New("it was deleted, and nothing newer has come"))
		x.giveUp(w.entry, at)
		at, m, ok = x.place(w.entry)
	}
	if ok && m == nil {
		w.at, w.read, w.err = at, false, nil
		return true
	}
	if w.entry.using = m; m != nil {
		x.models.cache.pin(m)
	}
	return false
}

// fetch reads snapshots and hands them to take. It waits for brokers that do not answer.
func (x *modelIndex) fetch(ctx context.Context, all []*wanted, take func(read []*wanted) error) error {
	var refused error
	hand := func(read []*wanted) error {
		if len(read) == 0 {
			return nil
		}
		for _, w := range read {
			w.read = true
		}
		refused = take(read)
		return refused
	}
	err := x.patiently(ctx, func() error {
		all = slices.DeleteFunc(slices.Clone(all), func(w *wanted) bool { return w.read })
		left, err := x.read(ctx, all, hand)
		if refused != nil {
			return nil
		}
		if err != nil {
			x.loader = nil
		}
		if err == nil || replaced(err) { // what was not found is gone
			return hand(left)
		}
		for _, w := range left {
			w.chunks, w.kept = nil, 0
		}
		return err
	})
	return cmp.Or(refused, err)
}

// patiently tries until ctx ends, or an error comes that no retry can cure.
func (x *modelIndex) patiently(ctx context.Context, try func() error) error {
	for wait := firstRetry; ; wait = longer(wait) {
		err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case sink.Permanent(err):
			return err
		}
		x.models.Log.Warn("cannot fetch models; rows wait for them", "partition", x.partition, "error", err, "retry_in", wait)
		sleep(ctx, wait)
	}
}

// read reads the snapshots of all in one go over the partition, hands over what is read, and returns the rest. Of what was read no more is
// kept than of those that are not whole yet.
func (x *modelIndex) read(ctx context.Context, all []*wanted, hand func(read []*wanted) error) (left []*wanted, err error) {
	for next := int64(-1); len(all) > 0; {
		from := all[0].at.first
		if x.loader == nil {
			if x.loader, err = x.models.Open(ctx, x.partition, from); err != nil {
				return all, err
			}
			x.loader.Reuse()
		} else if next < 0 || from-next > mostAcross {
			x.loader.Move(from)
		}
		x.loader.Want(together(all))
		got, err := x.loader.Fetch(ctx)
		if err != nil {
			return all, err
		}
		if len(got.Records) == 0 && got.Next >= got.LastStable { // behind the end: what was there is gone
			return all, nil
		}
		next = got.Next
		share(got.Records, all)
		n := 0
		for n < len(all) && all[n].at.last < next {
			n++
		}
		read := all[:n]
		all = all[n:]
		if err := hand(read); err != nil {
			return all, err
		}
		for i := 0; i < len(all) && all[i].at.first < next; i++ {
			all[i].keep()
		}
	}
	return nil, nil
}

// keep copies the chunks that have come so far: the next Fetch takes their memory.
func (w *wanted) keep() {
	for i := w.kept; i < len(w.chunks); i++ {
		r := &w.chunks[i]
		r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
		for k := range r.Headers {
			r.Headers[k].Value = bytes.Clone(r.Headers[k].Value)
		}
	}
	w.kept = len(w.chunks)
}

// together returns the offset behind the snapshots, of the first ones, that are read without seeking between them.
func together(all []*wanted) int64 {
	last := all[0].at.last
	for _, w := range all[1:] {
		if w.at.first-last > mostAcross {
			break
		}
		last = max(last, w.at.last)
	}
	return last + 1
}

// share gives records to the snapshots that they are chunks of. Snapshots may lie among each other.
func share(records []source.Record, all []*wanted) {
	for _, r := range records {
		for len(all) > 0 && all[0].at.last < r.Offset {
			all = all[1:]
		}
		for _, w := range all {
			if w.at.first > r.Offset {
				break
			}
			if r.Offset <= w.at.last {
				w.chunks = append(w.chunks, r)
			}
		}
	}
}

func (x *modelIndex) made(w *wanted, passes bool) (*loadedModel, error) {
	joiner := &x.joiner
	if passes {
		joiner = &x.passing.joiner
		joiner.Over = true
	}
	s, err := joiner.Join(x.id(w.value), w.at.version, w.chunks)
	if err == nil {
		err = x.models.accept(s)
	}
	if err != nil {
		return nil, err
	}
	return x.ready(w.entry, s, passes)
}

// ready prepares a model for whitening.
func (x *modelIndex) ready(e *modelEntry, s *snapshot.Snapshot, passes bool) (*loadedModel, error) {
	k := x.models
	s.Features, s.Offsets, s.Extra = k.names.one(s.Features), nil, nil
	view, err := s.Model.View(k.Coordinates, k.Components)
	if err != nil {
		return nil, err
	}
	m := &loadedModel{entry: e, slice: sliceRows(view.Dim, len(view.Neighbours))}
	lean := &m.own.model
	*lean = *view
	lean.CL, lean.CG = nil, nil
	s.Model, m.own.published = lean, PublishedModel{s}
	m.PublishedModel, m.scorer = &m.own.published, x.scorer(m, passes)
	m.scorer.Prepare(k.Explains)
	m.fixed = append(m.own.headers[:0], x.labels(s.ModelID, s.Version)...)
	if k.AlarmsTo != nil {
		m.alarms = k.AlarmsTo(s.ModelID)
	}
	m.bytes = m.size()
	return m, nil
}

// scorer returns a scorer of a model. Those that pass share their memory.
func (x *modelIndex) scorer(m *loadedModel, passes bool) *lca.Scorer {
	scorer := &m.own.scorer
	if passes {
		scorer = &x.passing.scorer
	}
	scorer.Use(&x.workspace)
	scorer.Renew(&m.own.model)
	return scorer
}

// labels are the headers of outputs of a model. What all models have in common is in one place.
func (x *modelIndex) labels(id string, version uint64) []source.Header {
	if x.common == nil {
		x.common = x.models.labels("", 0, x.partition)
	}
	both := append(make([]byte, 0, len(id)+20), id...)
	both = strconv.AppendUint(both, version, 10)
	x.common[0].Value, x.common[1].Value = both[:len(id):len(id)], both[len(id):]
	return x.common
}

// errRefused is a model that rows must not be whitened with.
var errRefused = errors.New("it is passed over")

// accept refuses models of another pipeline with the same ids on the same topic, and of other features.
func (k *KeyedModels) accept(s *snapshot.Snapshot) error {
	if topic := s.LearntFrom(); topic != "" && k.Source != "" && topic != k.Source {
		return fmt.Errorf("%w: it was learnt from topic %q, and this transform reads %q: set another snapshot.model_id", errRefused, topic, k.Source)
	}
	if !minibatch.Chosen(k.Features, s.Features) {
		return fmt.Errorf("%w: %w: it %s: %s", errRefused, errOtherFeatures, OtherFeatures(s.Features, "source.features now says", k.Features), otherFeaturesRemedy)
	}
	return nil
}

// labels are the headers of outputs of a model; version 0: there is none.
func (k *KeyedModels) labels(id string, version uint64, partition int32) []source.Header {
	return []source.Header{
		text("lca-model-id", id),
		text("lca-model-version", strconv.FormatUint(version, 10)),
		text(headerGroup, k.Group),
		text(headerSourceTopic, k.Source),
		text(headerSourcePartition, strconv.Itoa(int(partition))),
	}
}
