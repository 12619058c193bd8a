package pipeline

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// KeyedLearnConfig says what a KeyedLearn learns, and when it saves and publishes.
//
// Rows are counted for each model, so that its snapshots are those of a topic with its rows alone. By the clock, a model
// is published SnapshotEvery after its first row that is not, and saved CheckpointEvery after its first row that is not.
type KeyedLearnConfig struct {
	LearnConfig // ModelID is the base of the models' ids; Start, Published, Newest, WarmStart, Backlog and Checkpoints are not used

	By        modelkey.By
	Partition source.Partition // whose models are learnt
	States    *KeyedStates
	Memory    *ModelMemory                                  // shared by the learners of the process
	Idle      time.Duration                                 // a model without a row for so long is retired, see keyedretire.go; 0 = never
	Most      int                                           // of more models, those heard of longest ago are retired, see keyedcrowd.go; 0 = 65,536
	Committed func(context.Context) (source.Offsets, error) // offsets to go back to
	Snapshots *ReadBack                                     // of the partition, to its high watermark; nil = do not look for models that have lost their checkpoints, or have older ones
	Claim     func(context.Context) error                   // makes sure that the models are this pipeline's, where no checkpoint says so; nil = they are
	Owns      func(context.Context) error                   // refuses models that another pipeline publishes; nil = none does
}

// KeyedLearn is the stage that learns a model for each key of one partition.
//
// Rows of a model that is not in memory are held until they fill a minibatch, or until they have to be saved: what is
// learnt changes only with whole minibatches. A model that has learnt since its last checkpoint is unsaved. The offset
// that is committed is that of the first row that an unsaved model has, or holds. After a restart, rows come again that
// other models have learnt; each model knows by its own offset which.
//
// A restart thus reads little, a save is of one model, and neither the order of the saves nor what is in memory decides
// what is learnt (invariants 2 and 3, for each model).
type KeyedLearn struct {
	KeyedLearnConfig

	models  map[string]*keyedModel // those in memory, and those whose rows are held
	unsaved list.List              // of *keyedModel, by the offset of its first row that is not in a checkpoint
	stale   list.List              // of *keyedModel with rows that no snapshot has, by when the first of them was learnt
	recent  list.List              // of *keyedModel in memory, the least recently used first
	touched []*keyedModel          // those in memory with held rows
	held    int64                  // bytes of held rows
	known   int64                  // bytes of what is kept of each value, whether its model is in memory or not
	free    []heldRows             // empty buffers
	hurry   int                    // how often the rows that are held for a model were halved
	marked  []*keyedModel          // those whose rows say that they are to be saved
	idle    idleModels
	crowd   crowd

	next    int64 // offset behind what was read
	mark    int64 // rows below it never come again: it is where the start marker is
	pending []sink.Message
	bytes   int // of pending
	saves   []keyedSave
	made    int // snapshots in pending

	finished int // bytes of what Finish has returned

	scratch     online.Scratch
	plans       map[string]*minibatch.Features // by names: how schemas map, shared by the models
	chosen      map[int]*minibatch.Features    // by their number, where source.features says what they are
	fixed       *minibatch.Features            // of all new models: source.features has a column for each
	byValue     map[string]*rowModel           // models of the rows of a message
	share       *modelShare
	rows        minibatch.Rows
	x           []float64
	ordinals    []uint32
	ids         []uint64
	groups      groups
	quiet       *slog.Logger
	saidLeftOut bool
	compared    bool              // the checkpoints are not older than the newest snapshot
	trusted     bool              // … of which there is one: what a record says of a former comparison holds
	lost        map[string]uint64 // newest versions of models, by id, whose checkpoints are older or gone; nil: not compared
	bases       map[string]uint64 // newest versions of models, by value, that were retired and have lost the record of that
	noting      bool              // what is pending says that none is
	skip        skipper
	skipped     skipped
	rejects     rejects
}

// KeyedBatch bounds the record batches of a keyed learner. A checkpoint or a snapshot is fetched with the whole batch that it is in, and
// is mostly smaller than this.
const KeyedBatch = 32 << 10

// keyedSave is a checkpoint in pending.
type keyedSave struct {
	value string
	at    *int64
	state keyedState
	drop  bool // the record of a retired model is deleted instead
}

const (
	// savesBytes is how much the clock saves at a time. What else is due follows with the next batch.
	savesBytes = 8 << 20
	// finishBytes is how much is saved at the end, because others wait for the partition. What is not is learnt again.
	finishBytes = 64 << 20
	// leastFinish is how much is saved at a time at the end, however little memory there is.
	leastFinish = 1 << 20
	// evictBytes is how much is written before models may take more memory than their part, until the next batch.
	evictBytes = 32 << 20
)

// Do learns the rows of a batch, model by model: a model's rows keep their order, and whole messages of many models are
// learnt with fewer changes of model.
func (k *KeyedLearn) Do(ctx context.Context, b source.Batch) (Work, error) {
	k.skip.measure(k.SkipWhenBehind, k.Lag)
	k.idle.read(k.Idle, k.Now, b.Messages)
	for first := 0; first < len(b.Messages); {
		msgs := b.Messages[first:]
		msgs = msgs[:k.sameCount(msgs)]
		k.count(first, msgs[0].Offset)
		for _, i := range k.groups.order(k.By, msgs) {
			k.idle.at(first + i)
			if err := k.message(ctx, &msgs[i]); err != nil {
				return Work{}, err
			}
		}
		first += len(msgs)
	}
	if next, ok := b.Claim.Next[k.Partition]; ok {
		k.next = next
	}
	if err := k.learnTouched(ctx); err != nil {
		return Work{}, err
	}
	k.forgetRetired()
	if err := k.retireIdle(ctx); err != nil {
		return Work{}, err
	}
	if err := k.retireCrowd(ctx, len(b.Messages)); err != nil {
		return Work{}, err
	}
	now := k.Now()
	if err := k.save(ctx, now, false, savesBytes); err != nil {
		return Work{}, err
	}
	if err := k.evict(ctx); err != nil {
		return Work{}, err
	}
	k.skipped.say(k.Log, now, k.skip.k)
	k.sayRetired(now)
	return k.work(), nil
}

// work puts what is pending, and the offset below which everything is saved, with a start marker: see Positions.atMarker.
func (k *KeyedLearn) work() Work {
	k.noteCompared()
	k.noteClock()
	k.noteCrowd()
	failpoint.Here("checkpoint")
	return Work{Messages: k.pending, Commit: true, Mark: true, Next: source.Offsets{k.Partition: k.committable()}}
}

// committable is the offset of the first row that is in no checkpoint.
func (k *KeyedLearn) committable() int64 {
	if first := k.unsaved.Front(); first != nil {
		return first.Value.(*keyedModel).since
	}
	return k.next
}

// Finish publishes and saves what is not, as much at a time as a put should hold. All partitions of a process end at once: what they
// save together is bounded by the memory of the models.
func (k *KeyedLearn) Finish(ctx context.Context) (Work, error) {
	most := min(max(int(k.share.even()/4), leastFinish), savesBytes)
	if err := k.save(ctx, k.Now(), true, most); err != nil {
		return Work{}, err
	}
	k.unloadSaved()
	work := k.work()
	k.finished += k.bytes
	work.More = k.finished < finishBytes && (k.unsaved.Len() > 0 || k.stale.Len() > 0)
	return work, nil
}

// Kept remembers where the checkpoints of the put are.
func (k *KeyedLearn) Kept() {
	failpoint.Here("learn.kept")
	for _, s := range k.saves {
		if s.drop {
			k.States.dropped(s.value, s.state.version)
			continue
		}
		s.state.at = *s.at
		k.States.kept(s.value, s.state)
		if s.state.retired {
			k.retired(s.value)
		}
	}
	if k.noting {
		k.States.compared = k.States.id
	}
	if k.idle.noted != nil {
		k.States.clock = k.idle.noted
	}
	if k.crowd.noted != nil {
		k.States.cuts = k.crowd.noted
	}
	k.Stats.Snapshots.Add(uint64(k.made))
	if len(k.saves) > 0 {
		k.Stats.SetCheckpoint(k.Now())
	}
	k.drop()
}

// drop forgets what was pending.
func (k *KeyedLearn) drop() {
	k.pending, k.saves, k.bytes, k.made, k.noting, k.idle.noted, k.crowd.noted = nil, nil, 0, 0, false, nil, nil
}

// Rewind forgets all models, and returns the committed offset. The models come again with their rows.
func (k *KeyedLearn) Rewind(ctx context.Context) (source.Offsets, error) {
	failpoint.Here("restore.before")
	k.forget()
	if err := k.readStates(ctx); err != nil {
		return nil, err
	}
	start, err := k.Committed(ctx)
	if err != nil {
		return nil, err
	}
	k.next = start[k.Partition]
	k.findStale()
	k.watchIdle()
	k.watchCrowd()
	failpoint.Here("restore.after")
	return start, nil
}

// Close forgets all models, and gives their memory back.
func (k *KeyedLearn) Close() {
	k.forget()
	k.share.leave()
	k.Stats.Models.Drop(k.Partition.ID)
}

func (k *KeyedLearn) forget() {
	if k.plans == nil {
		k.plans, k.byValue, k.share = map[string]*minibatch.Features{}, map[string]*rowModel{}, k.Memory.join()
		k.chosen = map[int]*minibatch.Features{}
		k.quiet = slog.New(quietHandler{k.Log.Handler()})
	}
	for _, m := range k.models {
		k.unload(m)
	}
	k.models = map[string]*keyedModel{}
	k.weighKnown(0)
	k.unsaved.Init()
	k.stale.Init()
	k.recent.Init()
	k.marked, k.touched, k.free, k.held, k.hurry = nil, nil, nil, 0, 0
	k.idle.reset()
	k.crowd.reset()
	k.finished = 0
	k.drop()
	k.rejects = rejects{}
}

// save saves the models that were published or have many unsaved rows, and publishes and saves those that have waited for
// long, the longest first. finish: all others too.
func (k *KeyedLearn) save(ctx context.Context, now time.Time, finish bool, most int) error {
	if err := k.saveMarked(ctx); err != nil {
		return err
	}
	for first := k.stale.Front(); first != nil && k.bytes < most; first = k.stale.Front() {
		m := first.Value.(*keyedModel)
		if !finish && now.Sub(m.staleAt) < k.SnapshotEvery {
			break
		}
		if err := k.publish(ctx, m); err != nil {
			return err
		}
	}
	for first := k.unsaved.Front(); first != nil && k.bytes < most; first = k.unsaved.Front() {
		m := first.Value.(*keyedModel)
		if !finish && (k.CheckpointEvery == 0 || now.Sub(m.at) < k.CheckpointEvery) {
			break
		}
		if err := k.saveOne(ctx, m); err != nil {
			return err
		}
	}
	if err := k.saveMarked(ctx); err != nil { // by what was held
		return err
	}
	return ctx.Err()
}

func (k *KeyedLearn) saveMarked(ctx context.Context) error {
	for _, m := range k.marked {
		if err := k.saveOne(ctx, m); err != nil {
			return err
		}
	}
	k.marked = k.marked[:0]
	return nil
}

// planOf returns what reads rows with these names, for all models that have them.
func (k *KeyedLearn) planOf(names []string) *minibatch.Features {
	key := strings.Join(names, "\x00")
	f := k.plans[key]
	if f == nil {
		f = &minibatch.Features{Names: names}
		k.plans[key] = f
	}
	return f
}

// quietHandler makes details of what is news for one model: there may be thousands.
type quietHandler struct{ slog.Handler }

// Enabled reports whether details are logged.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, quieter(level))
}

// Handle logs news as details.
func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = quieter(r.Level)
	return h.Handler.Handle(ctx, r)
}

func quieter(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}

// WithAttrs keeps to the details.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps to the details.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}

// errNoKey is why a row has no model.
var errNoKey = fmt.Errorf("the row has no value of model.by: a null, no such header or column, or more than %d bytes", modelkey.MostBytes)
