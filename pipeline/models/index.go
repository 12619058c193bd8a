package models

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// KeyedModels are the models of a process that whitens with a model for each value of model.by: an index of each owned partition
// of the snapshot topic, and as many models in memory as Memory allows for.
type KeyedModels struct {
	Open   func(ctx context.Context, partition int32, from int64) (ModelLog, error) // a reader of a partition, from an offset or from its beginning if that is later
	End    func(ctx context.Context, partition int32) (int64, error)                // the last stable offset of a partition
	Failed func(error)                                                              // called where a partition cannot be followed, and no retry helps

	Topic      string // snapshot topic
	ModelID    string // snapshot.model_id, with which the ids of models begin
	Source     string // the topic whose rows are whitened: models learnt from another topic are ignored; "" = any
	Group      string // source.group: where it has published a model, those of other groups are ignored; "" = any
	Features   []string
	By         modelkey.By
	Memory     int // bytes
	Components lca.Components
	Learns     bool                  // a learner of this process tells Stats of the models it has in memory
	Explains   bool                  // features are named or filled, which takes more memory per model
	AlarmsTo   func(id string) int32 // see Alarms.To; nil: there are no alarms
	Stats      *stats.Stats
	Log        *slog.Logger

	started sync.Once
	Cache   *modelCache
	names   nameLists

	mu      sync.Mutex // guards indexes; never held while waiting
	indexes map[int32]*following
	faults  faultLog
}

// ModelLog reads a partition of the snapshot topic.
type ModelLog interface {
	checkpoint.TopicReader
	Move(next int64)  // the offset to read next
	Want(until int64) // no more is wanted than is before this offset
	Reuse()           // what was fetched is not used any more when the next Fetch begins
}

// following is an index and the goroutine that follows its partition.
type following struct {
	*ModelIndex
	stop context.CancelFunc
	done chan struct{}
}

func (k *KeyedModels) start() {
	k.started.Do(func() {
		k.Cache = newModelCache(k.Memory, k.Stats.ModelCounts("transform"), k.left)
		k.indexes = map[int32]*following{}
	})
}

// Index returns the index of a partition, which is followed until Keep leaves it out.
func (k *KeyedModels) Index(partition int32) *ModelIndex {
	k.start()
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.indexes[partition]; f != nil {
		return f.ModelIndex
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &following{&ModelIndex{models: k, partition: partition}, stop, make(chan struct{})}
	k.indexes[partition] = f
	go func() {
		defer close(f.done)
		if err := f.run(ctx); err != nil && k.Failed != nil {
			k.Failed(err)
		}
	}()
	return f.ModelIndex
}

// Keep stops following all other partitions, and forgets their models. What is kept is not read again in the next generation of a
// group. No loop of the others may be at work.
func (k *KeyedModels) Keep(partitions []int32) {
	k.start()
	k.mu.Lock()
	var left []*following
	for p, f := range k.indexes {
		if !slices.Contains(partitions, p) {
			left = append(left, f)
			delete(k.indexes, p)
		}
	}
	k.mu.Unlock()
	for _, f := range left {
		f.stop()
		<-f.done
		f.leave()
	}
}

// leave puts the models of a partition out of memory.
func (x *ModelIndex) leave() {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for _, e := range x.entries {
		x.models.Cache.remove(e.loaded.Load())
	}
	x.models.Stats.Models.Drop(x.partition)
}

// left says that a model is no longer in memory.
func (k *KeyedModels) left(id string) {
	if !k.Learns {
		k.Stats.Models.Change(id, func(r *stats.ModelRow) { r.InMemory = false })
	}
}

// show says what is known of a model that has been fetched.
func (k *KeyedModels) show(m *LoadedModel) {
	if k.Learns {
		return
	}
	info := m.Model.Info
	k.Stats.Models.Update(m.ModelID, func(r *stats.ModelRow) {
		r.InMemory, r.RowsLearnt = m.entry.loaded.Load() == m, max(r.RowsLearnt, m.Version)
		if gain := info.GaussianNLL - info.NLL; gain == gain { // not of a first model
			r.Gain = gain
		}
	})
}

// nameLists keeps one copy of equal lists of feature names: those of ten thousand models are few.
type nameLists struct {
	mu  sync.Mutex
	all [][]string
}

// mostNameLists bounds the lists that are compared.
const mostNameLists = 64

func (n *nameLists) one(names []string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, known := range n.all {
		if slices.Equal(known, names) {
			return known
		}
	}
	if len(n.all) < mostNameLists {
		n.all = append(n.all, names)
	}
	return names
}

// faultLog says at most once a minute that a model cannot be used.
type faultLog struct {
	mu   sync.Mutex
	said time.Time
	held int
}

func (l *faultLog) say(log *slog.Logger, what, id string, version uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.said) < ModelEvery {
		l.held++
		return
	}
	log.Error(what, "model_id", id, "version", version, "error", err, "others_since", l.held)
	l.said, l.held = time.Now(), 0
}

// CatchUp waits until the index of a partition has read the snapshot topic to its end. A new owner does this before its first
// output, so that versions never go back within a key.
func (k *KeyedModels) CatchUp(ctx context.Context, partition int32) error {
	return k.Index(partition).catchUp(ctx)
}

// ModelIndex knows where the newest snapshot of each model of a partition lies on the snapshot topic. It is made of keys, headers
// and checksums alone: what is between them is fetched when rows ask for the model.
type ModelIndex struct {
	models    *KeyedModels
	partition int32

	follower
	spans snapshot.Spans // of run

	mutex   sync.Mutex // guards the fields below and the places of entries; never held while waiting
	entries map[string]*ModelEntry

	// The state of the stage.
	Windows uint64
	loader  ModelLog // nil: not open

	joiner    snapshot.Joiner
	workspace lca.Workspace // models are prepared in
	passing   struct {      // the memory of a model that passes, see modelCache
		joiner snapshot.Joiner
		scorer lca.Scorer
	}
	common []source.Header // see labels
}

// ModelEntry is what is known of one model.
type ModelEntry struct {
	newest, former modelPlace // guarded by the mutex of the index
	served         uint64     // the newest version that rows were whitened with; so too
	own            bool       // our group has published it; so too

	loaded atomic.Pointer[LoadedModel] // nil: not in memory
	heat   heat                        // guarded by the mutex of the cache

	// The state of the stage, for one window.
	Window uint64
	Using  *LoadedModel // nil: there is no model
	Marked uint64       // its group is that of the rows being divided
	Group  int
}

// modelPlace is where a snapshot lies; the zero value is nowhere.
type modelPlace struct {
	version                   uint64
	first, last               int64
	bytes, slot               int32
	model, neighbours, others int32 // chunks
}

func placeOf(s *snapshot.Span) modelPlace {
	return modelPlace{
		version: s.Version, first: s.First, last: s.Last, bytes: int32(s.Bytes), slot: int32(s.Slot),
		model: int32(s.Chunks.Model), neighbours: int32(s.Chunks.Neighbours), others: int32(s.Others),
	}
}

// usable reports whether rows may be whitened with it: versions never go back.
func (e *ModelEntry) usable() bool { return e.newest.version > 0 && e.newest.version >= e.served }

// run follows the partition until ctx ends. It returns errors that no retry can cure.
func (x *ModelIndex) run(ctx context.Context) error {
	log := x.models.Log.With("topic", x.models.Topic, "partition", x.partition)
	return x.follow(ctx, log, func(ctx context.Context) error { return x.tail(ctx, log) }, x.forget)
}

// forget begins again, because offsets say nothing any more. Versions that rows were whitened with are remembered.
func (x *ModelIndex) forget() {
	x.spans = snapshot.Spans{}
	x.advance(0)
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for _, e := range x.entries {
		if m := e.loaded.Load(); m != nil {
			e.served = max(e.served, m.Version)
		}
		e.newest, e.former = modelPlace{}, modelPlace{}
	}
}

func (x *ModelIndex) tail(ctx context.Context, log *slog.Logger) error {
	from, err := x.models.Open(ctx, x.partition, x.position())
	if err != nil {
		return err
	}
	for {
		got, err := x.fetch(ctx, log, from)
		if err == nil {
			err = x.take(&got)
		}
		if err != nil {
			return err
		}
	}
}

// take adds what was fetched.
func (x *ModelIndex) take(got *source.Fetched) error {
	for i := range got.Records {
		r := &got.Records[i]
		whole, gone, err := x.spans.Add(r.Key, r.Value, r.Headers, r.Offset)
		switch {
		case err != nil:
			x.models.Log.Error("a snapshot chunk is unusable; the current model stays", "partition", x.partition, "offset", r.Offset, "error", err)
		case whole != nil && whole.ModelID == x.models.ModelID:
			return checkpoint.AllRowsThere(x.models.Topic, whole.ModelID)
		case whole != nil:
			if err := x.otherBy(whole); err != nil {
				return err
			}
			if x.add(whole) {
				x.models.Stats.Models.Update(whole.ModelID, func(r *stats.ModelRow) { r.Version = max(r.Version, whole.Version) })
			}
		case gone != nil:
			x.remove(gone)
		}
	}
	x.advance(got.Next)
	return nil
}

// otherBy refuses a snapshot that our group has published with another model.by.
func (x *ModelIndex) otherBy(s *snapshot.Span) error {
	if _, ours := x.valueOf(s.ModelID); !ours || x.models.Group != "" && s.Group != x.models.Group {
		return nil
	}
	return checkpoint.OtherBy(x.models.Topic, s.ModelID, s.By, x.models.By)
}

// valueOf returns the value of model.by that a model id of this partition stands for.
func (x *ModelIndex) valueOf(id string) (string, bool) {
	base, partition, value, ok := modelkey.Split(id)
	return string(value), ok && base == x.models.ModelID && partition == x.partition
}

// ID is the id of the model of a value.
func (x *ModelIndex) ID(value string) string {
	return modelkey.ID(x.models.ModelID, x.partition, []byte(value))
}

// add takes in a whole snapshot. It returns false for one that is not used.
func (x *ModelIndex) add(s *snapshot.Span) bool {
	value, ok := x.valueOf(s.ModelID)
	if !ok {
		return false // of another pipeline
	}
	x.mutex.Lock()
	defer x.mutex.Unlock()
	e := x.entries[value]
	if e == nil {
		if x.entries == nil {
			x.entries = map[string]*ModelEntry{}
		}
		e = &ModelEntry{}
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
func (x *ModelIndex) remove(d *snapshot.Deleted) {
	value, ok := x.valueOf(d.ModelID)
	if !ok {
		return
	}
	x.mutex.Lock()
	defer x.mutex.Unlock()
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
		x.models.Cache.remove(e.loaded.Load())
		x.models.Stats.ModelCounts("transform").Retired.Add(1)
		x.models.Stats.Models.Remove(d.ModelID)
	}
}

// holds reports whether a deleted key of the same model is one of the snapshot's.
func (p *modelPlace) holds(d *snapshot.Deleted) bool {
	chunks := snapshot.Chunks{Model: int(p.model), Neighbours: int(p.neighbours)}
	s := snapshot.Span{ModelID: d.ModelID, Slot: int(p.slot), Chunks: chunks, Others: int(p.others)}
	return p.version > 0 && s.Deletes(d)
}

// Len returns the number of models that there are.
func (x *ModelIndex) Len() int {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return len(x.entries)
}

// Find returns what is known of a model; nil: there is none.
func (x *ModelIndex) Find(value []byte) *ModelEntry {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.entries[string(value)]
}

// FindText is find for text.
func (x *ModelIndex) FindText(value string) *ModelEntry {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.entries[value]
}

// Place returns where the newest snapshot of a model lies, and the model if that is in memory. It returns false if there is
// none. What it returns is going to be used.
func (x *ModelIndex) Place(e *ModelEntry) (at modelPlace, m *LoadedModel, ok bool) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
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
func (x *ModelIndex) serve(e *ModelEntry, version uint64) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	e.served = max(e.served, version)
}

// giveUp forgets a snapshot that cannot be used, unless a newer one has come. The one before it is the newest then.
func (x *ModelIndex) giveUp(e *ModelEntry, at modelPlace) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if e.newest.version == at.version && e.newest.first == at.first {
		e.newest, e.former = e.former, modelPlace{}
	}
}

// catchUp waits until everything that was committed to the partition at the time of the call has been read; see Follow.CatchUp. It
// looks at the end again then: what was compacted away before it was read has newer records behind the first end.
func (x *ModelIndex) catchUp(ctx context.Context) error {
	end := func(ctx context.Context) (int64, error) { return x.models.End(ctx, x.partition) }
	if err := x.awaitEnd(ctx, end); err != nil {
		return err
	}
	return x.awaitEnd(ctx, end)
}
