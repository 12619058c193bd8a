package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// modelIndex knows where the newest snapshot of each model of a partition lies on the snapshot topic. It is made of keys, headers
// and checksums alone: what is between them is fetched when rows ask for the model.
type modelIndex struct {
	models    *KeyedModels
	partition int32

	// The state of run.
	spans snapshot.Spans
	lost  bool // the partition could not be followed, and that was logged

	mu      sync.Mutex // guards the fields below and the places of entries; never held while waiting
	entries map[string]*modelEntry
	next    int64         // offset to read next
	moved   chan struct{} // closed and replaced whenever next moves

	// The state of the stage.
	windows uint64
	loader  ModelLog // nil: not open

	joiner    snapshot.Joiner
	workspace lca.Workspace // models are prepared in
	passing   struct {      // the memory of a model that passes, see modelCache
		joiner snapshot.Joiner
		scorer lca.Scorer
	}
	common []source.Header // see labels
}

// modelEntry is what is known of one model.
type modelEntry struct {
	newest, former modelPlace // guarded by the mutex of the index
	served         uint64     // the newest version that rows were whitened with; so too
	own            bool       // our group has published it; so too

	loaded atomic.Pointer[loadedModel] // nil: not in memory
	heat   heat                        // guarded by the mutex of the cache

	// The state of the stage, for one window.
	window uint64
	using  *loadedModel // nil: there is no model
	marked uint64       // its group is that of the rows being divided
	group  int
}

// modelPlace is where a snapshot lies; the zero value is nowhere.
type modelPlace struct {
	version                   uint64
	first, last               int64
	bytes, slot               int32
	model, neighbours, scores int32 // chunks
}

func placeOf(s *snapshot.Span) modelPlace {
	return modelPlace{
		version: s.Version, first: s.First, last: s.Last, bytes: int32(s.Bytes), slot: int32(s.Slot),
		model: int32(s.Chunks.Model), neighbours: int32(s.Chunks.Neighbours), scores: int32(s.Scores),
	}
}

// usable reports whether rows may be whitened with it: versions never go back.
func (e *modelEntry) usable() bool { return e.newest.version > 0 && e.newest.version >= e.served }

// run follows the partition until ctx ends. It returns errors that no retry can cure.
func (x *modelIndex) run(ctx context.Context) error {
	for wait := firstRetry; ctx.Err() == nil; wait = longer(wait) {
		err := x.tail(ctx, &wait)
		if ctx.Err() != nil {
			break
		}
		if sink.Permanent(err) || errors.As(err, new(*Stop)) {
			return fmt.Errorf("pipeline: follow the snapshot topic: %w", err)
		}
		x.lost = true
		if replaced(err) {
			x.forget()
			x.models.Log.Warn("the snapshot topic is not the one that was read: it is read from its beginning, and models stay until there are newer ones", "topic", x.models.Topic, "partition", x.partition)
		} else {
			x.models.Log.Warn("cannot follow the snapshot topic; models stay as they are", "partition", x.partition, "error", err, "retry_in", wait)
		}
		sleep(ctx, wait)
	}
	return nil
}

// forget begins again, because offsets say nothing any more. Versions that rows were whitened with are remembered.
func (x *modelIndex) forget() {
	x.spans = snapshot.Spans{}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		if m := e.loaded.Load(); m != nil {
			e.served = max(e.served, m.Version)
		}
		e.newest, e.former = modelPlace{}, modelPlace{}
	}
	x.next = 0
}

func (x *modelIndex) tail(ctx context.Context, wait *time.Duration) error {
	log, err := x.models.Open(ctx, x.partition, x.position())
	if err != nil {
		return err
	}
	for {
		got, err := log.Fetch(ctx)
		if err != nil {
			return err
		}
		*wait = firstRetry
		if x.lost {
			x.lost = false
			x.models.Log.Info("the snapshot topic is followed again", "topic", x.models.Topic, "partition", x.partition)
		}
		if err := x.take(&got); err != nil {
			return err
		}
	}
}

func (x *modelIndex) position() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.next
}

// take adds what was fetched.
func (x *modelIndex) take(got *source.Fetched) error {
	for i := range got.Records {
		r := &got.Records[i]
		whole, gone, err := x.spans.Add(r.Key, r.Value, r.Headers, r.Offset)
		switch {
		case err != nil:
			x.models.Log.Error("a snapshot chunk is unusable; the current model stays", "partition", x.partition, "offset", r.Offset, "error", err)
		case whole != nil && whole.ModelID == x.models.ModelID:
			return allRowsThere(x.models.Topic, whole.ModelID)
		case whole != nil:
			if err := x.otherBy(whole); err != nil {
				return err
			}
			if x.add(whole) {
				x.models.Stats.Models.Update(whole.ModelID, func(r *ModelRow) { r.Version = max(r.Version, whole.Version) })
			}
		case gone != nil:
			x.remove(gone)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next = got.Next
	close(x.movedLocked())
	x.moved = nil
	return nil
}

// otherBy refuses a snapshot that our group has published with another model.by.
func (x *modelIndex) otherBy(s *snapshot.Span) error {
	if _, ours := x.valueOf(s.ModelID); !ours || x.models.Group != "" && s.Group != x.models.Group {
		return nil
	}
	return OtherBy(x.models.Topic, s.ModelID, s.By, x.models.By)
}

// valueOf returns the value of model.by that a model id of this partition stands for.
func (x *modelIndex) valueOf(id string) (string, bool) {
	base, partition, value, ok := modelkey.Split(id)
	return string(value), ok && base == x.models.ModelID && partition == x.partition
}

func (x *modelIndex) id(value string) string {
	return modelkey.ID(x.models.ModelID, x.partition, []byte(value))
}

// add takes in a whole snapshot. It returns false for one that is not used.
func (x *modelIndex) add(s *snapshot.Span) bool {
	value, ok := x.valueOf(s.ModelID)
	if !ok {
		return false // of another pipeline
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entries[value]
	if e == nil {
		if x.entries == nil {
			x.entries = map[string]*modelEntry{}
		}
		e = &modelEntry{}
		x.entries[value] = e
	}
	own := x.models.Group == "" || s.Group == "" || s.Group == x.models.Group
	if !own && e.own {
		return false // it was here before our group published versions of its own, or is another pipeline's by mistake
	}
	e.own = e.own || own
	at := placeOf(s)
	switch {
	case s.Version == e.newest.version: // written again
		e.newest = at
	case s.Version < e.newest.version:
		return false
	case e.newest.slot != at.slot && e.newest.version > 0:
		e.former, e.newest = e.newest, at
	case e.former.slot == at.slot:
		e.former, e.newest = modelPlace{}, at
	default:
		e.newest = at
	}
	return true
}

// remove takes in that a key was deleted. A model without a snapshot is one that was retired.
func (x *modelIndex) remove(d *snapshot.Deleted) {
	value, ok := x.valueOf(d.ModelID)
	if !ok {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entries[value]
	if e == nil {
		return
	}
	if e.former.holds(d) {
		e.former = modelPlace{}
	}
	if e.newest.holds(d) {
		e.newest, e.former = e.former, modelPlace{}
	}
	if e.newest.version == 0 {
		delete(x.entries, value)
		x.models.cache.remove(e.loaded.Load())
		x.models.Stats.ModelCounts("transform").Retired.Add(1)
		x.models.Stats.Models.Remove(d.ModelID)
	}
}

// holds reports whether a deleted key of the same model is one of the snapshot's.
func (p *modelPlace) holds(d *snapshot.Deleted) bool {
	chunks := snapshot.Chunks{Model: int(p.model), Neighbours: int(p.neighbours)}
	s := snapshot.Span{ModelID: d.ModelID, Slot: int(p.slot), Chunks: chunks, Scores: int(p.scores)}
	return p.version > 0 && s.Deletes(d)
}

// find returns what is known of a model; nil: there is none.
func (x *modelIndex) find(value []byte) *modelEntry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[string(value)]
}

// findText is find for text.
func (x *modelIndex) findText(value string) *modelEntry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[value]
}

// place returns where the newest snapshot of a model lies, and the model if that is in memory. It returns false if there is
// none. What it returns is going to be used.
func (x *modelIndex) place(e *modelEntry) (at modelPlace, m *loadedModel, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !e.usable() {
		return modelPlace{}, nil, false
	}
	if m = e.loaded.Load(); m != nil && m.Version != e.newest.version {
		m = nil
	}
	if m != nil {
		e.served = m.Version
	}
	return e.newest, m, true
}

// serve says that a model is going to be used.
func (x *modelIndex) serve(e *modelEntry, version uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.served = max(e.served, version)
}

// giveUp forgets a snapshot that cannot be used, unless a newer one has come. The one before it is the newest then.
func (x *modelIndex) giveUp(e *modelEntry, at modelPlace) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.newest.version == at.version && e.newest.first == at.first {
		e.newest, e.former = e.former, modelPlace{}
	}
}

// catchUp waits until everything that was committed to the partition at the time of the call has been read; see Follow.CatchUp. It
// looks at the end again then: what was compacted away before it was read has newer records behind the first end.
func (x *modelIndex) catchUp(ctx context.Context) error {
	if err := x.catchUpOnce(ctx); err != nil {
		return err
	}
	return x.catchUpOnce(ctx)
}

func (x *modelIndex) catchUpOnce(ctx context.Context) error {
	end, err := x.models.End(ctx, x.partition)
	if err != nil {
		return fmt.Errorf("pipeline: end of the snapshot topic: %w", err)
	}
	for {
		x.mu.Lock()
		done, moved := x.next >= end, x.movedLocked()
		x.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

func (x *modelIndex) movedLocked() chan struct{} {
	if x.moved == nil {
		x.moved = make(chan struct{})
	}
	return x.moved
}
