package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
)

// KeyedModels are the models of a process that whitens with a model for each value of model.by: an index of each owned partition
// of the snapshot topic, and as many models in memory as Memory allows for.
type KeyedModels struct {
	Open   func(ctx context.Context, partition int32, from int64) (ModelLog, error) // a reader of a partition, from an offset or from its beginning if that is later
	End    func(ctx context.Context, partition int32) (int64, error)                // the last stable offset of a partition
	Failed func(error)                                                              // called where a partition cannot be followed, and no retry helps

	Topic       string // snapshot topic
	ModelID     string // snapshot.model_id, with which the ids of models begin
	Source      string // the topic whose rows are whitened: models learnt from another topic are ignored; "" = any
	Group       string // source.group: where it has published a model, those of other groups are ignored; "" = any
	Features    []string
	By          modelkey.By
	Memory      int // bytes
	Coordinates lca.Coordinates
	Components  lca.Components
	Learns      bool                  // a learner of this process tells Stats of the models it has in memory
	Explains    bool                  // features are named or filled, which takes more memory per model
	AlarmsTo    func(id string) int32 // see Alarms.To; nil: there are no alarms
	Stats       *Stats
	Log         *slog.Logger

	started sync.Once
	cache   *modelCache
	names   nameLists

	mu      sync.Mutex // guards indexes; never held while waiting
	indexes map[int32]*following
	faults  faultLog
}

// ModelLog reads a partition of the snapshot topic.
type ModelLog interface {
	TopicReader
	Move(next int64)  // the offset to read next
	Want(until int64) // no more is wanted than is before this offset
	Reuse()           // what was fetched is not used any more when the next Fetch begins
}

// following is an index and the goroutine that follows its partition.
type following struct {
	*modelIndex
	stop context.CancelFunc
	done chan struct{}
}

func (k *KeyedModels) start() {
	k.started.Do(func() {
		k.cache = newModelCache(k.Memory, k.Stats.ModelCounts("transform"), k.left)
		k.indexes = map[int32]*following{}
	})
}

// index returns the index of a partition, which is followed until Keep leaves it out.
func (k *KeyedModels) index(partition int32) *modelIndex {
	k.start()
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.indexes[partition]; f != nil {
		return f.modelIndex
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &following{&modelIndex{models: k, partition: partition}, stop, make(chan struct{})}
	k.indexes[partition] = f
	go func() {
		defer close(f.done)
		if err := f.run(ctx); err != nil && k.Failed != nil {
			k.Failed(err)
		}
	}()
	return f.modelIndex
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
func (x *modelIndex) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		x.models.cache.remove(e.loaded.Load())
	}
	x.models.Stats.Models.Drop(x.partition)
}

// left says that a model is no longer in memory.
func (k *KeyedModels) left(id string) {
	if !k.Learns {
		k.Stats.Models.Change(id, func(r *ModelRow) { r.InMemory = false })
	}
}

// show says what is known of a model that has been fetched.
func (k *KeyedModels) show(m *loadedModel) {
	if k.Learns {
		return
	}
	info := m.Model.Info
	k.Stats.Models.Update(m.ModelID, func(r *ModelRow) {
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
	if time.Since(l.said) < modelEvery {
		l.held++
		return
	}
	log.Error(what, "model_id", id, "version", version, "error", err, "others_since", l.held)
	l.said, l.held = time.Now(), 0
}
