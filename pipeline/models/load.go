package models

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
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

// Wanted is a model that rows ask for and that is not in memory.
type Wanted struct {
	Entry    *ModelEntry
	Value    string
	At       modelPlace
	Reserved int // bytes of the cache
	gone     int // how often there was nothing at the same place

	chunks []source.Record // as far as they have been read
	kept   int             // those of them that are copies
	read   bool            // all was read that is there
	err    error           // why there is no model of it
}

// Estimate is about how many bytes the model takes in memory.
func (w *Wanted) Estimate() int { return grows * int(w.At.bytes) }

// Load fetches models in the order of their offsets, and hands them to take as they have been read, which makes them. An entry whose newest
// snapshot is unusable has an older one afterwards, or no model.
func (x *ModelIndex) Load(ctx context.Context, all []*Wanted, take func(read []*Wanted) error) error {
	for try := 0; len(all) > 0; try++ {
		if try == mostLookups {
			return fmt.Errorf("pipeline: the newest snapshot of model %q was not at its offset %d times in a row", x.ID(all[0].Value), mostLookups)
		}
		all = slices.Clone(all) // the caller's has all of them
		slices.SortFunc(all, func(a, b *Wanted) int { return cmp.Compare(a.At.first, b.At.first) })
		if err := x.fetchAll(ctx, all, take); err != nil {
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
func (x *ModelIndex) unusable(all []*Wanted) (again []*Wanted, err error) {
	for _, w := range all {
		switch {
		case w.err == nil:
		case errors.Is(w.err, snapshot.ErrIncomplete):
			again = append(again, w)
		case errors.Is(w.err, snapshot.ErrNewer) && w.Entry.served == 0:
			return nil, &reject.Stop{Err: w.err, Remedy: "use that release; or go on under another snapshot.model_id"}
		default:
			x.models.faults.say(x.models.Log, "a snapshot is unusable; the one before it is used, if there is one", x.ID(w.Value), w.At.version, w.err)
			x.giveUp(w.Entry, w.At)
			again = append(again, w)
		}
	}
	return again, nil
}

// Make makes the model of a snapshot of which all was read that is there, and takes it into memory, or lets it pass if it may. It returns false
// if that is not a model.
func (x *ModelIndex) Make(w *Wanted, mayPass bool) bool {
	passes := !x.models.Cache.admits(w.Entry, w.Estimate()) && mayPass
	m, err := x.made(w, passes)
	w.err, w.chunks, w.kept = err, nil, 0
	if err != nil {
		return false
	}
	x.serve(w.Entry, m.Version)
	w.Entry.Using = m
	if passes {
		x.models.Cache.passed()
	} else {
		x.models.Cache.put(m, w.Reserved)
		w.Reserved = 0
	}
	x.models.show(m)
	return true
}

// again looks a model up again whose snapshot is gone or unusable. It returns false if there is nothing to fetch.
func (x *ModelIndex) again(w *Wanted) bool {
	const surely = 2 // a log that was replaced comes back from its beginning
	at, m, ok := x.Place(w.Entry)
	if at != w.At {
		w.gone = 0
	}
	if w.gone++; ok && m == nil && at == w.At && w.gone == surely {
		x.models.faults.say(x.models.Log, "a snapshot is no longer on the topic; the one before it is used, if there is one", x.ID(w.Value), at.version, errors.New("it was deleted, and nothing newer has come"))
		x.giveUp(w.Entry, at)
		at, m, ok = x.Place(w.Entry)
	}
	if ok && m == nil {
		w.At, w.read, w.err = at, false, nil
		return true
	}
	if w.Entry.Using = m; m != nil {
		x.models.Cache.Pin(m)
	}
	return false
}

// fetchAll reads snapshots and hands them to take. It waits for brokers that do not answer.
func (x *ModelIndex) fetchAll(ctx context.Context, all []*Wanted, take func(read []*Wanted) error) error {
	var refused error
	hand := func(read []*Wanted) error {
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
		all = slices.DeleteFunc(slices.Clone(all), func(w *Wanted) bool { return w.read })
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
func (x *ModelIndex) patiently(ctx context.Context, try func() error) error {
	for wait := retry.First; ; wait = retry.Longer(wait) {
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
		retry.Sleep(ctx, wait)
	}
}

// read reads the snapshots of all in one go over the partition, hands over what is read, and returns the rest. Of what was read no more is
// kept than of those that are not whole yet.
func (x *ModelIndex) read(ctx context.Context, all []*Wanted, hand func(read []*Wanted) error) (left []*Wanted, err error) {
	for next := int64(-1); len(all) > 0; {
		from := all[0].At.first
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
		for n < len(all) && all[n].At.last < next {
			n++
		}
		read := all[:n]
		all = all[n:]
		if err := hand(read); err != nil {
			return all, err
		}
		for i := 0; i < len(all) && all[i].At.first < next; i++ {
			all[i].keep()
		}
	}
	return nil, nil
}

// keep copies the chunks that have come so far: the next Fetch takes their memory.
func (w *Wanted) keep() {
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
func together(all []*Wanted) int64 {
	last := all[0].At.last
	for _, w := range all[1:] {
		if w.At.first-last > mostAcross {
			break
		}
		last = max(last, w.At.last)
	}
	return last + 1
}

// share gives records to the snapshots that they are chunks of. Snapshots may lie among each other.
func share(records []source.Record, all []*Wanted) {
	for _, r := range records {
		for len(all) > 0 && all[0].At.last < r.Offset {
			all = all[1:]
		}
		for _, w := range all {
			if w.At.first > r.Offset {
				break
			}
			if r.Offset <= w.At.last {
				w.chunks = append(w.chunks, r)
			}
		}
	}
}

func (x *ModelIndex) made(w *Wanted, passes bool) (*LoadedModel, error) {
	joiner := &x.joiner
	if passes {
		joiner = &x.passing.joiner
		joiner.Over = true
	}
	s, err := joiner.Join(x.ID(w.Value), w.At.version, w.chunks)
	if err == nil {
		err = x.models.accept(s)
	}
	if err != nil {
		return nil, err
	}
	return x.ready(w.Entry, s, passes)
}

// ready prepares a model for whitening.
func (x *ModelIndex) ready(e *ModelEntry, s *snapshot.Snapshot, passes bool) (*LoadedModel, error) {
	k := x.models
	s.Features, s.Offsets, s.Extra = k.names.one(s.Features), nil, nil
	view, err := s.Model.View(lca.CoordinatesAligned, k.Components)
	if err != nil {
		return nil, err
	}
	m := &LoadedModel{entry: e, Slice: reject.SliceRows(view.Dim, len(view.Neighbours))}
	lean := &m.own.model
	*lean = *view
	lean.CL, lean.CG = nil, nil
	s.Model, m.own.published = lean, stats.PublishedModel{Snapshot: s}
	m.PublishedModel, m.Scorer = &m.own.published, x.scorer(m, passes)
	m.Scorer.Prepare(k.Explains)
	m.Fixed = append(m.own.headers[:0], x.labels(s.ModelID, s.Version)...)
	if k.AlarmsTo != nil {
		m.Alarms = k.AlarmsTo(s.ModelID)
	}
	m.bytes = m.size()
	return m, nil
}

// scorer returns a scorer of a model. Those that pass share their memory.
func (x *ModelIndex) scorer(m *LoadedModel, passes bool) *lca.Scorer {
	scorer := &m.own.scorer
	if passes {
		scorer = &x.passing.scorer
	}
	scorer.Use(&x.workspace)
	scorer.Renew(&m.own.model)
	return scorer
}

// labels are the headers of outputs of a model. What all models have in common is in one place.
func (x *ModelIndex) labels(id string, version uint64) []source.Header {
	if x.common == nil {
		x.common = x.models.Labels("", 0, x.partition)
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
		return fmt.Errorf("%w: %w: it %s: %s", errRefused, errOtherFeatures, checkpoint.OtherFeatures(s.Features, "source.features now says", k.Features), otherFeaturesRemedy)
	}
	return nil
}

// Labels are the headers of outputs of a model; version 0: there is none.
func (k *KeyedModels) Labels(id string, version uint64, partition int32) []source.Header {
	return []source.Header{
		reject.Text("lca-model-id", id),
		reject.Text("lca-model-version", strconv.FormatUint(version, 10)),
		reject.Text(reject.HeaderGroup, k.Group),
		reject.Text(reject.HeaderSourceTopic, k.Source),
		reject.Text(reject.HeaderSourcePartition, strconv.Itoa(int(partition))),
	}
}

// LoadedModel is a model of one key in memory, ready to whiten. Only the stage of its partition uses it.
type LoadedModel struct {
	*stats.PublishedModel
	Scorer *lca.Scorer
	Slice  int             // rows that are whitened between two checks of the context
	Fixed  []source.Header // of outputs, see labels
	Alarms int32           // partition of the topic of alarms
	entry  *ModelEntry

	own modelParts

	// The state of the stage.
	Last time.Time // of the last row

	// Guarded by the mutex of the cache.
	bytes          int
	pins           int
	cached         bool
	newer, further *LoadedModel // neighbours in the order of use
}

// modelParts is what a model points to, so that it lies in one place: between two batches, most models are read from main memory.
type modelParts struct {
	published stats.PublishedModel
	model     lca.Model
	scorer    lca.Scorer
	headers   [5]source.Header
}

// size is about how many bytes the model takes.
func (m *LoadedModel) size() int {
	const others = 1 << 10 // labels, and the entry of a list
	return m.Scorer.Bytes() + others
}

// modelCache bounds the models in memory, of all partitions of the process: those that were used least recently make room. A model
// in use is never put out.
//
// A batch has rows of many keys that come seldom. Their models would take those with them that the next batch needs. So where memory is full, a model
// comes in if it is used more often than the one that would go in its place, and else whitens its rows and passes on.
type modelCache struct {
	Limit  int // bytes
	counts *stats.ModelCounts
	left   func(id string) // called for a model that is no longer in memory, without any lock of the cache

	mu   sync.Mutex // never held while another is taken, or while waiting
	Used int        // bytes of all models, and of those that are being fetched
	n    int
	uses float64     // of all models
	ring LoadedModel // ring.further was used last, ring.newer longest ago
}

// newModelCache returns a cache of that many bytes.
func newModelCache(limit int, counts *stats.ModelCounts, left func(id string)) *modelCache {
	c := &modelCache{Limit: limit, counts: counts, left: left}
	c.ring.newer, c.ring.further = &c.ring, &c.ring
	return c
}

// Reserve makes room for a model. It returns false if all others are in use; force takes the room all the same.
func (c *modelCache) Reserve(bytes int, force bool) bool {
	c.mu.Lock()
	gone := c.shrink(c.Limit - bytes)
	fits := c.Used+bytes <= c.Limit || force
	if fits {
		c.Used += bytes
	}
	c.mu.Unlock()
	for _, id := range gone {
		c.left(id)
	}
	return fits
}

// shrink puts models out that are not in use until the rest takes no more than some bytes, and returns their ids.
func (c *modelCache) shrink(bytes int) (gone []string) {
	for m := c.ring.newer; m != &c.ring && c.Used > bytes; {
		oldest := m
		m = m.newer
		if oldest.pins == 0 {
			c.out(oldest)
			c.counts.Evicted.Add(1)
			gone = append(gone, oldest.ModelID)
		}
	}
	return gone
}

// admits counts a use of a model that is not in memory and takes about that number of bytes, and reports whether it is to be put there, as a newer version of one is that
// is there.
func (c *modelCache) admits(e *ModelEntry, bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use(e)
	oldest := c.ring.newer
	return oldest == &c.ring || e.loaded.Load() != nil || c.Used+bytes <= c.Limit || c.heat(e) > c.heat(oldest.entry)
}

// passed counts a model that was not put into memory.
func (c *modelCache) passed() {
	c.counts.Loaded.Add(1)
	c.counts.Evicted.Add(1)
}

// Unreserve gives room back.
func (c *modelCache) Unreserve(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Used -= bytes
}

// put takes in a model that is in use, in place of the one that its entry has, and of reserved bytes.
func (c *modelCache) put(m *LoadedModel, reserved int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := m.entry.loaded.Load(); old != nil && old.cached {
		c.out(old)
	}
	m.entry.loaded.Store(m)
	c.Used += m.bytes - reserved
	m.cached, m.pins = true, 1
	c.n++
	c.link(m)
	c.counts.Memory.Store(int64(c.n))
	c.counts.Loaded.Add(1)
}

// Pin says that a model is in use.
func (c *modelCache) Pin(m *LoadedModel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.pins++
	c.use(m.entry)
	if m.cached {
		c.unlink(m)
		c.link(m)
	}
}

// heat is how often a model has been used. What was long ago counts less: half of it after 16 uses of each model in memory.
type heat struct{ count, at float64 }

func (c *modelCache) heat(e *ModelEntry) float64 {
	const uses = 16
	return e.heat.count * math.Exp2((e.heat.at-c.uses)/float64(uses*max(c.n, 1)))
}

func (c *modelCache) use(e *ModelEntry) {
	c.uses++
	e.heat = heat{c.heat(e) + 1, c.uses}
}

// Touch says that a model has been used without a pin. It may have grown: what explains a row is prepared when the first is explained.
func (c *modelCache) Touch(m *LoadedModel) {
	c.mu.Lock()
	c.grown(m)
	c.use(m.entry)
	if m.cached {
		c.unlink(m)
		c.link(m)
	}
	gone := c.shrink(c.Limit)
	c.mu.Unlock()
	for _, id := range gone {
		c.left(id)
	}
}

// grown takes in how large a model is now.
func (c *modelCache) grown(m *LoadedModel) {
	before := m.bytes
	if m.bytes = m.size(); m.cached {
		c.Used += m.bytes - before
	}
}

// Unpin says that models are no longer in use. They may have grown.
func (c *modelCache) Unpin(models []*LoadedModel) {
	c.mu.Lock()
	for _, m := range models {
		m.pins--
		c.grown(m)
	}
	gone := c.shrink(c.Limit)
	c.mu.Unlock()
	for _, id := range gone {
		c.left(id)
	}
}

// remove puts a model out, because there is no such model any more.
func (c *modelCache) remove(m *LoadedModel) {
	if m == nil {
		return
	}
	c.mu.Lock()
	if m.cached {
		c.out(m)
	}
	c.mu.Unlock()
	c.left(m.ModelID)
}

// out takes a model out of memory, or what uses it does so afterwards.
func (c *modelCache) out(m *LoadedModel) {
	m.cached = false
	m.entry.loaded.CompareAndSwap(m, nil)
	c.unlink(m)
	c.Used -= m.bytes
	c.n--
	c.counts.Memory.Store(int64(c.n))
}

func (c *modelCache) link(m *LoadedModel) {
	m.newer, m.further = &c.ring, c.ring.further
	m.newer.further, m.further.newer = m, m
}

func (c *modelCache) unlink(m *LoadedModel) {
	m.newer.further, m.further.newer = m.further, m.newer
	m.newer, m.further = nil, nil
}
