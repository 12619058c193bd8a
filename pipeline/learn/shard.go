package learn

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
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
	Idle      time.Duration                                 // a model without a row for so long is retired, see retire.go; 0 = never
	Most      int                                           // of more models, those heard of longest ago are retired, see crowd.go; 0 = 65,536
	Committed func(context.Context) (source.Offsets, error) // offsets to go back to
	Snapshots *checkpoint.ReadBack                          // of the partition, to its high watermark; nil = do not look for models that have lost their checkpoints, or have older ones
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
	hearing hearing
	obeyed  bool           // commands since the last put
	noted   *savedCommands // that are pending

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
	rejects     reject.Rejects
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
func (k *KeyedLearn) Do(ctx context.Context, b source.Batch) (pipeline.Work, error) {
	k.skip.measure(k.SkipWhenBehind, k.Lag)
	k.idle.read(k.Idle, k.Now, b.Messages)
	if err := k.obey(ctx); err != nil {
		return pipeline.Work{}, err
	}
	for first := 0; first < len(b.Messages); {
		msgs := b.Messages[first:]
		msgs = msgs[:k.sameCount(msgs)]
		k.count(first, msgs[0].Offset)
		for _, i := range k.groups.order(k.By, msgs) {
			k.idle.at(first + i)
			if err := k.message(ctx, &msgs[i]); err != nil {
				return pipeline.Work{}, err
			}
		}
		first += len(msgs)
	}
	if next, ok := b.Claim.Next[k.Partition]; ok {
		k.next = next
	}
	if err := k.learnTouched(ctx); err != nil {
		return pipeline.Work{}, err
	}
	k.forgetRetired()
	if err := k.retireIdle(ctx); err != nil {
		return pipeline.Work{}, err
	}
	if err := k.retireCrowd(ctx, len(b.Messages)); err != nil {
		return pipeline.Work{}, err
	}
	now := k.Now()
	if err := k.save(ctx, now, false, savesBytes); err != nil {
		return pipeline.Work{}, err
	}
	if err := k.evict(ctx); err != nil {
		return pipeline.Work{}, err
	}
	k.skipped.say(k.Log, now, k.skip.k)
	k.sayRetired(now)
	return k.work(), nil
}

// work puts what is pending, and the offset below which everything is saved, with a start marker: see Positions.atMarker.
func (k *KeyedLearn) work() pipeline.Work {
	k.noteCompared()
	k.noteClock()
	k.noteCrowd()
	k.noteCommands()
	failpoint.Here("checkpoint")
	return pipeline.Work{Messages: k.pending, Commit: true, Mark: true, Next: source.Offsets{k.Partition: k.committable()}}
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
func (k *KeyedLearn) Finish(ctx context.Context) (pipeline.Work, error) {
	most := min(max(int(k.share.even()/4), leastFinish), savesBytes)
	if err := k.save(ctx, k.Now(), true, most); err != nil {
		return pipeline.Work{}, err
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
	if k.noted != nil {
		k.States.commands, k.hearing.new = k.noted, false
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
	k.obeyed, k.noted = false, nil
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
	k.next, k.hearing = start[k.Partition], hearing{next: k.States.commands.offsets()}
	if err := k.hearing.begin(ctx, &k.LearnConfig); err != nil {
		return nil, err
	}
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
	k.rejects = reject.Rejects{}
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

// message gives the rows of a message to their models. The transform sets aside what cannot be used.
func (k *KeyedLearn) message(ctx context.Context, msg *source.Message) error {
	if msg.Err != nil {
		return k.reject(msg, msg.Err)
	}
	if msg.Record == nil || msg.Record.NumRows() == 0 {
		return nil
	}
	if k.By.Place == modelkey.Column {
		return k.byColumn(ctx, msg)
	}
	value, ok := k.By.OfMessage(msg)
	if !ok {
		if bad := k.noKey(msg, 0); bad != nil {
			return k.reject(msg, bad)
		}
		return nil
	}
	m := k.models[string(value)] // without an allocation
	if m == nil {
		m = k.model(string(value))
	}
	if msg.Offset < m.learnt {
		k.release(m)
		return nil
	}
	if err := k.begins(ctx, m); err != nil {
		return err
	}
	plan, err := k.planFor(ctx, m, msg)
	if err != nil {
		return k.refuse(m, msg, err)
	}
	if bad := k.readable(plan, msg); bad != nil {
		k.release(m)
		return k.reject(msg, bad)
	}
	err = reject.EachSlice(plan, &k.rows, msg.Record, func(first int) error {
		if err := k.invalid(&k.rows, msg, first); err != nil {
			return err
		}
		k.x, k.ordinals = k.x[:0], k.ordinals[:0]
		for i, reason := range k.rows.Invalid {
			if reason == minibatch.ReasonNone || k.rows.Missing(i) > 0 {
				k.x = append(k.x, k.rows.X[i*k.rows.Dim:(i+1)*k.rows.Dim]...)
				k.ordinals = append(k.ordinals, uint32(i))
			}
		}
		return k.take(ctx, m, msg, plan, k.x, k.ordinals, k.rows.N)
	})
	m.learnt = msg.Offset + 1
	return err
}

// readable finds out whether the rows of a message are learnt, which a plan reads.
func (k *KeyedLearn) readable(plan *minibatch.Features, msg *source.Message) *source.RecordError {
	k.rows.KeepMissing = k.fills()
	bad := readable(k.OnInvalid, plan, &k.rows, msg)
	if bad == nil && k.Rejects != nil {
		k.inWindow(&k.rejects, false)
	}
	return bad
}

// planFor returns what reads the rows of a model. One that is not in memory has to be, where its features are not known. With
// source.features they follow from their number: that of a list's elements may be another one for each model.
func (k *KeyedLearn) planFor(ctx context.Context, m *keyedModel, msg *source.Message) (*minibatch.Features, error) {
	switch {
	case m.one != nil:
		return m.plan, nil
	case m.held.plan != nil:
		return m.held.plan, nil
	}
	if s, saved := k.States.index[m.value]; saved && !m.fresh {
		if s.plan != nil {
			return s.plan, nil
		}
		if plan := k.chosen[s.dim]; plan != nil {
			return plan, nil
		}
		if err := k.load(ctx, m, nil); err != nil {
			return nil, err
		}
		return m.plan, nil
	}
	if k.fixed != nil {
		return k.fixed, nil
	}
	f, leftOut, err := minibatch.ChooseWithout(msg.Record, k.Columns, k.By.ColumnName())
	if err != nil {
		return nil, err
	}
	plan := k.planOf(f.Names)
	if len(k.Columns) > 0 {
		k.chosen[plan.Dim()] = plan
	}
	if slices.Equal(f.Names, k.Columns) {
		k.fixed = plan
	}
	if !k.saidLeftOut {
		k.saidLeftOut = true
		WarnLeftOut(k.Log, f, leftOut)
	}
	return plan, nil
}

// refuse passes over a message that a model cannot learn from, unless the fault is not the message's.
func (k *KeyedLearn) refuse(m *keyedModel, msg *source.Message, err error) error {
	k.release(m)
	var feature *minibatch.FeatureError
	if !errors.As(err, &feature) {
		return err
	}
	return k.reject(msg, encode.Refused(msg, err))
}

// reject skips a bad record, as Learn.reject does.
func (k *KeyedLearn) reject(msg *source.Message, bad *source.RecordError) error {
	var stop *reject.Stop
	if errors.As(bad.Err, &stop) {
		return stop
	}
	return k.passOver(&k.rejects, msg, bad)
}

// noKey passes over a row without a value of model.by, and over all rows of its message if the value is the message's. It returns an error where
// the row costs the whole message.
func (k *KeyedLearn) noKey(msg *source.Message, row int) *source.RecordError {
	switch k.OnInvalid {
	case reject.StopAtRow:
		stop := &reject.Stop{Err: reject.Bad(msg, reject.CodeRowInvalid, rowError(row, errNoKey)), Remedy: "fix the producer, or set source.on_invalid to null or dead_letter"}
		return reject.Bad(msg, reject.ReasonNoKey, stop)
	case reject.RejectRow:
		return reject.Bad(msg, reject.ReasonNoKey, rowError(row, errNoKey))
	case reject.NullRow, reject.ImputeRow:
	}
	return nil
}

// byColumn gives the rows of a message to the models that a column names. A model's rows keep their order.
func (k *KeyedLearn) byColumn(ctx context.Context, msg *source.Message) error {
	values, err := k.By.Column(msg.Record)
	if err != nil {
		return k.reject(msg, encode.Refused(msg, err))
	}
	defer values.Release()
	touched, err := k.plansOf(ctx, msg, &values)
	if err != nil {
		return err
	}
	for len(touched) > 0 { // mostly all models have the same features
		plan := touched[0].plan
		if err := k.rowsOf(ctx, msg, &values, plan, touched); err != nil {
			return err
		}
		rest := touched[:0:0]
		for _, t := range touched {
			if t.plan != plan {
				rest = append(rest, t)
			} else {
				t.learnt = msg.Offset + 1
			}
		}
		touched = rest
	}
	return nil
}

// rowModel is a model of a message's rows.
type rowModel struct {
	*keyedModel
	plan *minibatch.Features
	x    []float64
	at   []uint32 // ordinals of x
	all  int
}

// plansOf returns the models of a message's rows in the order in which they come, without those that know the message. It
// returns none where one of them cannot read the message: then none learns from it.
func (k *KeyedLearn) plansOf(ctx context.Context, msg *source.Message, values *modelkey.Values) ([]*rowModel, error) {
	defer clear(k.byValue)
	var touched []*rowModel
	refuse := func(bad *source.RecordError) ([]*rowModel, error) {
		for _, t := range touched {
			k.release(t.keyedModel)
		}
		return nil, k.reject(msg, bad)
	}
	for row := range values.Len() {
		value, ok := values.At(row)
		if !ok {
			if bad := k.noKey(msg, row); bad != nil {
				return refuse(bad)
			}
			continue
		}
		if _, seen := k.byValue[value]; seen {
			continue
		}
		m := k.models[value]
		if m == nil {
			m = k.model(strings.Clone(value)) // the message's memory is used again, and the model stays
		}
		t := &rowModel{keyedModel: m}
		if k.byValue[value] = t; msg.Offset < m.learnt {
			t.keyedModel = nil
			k.release(m)
			continue
		}
		if err := k.begins(ctx, m); err != nil {
			return nil, err
		}
		touched = append(touched, t)
	}
	for i, t := range touched {
		var err error
		if t.plan, err = k.planFor(ctx, t.keyedModel, msg); err == nil && (i == 0 || t.plan != touched[i-1].plan) {
			if bad := k.readable(t.plan, msg); bad != nil {
				return refuse(bad)
			}
		}
		if err != nil {
			for _, other := range touched[i+1:] {
				k.release(other.keyedModel)
			}
			return nil, k.refuse(t.keyedModel, msg, err)
		}
	}
	return touched, nil
}

// rowsOf gives the rows of the models with one plan to them.
func (k *KeyedLearn) rowsOf(ctx context.Context, msg *source.Message, values *modelkey.Values, plan *minibatch.Features, touched []*rowModel) error {
	for _, t := range touched {
		if t.plan == plan {
			k.byValue[t.value] = t
		}
	}
	defer clear(k.byValue)
	k.rows.KeepMissing = k.fills()
	if err := reject.Readable(plan, &k.rows, msg.Record); err != nil { // another plan's rows may be there
		return err
	}
	return reject.EachSlice(plan, &k.rows, msg.Record, func(first int) error {
		if err := k.invalid(&k.rows, msg, first); err != nil {
			return err
		}
		for i, reason := range k.rows.Invalid {
			value, ok := values.At(first + i)
			t := k.byValue[value]
			if !ok || t == nil {
				continue
			}
			if reason == minibatch.ReasonNone || k.rows.Missing(i) > 0 {
				t.x = append(t.x, k.rows.X[i*k.rows.Dim:(i+1)*k.rows.Dim]...)
				t.at = append(t.at, uint32(t.all))
			}
			t.all++
		}
		for _, t := range touched {
			if t.plan != plan || t.all == 0 {
				continue
			}
			if err := k.take(ctx, t.keyedModel, msg, plan, t.x, t.at, t.all); err != nil {
				return err
			}
			t.x, t.at, t.all = t.x[:0], t.at[:0], 0
		}
		return nil
	})
}

func rowError(row int, err error) error { return fmt.Errorf("row %d: %w", row, err) }

// groups puts messages of one model next to each other, so that a model comes into memory once for all of them. Those of
// a model stay in their order, and the models are in the order of their first messages.
type groups struct {
	rank  map[string]int
	of    []int // rank of each message
	start []int // of each rank
	all   []int
}

// order returns the places of the messages in that order.
func (g *groups) order(by modelkey.By, msgs []source.Message) []int {
	if g.rank == nil {
		g.rank = map[string]int{}
	}
	clear(g.rank)
	g.of, g.start, g.all = g.of[:0], append(g.start[:0], 0), g.all[:0]
	ranks := 0
	for i := range msgs {
		value, ok := by.OfMessage(&msgs[i])
		r, seen := g.rank[string(value)]
		if !ok || !seen {
			r = ranks
			ranks++
			g.start = append(g.start, 0)
			if ok {
				g.rank[string(value)] = r
			}
		}
		g.of = append(g.of, r)
		g.start[r+1]++
		g.all = append(g.all, 0)
	}
	for r := range ranks {
		g.start[r+1] += g.start[r]
	}
	for i, r := range g.of {
		g.all[g.start[r]] = i
		g.start[r]++
	}
	return g.all
}

// heldRows are rows that a model has not learnt yet. Those of a model in memory are learnt with the batch that they are of, at once.
// Others wait until they are worth to fetch the model for: it does not change before they fill a minibatch.
type heldRows struct {
	plan     *minibatch.Features // nil: there are none
	x        []float64
	ordinals []uint32 // of each row among the held ones, the invalid ones included
	offsets  []int64  // of each row's message: what a row completes has its place, wherever the rows behind it end
	stamps   []int64  // the same
	all      uint32   // number of held rows with the invalid ones
}

const (
	fewestHeld = 8   // rows are held at least, before the model is fetched, however little memory there is
	mostFree   = 256 // empty buffers
)

func (h *heldRows) bytes() int64 {
	return int64(8*cap(h.x) + 4*cap(h.ordinals) + 8*cap(h.offsets) + 8*cap(h.stamps))
}

// mostHeld is how many rows of a model that is not in memory are held at most: a minibatch, or fewer where held rows take too much.
func (k *KeyedLearn) mostHeld(dim int) int {
	rows := max(k.Learner.Minibatch, (dim+3)/4)
	return max(min(fewestHeld, rows), rows>>k.hurry)
}

// take holds rows of a message for their model: valid ones with their ordinals among all.
func (k *KeyedLearn) take(ctx context.Context, m *keyedModel, msg *source.Message, plan *minibatch.Features, x []float64, ordinals []uint32, all int) error {
	m.seen = msg.Time
	k.hear(m)
	if m.unsaved == nil {
		m.since, m.at, m.clock = msg.Offset, k.Now(), k.idle.before
		m.unsaved = k.addUnsaved(m)
	}
	h := &m.held
	if h.plan == nil {
		if n := len(k.free); n > 0 {
			*h, k.free = k.free[n-1], k.free[:n-1]
			k.weighHeld(h.bytes())
		}
		if h.plan = plan; m.one != nil {
			k.touched = append(k.touched, m)
		}
	}
	before, at := h.bytes(), msg.Stamp()
	h.x = append(h.x, x...)
	for _, o := range ordinals {
		h.ordinals = append(h.ordinals, h.all+o)
		h.offsets, h.stamps = append(h.offsets, msg.Offset), append(h.stamps, at)
	}
	h.all += uint32(all)
	if after := h.bytes(); after != before {
		k.weighHeld(after - before)
	}
	if len(h.ordinals) >= k.mostHeld(plan.Dim()) {
		return k.learnHeld(ctx, m)
	}
	return nil
}

// addUnsaved puts a model among the unsaved ones, in the order of their first rows that are in no checkpoint. A batch is learnt model by model, in the
// order of their first messages. Where that of a model was passed over, its first row comes before one of another model that was written earlier.
func (k *KeyedLearn) addUnsaved(m *keyedModel) *list.Element {
	for e := k.unsaved.Back(); e != nil; e = e.Prev() {
		if e.Value.(*keyedModel).since <= m.since {
			return k.unsaved.InsertAfter(m, e)
		}
	}
	return k.unsaved.PushFront(m)
}

func (k *KeyedLearn) learnHeld(ctx context.Context, m *keyedModel) error {
	h := m.held
	if h.plan == nil {
		return nil
	}
	if err := k.load(ctx, m, h.plan); err != nil {
		return err
	}
	m.held = heldRows{}
	err := k.learn(ctx, m, &h)
	k.weighHeld(-h.bytes())
	if len(k.free) < mostFree && h.bytes() < reject.SliceNumbers {
		k.free = append(k.free, heldRows{x: h.x[:0], ordinals: h.ordinals[:0], offsets: h.offsets[:0], stamps: h.stamps[:0]})
	}
	return err
}

// learnTouched learns what is held for models in memory.
func (k *KeyedLearn) learnTouched(ctx context.Context) error {
	for _, m := range k.touched {
		if err := k.learnHeld(ctx, m); err != nil {
			return err
		}
	}
	k.touched = k.touched[:0]
	return nil
}

func (k *KeyedLearn) weighHeld(bytes int64) {
	k.held += bytes
	k.share.add(bytes)
}
