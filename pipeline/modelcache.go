package pipeline

import (
	"math"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/source"
)

// loadedModel is a model of one key in memory, ready to whiten. Only the stage of its partition uses it.
type loadedModel struct {
	*PublishedModel
	scorer *lca.Scorer
	slice  int             // rows that are whitened between two checks of the context
	fixed  []source.Header // of outputs, see labels
	alarms int32           // partition of the topic of alarms
	entry  *modelEntry

	own modelParts

	// The state of the stage.
	last time.Time // of the last row

	// Guarded by the mutex of the cache.
	bytes          int
	pins           int
	cached         bool
	newer, further *loadedModel // neighbours in the order of use
}

// modelParts is what a model points to, so that it lies in one place: between two batches, most models are read from main memory.
type modelParts struct {
	published PublishedModel
	model     lca.Model
	scorer    lca.Scorer
	headers   [5]source.Header
}

// size is about how many bytes the model takes.
func (m *loadedModel) size() int {
	const others = 1 << 10 // labels, and the entry of a list
	return m.scorer.Bytes() + others
}

// modelCache bounds the models in memory, of all partitions of the process: those that were used least recently make room. A model
// in use is never put out.
//
// A batch has rows of many keys that come seldom. Their models would take those with them that the next batch needs. So where memory is full, a model
// comes in if it is used more often than the one that would go in its place, and else whitens its rows and passes on.
type modelCache struct {
	limit  int // bytes
	counts *ModelCounts
	left   func(id string) // called for a model that is no longer in memory, without any lock of the cache

	mu   sync.Mutex // never held while another is taken, or while waiting
	used int        // bytes of all models, and of those that are being fetched
	n    int
	uses float64     // of all models
	ring loadedModel // ring.further was used last, ring.newer longest ago
}

// newModelCache returns a cache of that many bytes.
func newModelCache(limit int, counts *ModelCounts, left func(id string)) *modelCache {
	c := &modelCache{limit: limit, counts: counts, left: left}
	c.ring.newer, c.ring.further = &c.ring, &c.ring
	return c
}

// reserve makes room for a model. It returns false if all others are in use; force takes the room all the same.
func (c *modelCache) reserve(bytes int, force bool) bool {
	c.mu.Lock()
	gone := c.shrink(c.limit - bytes)
	fits := c.used+bytes <= c.limit || force
	if fits {
		c.used += bytes
	}
	c.mu.Unlock()
	for _, id := range gone {
		c.left(id)
	}
	return fits
}

// shrink puts models out that are not in use until the rest takes no more than some bytes, and returns their ids.
func (c *modelCache) shrink(bytes int) (gone []string) {
	for m := c.ring.newer; m != &c.ring && c.used > bytes; {
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
func (c *modelCache) admits(e *modelEntry, bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use(e)
	oldest := c.ring.newer
	return oldest == &c.ring || e.loaded.Load() != nil || c.used+bytes <= c.limit || c.heat(e) > c.heat(oldest.entry)
}

// passed counts a model that was not put into memory.
func (c *modelCache) passed() {
	c.counts.Loaded.Add(1)
	c.counts.Evicted.Add(1)
}

// unreserve gives room back.
func (c *modelCache) unreserve(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= bytes
}

// put takes in a model that is in use, in place of the one that its entry has, and of reserved bytes.
func (c *modelCache) put(m *loadedModel, reserved int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := m.entry.loaded.Load(); old != nil && old.cached {
		c.out(old)
	}
	m.entry.loaded.Store(m)
	c.used += m.bytes - reserved
	m.cached, m.pins = true, 1
	c.n++
	c.link(m)
	c.counts.Memory.Store(int64(c.n))
	c.counts.Loaded.Add(1)
}

// pin says that a model is in use.
func (c *modelCache) pin(m *loadedModel) {
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

func (c *modelCache) heat(e *modelEntry) float64 {
	const uses = 16
	return e.heat.count * math.Exp2((e.heat.at-c.uses)/float64(uses*max(c.n, 1)))
}

// use counts a use of a model.
func (c *modelCache) use(e *modelEntry) {
	c.uses++
	e.heat = heat{c.heat(e) + 1, c.uses}
}

// touch says that a model has been used without a pin. It may have grown: what explains a row is prepared when the first is explained.
func (c *modelCache) touch(m *loadedModel) {
	c.mu.Lock()
	c.grown(m)
	c.use(m.entry)
	if m.cached {
		c.unlink(m)
		c.link(m)
	}
	gone := c.shrink(c.limit)
	c.mu.Unlock()
	for _, id := range gone {
		c.left(id)
	}
}

// grown takes in how large a model is now.
func (c *modelCache) grown(m *loadedModel) {
	before := m.bytes
	if m.bytes = m.size(); m.cached {
		c.used += m.bytes - before
	}
}

// unpin says that models are no longer in use. They may have grown.
func (c *modelCache) unpin(models []*loadedModel) {
	c.mu.Lock()
	for _, m := range models {
		m.pins--
		c.grown(m)
	}
	gone := c.shrink(c.limit)
	c.mu.Unlock()
	for _, id := range gone {
		c.left(id)
	}
}

// remove puts a model out, because there is no such model any more.
func (c *modelCache) remove(m *loadedModel) {
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
func (c *modelCache) out(m *loadedModel) {
	m.cached = false
	m.entry.loaded.CompareAndSwap(m, nil)
	c.unlink(m)
	c.used -= m.bytes
	c.n--
	c.counts.Memory.Store(int64(c.n))
}

func (c *modelCache) link(m *loadedModel) {
	m.newer, m.further = &c.ring, c.ring.further
	m.newer.further, m.further.newer = m, m
}

func (c *modelCache) unlink(m *loadedModel) {
	m.newer.further, m.further.newer = m.further, m.newer
	m.newer, m.further = nil, nil
}
