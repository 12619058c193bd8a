package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// LearnConfig says what is learnt and when it is published. Until there are rows enough for a first model, each evaluator of the last rows makes a young
// snapshot due, which has nothing else; after that a snapshot is due by rows at a minibatch boundary, which
// depends on the data only, and so it is at an alarm of the learner. The clock may publish one in between, from the same state and without changing it
// (invariant 3).
type LearnConfig struct {
	ModelID         string
	Topic           string // snapshot topic
	Keep            int    // snapshot slots, ≥ 1
	SnapshotRows    uint64 // a snapshot when the rows learnt pass a multiple of this, and before that at every doubling; 0 = only by time and at alarms after the first
	SnapshotEvery   time.Duration
	Coordinates     lca.Coordinates // of what is published; 0: aligned, as what is written into a topic must be
	CheckpointRows  uint64          // 0 = only by time
	CheckpointEvery time.Duration
	Columns         []string      // source.features
	Learner         online.Config // with Dim 0: it follows from the features
	SkipWhenBehind  bool
	Alarms          transform.Alarms   // where changes of the stream go
	Commands        *Commands          // nil: none are followed
	Facts           *Facts             // what was accepted, for a replay; nil: nothing
	Rejects         *reject.DeadLetter // how many unusable records are tolerated; nil = all, as in a replay
	OnInvalid       reject.OnInvalid   // source.on_invalid. A row that the transform fills moves its series on, and is not learnt; at any it may stop
	Series          modelkey.By        // the rows of one value, in a partition, are a series; of none: those of a partition
	Normal          bool               // the rows are known to be normal, as those of a normal stretch: none of them are held back
	LearnRest       bool               // learn the unfinished minibatch at the end and publish the result, for a replay
	LearnOneIn      uint64             // learn one minibatch in this many, by a count that no checkpoint holds, for replays; 0 and 1 learn all
	Producer        string
	Start           func(context.Context, source.Offsets) (source.Offsets, error) // returns where to read, given the offsets of the checkpoint, nil without one
	Lag             func() int64                                                  // records behind the end; nil = never behind
	Checkpoints     *checkpoint.Checkpoints                                       // nil = none: a replay starts over
	Backlog         func(context.Context) (source.Offsets, error)                 // returns the ends of the partitions, up to which all is learnt before the first model is published; nil = it does not wait
	WarmStart       *snapshot.Snapshot                                            // used without a checkpoint; nil = the snapshot that Published returns
	OnSnapshot      func(*snapshot.Snapshot)                                      // called with each snapshot before it is put; may be nil
	Stats           *stats.Stats
	Log             *slog.Logger
	Now             func() time.Time

	// Published returns what the snapshot topic holds of the model; newest is nil if there is nothing. With settled
	// it reads to the high watermark, otherwise it does not wait for open transactions. Nil = do not look.
	Published func(ctx context.Context, settled bool) (newest *snapshot.Snapshot, _ snapshot.Slots, _ error)

	// Newest returns the newest snapshot of the model, nil if there is none. Nil = do not look.
	Newest func(context.Context) (*snapshot.Snapshot, error)
}

// Learn is the stage that feeds the learner. Do changes its state provisionally, and Rewind resets the state to the
// last checkpoint, so that state and offsets cannot disagree (invariant 2).
type Learn struct {
	LearnConfig

	features minibatch.Features
	learner  *online.Learner
	batcher  *minibatch.Batcher
	rows     minibatch.Rows
	x        []float64
	at       reject.Place // of the rows that were read last
	ids      []uint64
	turns    turns // the series of x
	offsets  source.Offsets
	slots    snapshot.Slots
	state    checkpoint.Checkpoint // counters of the provisional state

	pending    []sink.Message // snapshots not yet put
	published  int            // number of snapshots in pending
	unfinished *unfinished    // the snapshot that is being made; nil after Do, Finish and Restart
	sinceRows  uint64         // rows since the last checkpoint
	keptAt     time.Time      // when the last checkpoint was put
	shownAt    time.Time      // when the last snapshot was made
	skip       skipper
	skipped    skipped
	rejects    reject.Rejects
	compared   bool   // the checkpoint was compared with the newest snapshot
	thin       uint64 // minibatches that LearnOneIn has counted
	released   uint64 // rows of anomalous minibatches that were given up
	said       passing
	curve      stats.Thinned[stats.Point]
	constant   []string           // columns that have not moved
	before     *snapshot.Snapshot // published by another writer before this learner began
	unusable   Unusable
	warmup     warmup
	hearing    hearing

	backlog     source.Offsets // as first found by this process
	backlogSaid bool           // what is waited for was logged
	started     bool           // where learning begins was logged

	oneOfMany bool // a KeyedLearn feeds it, and shows what it learns
}

// Do learns every full minibatch of the batch. It requests a put when a snapshot or a checkpoint is due, and then
// adds the checkpoint that belongs to the batch's offsets. An empty batch serves as the clock of a stream that
// pauses: without it the last rows would not be published before the next ones came.
func (l *Learn) Do(ctx context.Context, b source.Batch) (pipeline.Work, error) {
	// The first model is not put off: behind a fast stream, a transform that waits for it would wait forever.
	l.skip.measure(l.SkipWhenBehind && l.state.Snapshots > 0 && !l.young(), l.Lag)
	defer l.dropSnapshot() // after an error; otherwise there is none
	commanded := l.obey(ctx)
	for i := range b.Messages {
		if err := l.message(ctx, &b.Messages[i]); err != nil {
			return pipeline.Work{}, err
		}
	}
	if err := l.endSnapshot(); err != nil {
		return pipeline.Work{}, err
	}
	for p, next := range b.Claim.Next {
		l.offsets[p] = next
	}
	if err := l.endHistory(); err != nil {
		return pipeline.Work{}, err
	}
	now := l.Now()
	if l.SnapshotEvery > 0 && now.Sub(l.shownAt) >= l.SnapshotEvery && l.state.History == nil {
		if err := l.publish(false); err != nil {
			return pipeline.Work{}, err
		}
	}
	l.say(now)
	moved := len(b.Messages) > 0 || l.sinceRows > 0 // an idle stream needs no second checkpoint
	due := (l.CheckpointRows > 0 && l.sinceRows >= l.CheckpointRows) || (moved && l.CheckpointEvery > 0 && now.Sub(l.keptAt) >= l.CheckpointEvery)
	if len(l.pending) == 0 && !due && !commanded {
		return pipeline.Work{}, nil
	}
	return l.work(ctx)
}

// Finish puts what is left: in a replay the last rows and their snapshot, otherwise the checkpoint.
func (l *Learn) Finish(ctx context.Context) (pipeline.Work, error) {
	if l.learner == nil {
		if l.LearnRest {
			return pipeline.Work{}, l.unusable.nothing()
		}
		return pipeline.Work{}, nil
	}
	if l.LearnRest {
		l.acceptRest()
		if err := l.learnRest(ctx); err != nil {
			return pipeline.Work{}, err
		}
		if l.state.Published == l.version() && l.state.Snapshots > 0 { // a model that was made at the last row is replaced by what the end makes of it
			l.state.Published, l.state.Snapshots = 0, l.state.Snapshots-1
		}
		choice, err := l.learner.EndOfSet()
		if err != nil {
			return pipeline.Work{}, err
		}
		logChoice(l.Log, choice, l.ModelID, l.learner.Info().Rows)
		l.saySeries(true)
		if l.waits() {
			return pipeline.Work{}, l.noModel()
		}
		if err := l.publish(true); err != nil {
			return pipeline.Work{}, err
		}
	}
	return l.work(ctx)
}

// learnRest learns the rows that fill no minibatch. More may come: a backtest goes on, and another pass begins.
func (l *Learn) learnRest(ctx context.Context) error {
	if rest := l.batcher.Rest(); len(rest.IDs) > 0 {
		if err := l.minibatch(ctx, rest); err != nil {
			return err
		}
		l.batcher.Reset()
	}
	return l.endSnapshot()
}

// work adds the checkpoint to the pending snapshots.
func (l *Learn) work(ctx context.Context) (pipeline.Work, error) {
	work := pipeline.Work{Messages: l.pending, Commit: true}
	if l.Checkpoints == nil || l.learner == nil {
		return work, nil
	}
	if err := l.learner.Await(ctx, 0); err != nil {
		return pipeline.Work{}, err
	}
	msgs, err := l.checkpoint()
	if err != nil {
		return pipeline.Work{}, err
	}
	work.Messages = append(work.Messages, msgs...)
	failpoint.Here("checkpoint")
	return work, nil
}

// Room is the number of usable rows that complete the next minibatch.
func (l *Learn) Room() int {
	if l.batcher == nil {
		return l.Learner.Minibatch
	}
	return l.batcher.Rows() - l.batcher.Len()
}

// Kept removes what has been put.
func (l *Learn) Kept() {
	failpoint.Here("learn.kept")
	l.Stats.Snapshots.Add(uint64(l.published))
	l.pending, l.published, l.sinceRows = nil, 0, 0
	l.keptAt, l.hearing.new = l.Now(), false
	if l.Checkpoints != nil {
		l.Stats.SetCheckpoint(l.keptAt)
	}
}

// Rewind loads the last checkpoint, or starts a new model if there is none.
func (l *Learn) Rewind(ctx context.Context) (source.Offsets, error) {
	start, err := l.rewind(ctx)
	if err == nil {
		err = l.findHistory(ctx)
	}
	if err != nil {
		return nil, err
	}
	l.sayStart(start)
	return start, nil
}

func (l *Learn) rewind(ctx context.Context) (source.Offsets, error) {
	failpoint.Here("restore.before")
	var c *checkpoint.Checkpoint
	var saved source.Offsets
	if l.Checkpoints != nil {
		var err error
		if c, err = l.Checkpoints.Load(ctx); err != nil {
			return nil, err
		}
	}
	if c != nil {
		if err := l.notOlder(ctx, c); err != nil {
			return nil, err
		}
		saved = c.Offsets
	}
	start, err := l.Start(ctx, saved)
	if err != nil {
		return nil, err
	}
	l.reset(start)
	switch {
	case l.Checkpoints == nil:
		return start, nil
	case c == nil:
		return start, errors.Join(l.adopt(ctx), l.hearing.begin(ctx, &l.LearnConfig))
	}
	if err := errors.Join(l.restore(c), l.hearing.begin(ctx, &l.LearnConfig)); err != nil {
		return nil, err
	}
	failpoint.Here("restore.after")
	for p := range start {
		start[p] = l.offsets[p]
	}
	return start, nil
}

func (l *Learn) reset(start source.Offsets) {
	l.learner, l.batcher, l.features = nil, nil, minibatch.Features{}
	l.offsets = start.Clone()
	l.slots = snapshot.Slots{}
	l.state = checkpoint.Checkpoint{ModelID: l.ModelID}
	l.rejects = reject.Rejects{}
	l.pending, l.published, l.sinceRows, l.thin, l.released, l.said = nil, 0, 0, 0, 0, passing{}
	l.before, l.unusable, l.hearing = nil, Unusable{}, hearing{}
	l.keptAt, l.shownAt = l.Now(), l.Now()
}

// message learns one message's rows and advances its offset.
func (l *Learn) message(ctx context.Context, m *source.Message) error {
	defer func() { l.offsets[m.Partition] = m.Offset + 1 }()
	l.acceptBefore(m)
	if m.Err != nil {
		return l.reject(m, m.Err)
	}
	if m.Record == nil || m.Record.NumRows() == 0 {
		return nil
	}
	if l.learner == nil {
		if err := l.begin(m); err != nil {
			return l.reject(m, encode.Refused(m, err))
		}
	}
	l.rows.KeepMissing = l.fills()
	if bad := readable(l.OnInvalid, &l.features, &l.rows, m); bad != nil {
		return l.reject(m, bad)
	}
	if l.Rejects != nil {
		l.inWindow(&l.rejects, false)
	}
	if err := l.named(m); err != nil {
		return err
	}
	l.offsets[m.Partition] = m.Offset // until all its rows are learnt
	l.turns.begin(l.Series, m)
	defer l.turns.end()
	err := reject.EachSlice(&l.features, &l.rows, m.Record, func(first int) error { return l.gathered(ctx, m, first) })
	l.saySeries(false)
	return err
}

// gathered learns the rows of a slice of a message, which begins at row first.
func (l *Learn) gathered(ctx context.Context, m *source.Message, first int) error {
	if err := l.invalid(&l.rows, m, first); err != nil {
		return err
	}
	l.at = reject.Place{Topic: m.Partition.Topic, Partition: m.Partition.ID, Offset: m.Offset}
	topic, offset, before := m.Identity()
	id := minibatch.NewRowIDs(topic, m.Partition.ID)
	l.unusable.rows(len(l.rows.Invalid), l.rows.N-l.rows.Bad)
	l.batcher.Stamp(m.Stamp())
	if l.fills() || l.Series.Keyed() {
		l.seriesRows(id, offset, before, first)
		return l.minibatches(ctx, l.batcher.AddSeries(l.x, l.ids, l.turns.ids, m.Partition.ID))
	}
	l.x, l.ids = l.rows.AppendValid(l.x[:0], l.ids[:0], id, offset, before+first)
	return l.minibatches(ctx, l.batcher.Add(l.x, l.ids, m.Partition.ID))
}

// learnRows learns rows of one stamp of a model that is one of many: they are one series. Those that fill it may have NaN for nulls.
func (l *Learn) learnRows(ctx context.Context, x []float64, ids []uint64, stamp int64) error {
	l.batcher.Stamp(stamp)
	if l.fills() {
		return l.minibatches(ctx, l.batcher.AddSeries(x, ids, make([]uint64, len(ids)), 0))
	}
	return l.minibatches(ctx, l.batcher.Add(x, ids, 0))
}

// minibatches learns minibatches.
func (l *Learn) minibatches(ctx context.Context, all iter.Seq[minibatch.Minibatch]) error {
	for mb := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.minibatch(ctx, mb); err != nil {
			return err
		}
	}
	return nil
}

// begin chooses the features of the first usable record, and creates the learner for them.
func (l *Learn) begin(m *source.Message) error {
	f, leftOut, err := minibatch.ChooseWithout(m.Record, l.Columns, l.Series.ColumnName())
	if err != nil {
		return err
	}
	if err := l.start(f); err != nil {
		return err
	}
	WarnLeftOut(l.Log, f, leftOut)
	return nil
}

// start creates the learner of a new model.
func (l *Learn) start(f minibatch.Features) error {
	learner, batcher, err := l.newLearner(len(f.Names))
	if err != nil {
		return err
	}
	if err := l.warm(learner, f.Names); err != nil {
		return &reject.Stop{Err: err, Remedy: "set another snapshot.model_id to learn a new model"}
	}
	l.learner, l.features = learner, f
	l.state.Features = f.Names
	l.batcher = batcher
	l.Log.Info("learning", "features", len(f.Names), "model_id", l.ModelID)
	return nil
}

// minibatch runs one stochastic EM step, or skips the minibatch if the learner is behind or thins out.
func (l *Learn) minibatch(ctx context.Context, mb minibatch.Minibatch) error {
	l.thin++
	if left := l.LearnOneIn > 1 && (l.thin-1)%l.LearnOneIn != 0; left || l.skip.now() {
		l.learner.SkipSeries(mb.X, mb.Rows, mb.Series)
		l.Stats.SkippedRows.Add(uint64(mb.Rows))
		l.skipped.rows += uint64(mb.Rows)
		return nil
	}
	if err := l.learner.Await(ctx, mb.Rows); err != nil {
		return err
	}
	start, evaluator := time.Now(), l.learner.EvaluatorRows()
	l.learner.Normal(l.Normal)
	step, err := l.learner.LearnSeries(mb.X, mb.IDs, mb.Partitions, mb.Series, mb.Stamps)
	if err != nil {
		return fmt.Errorf("pipeline: learn: %w", err)
	}
	l.alarm(step)
	l.released += uint64(step.Released)
	l.sayPassing()
	l.Stats.Update.Observe(time.Since(start))
	l.Stats.Updates.Add(1)
	l.Stats.LearntRows.Add(uint64(mb.Rows))
	l.skipped.learnt += uint64(mb.Rows)
	l.sinceRows += uint64(mb.Rows)
	l.note()
	if l.historyLeft() > 0 || !l.dueByRows() && !changed(step) {
		return nil
	}
	if l.young() {
		if l.learner.EvaluatorRows() == evaluator {
			return nil
		}
		return l.publishYoung()
	}
	if l.oneOfMany { // small models, and the learner's memory is another's in a moment
		return l.publish(true)
	}
	return l.beginSnapshot(l.learner.Freeze, true)
}

// dueByRows depends only on the rows learnt: the first model, every doubling, then every multiple. With snapshots by
// time only, the first model is still due by rows, because transforms wait for it.
func (l *Learn) dueByRows() bool {
	v, parent, every := l.learner.Info().Rows, l.state.Parent-min(l.state.Parent, l.state.Base), l.SnapshotRows
	if parent == 0 || every == 0 {
		return parent == 0
	}
	return v/every > parent/every || (v < every && v >= 2*parent)
}

// coordinates are those of what is published.
func (l *Learn) coordinates() lca.Coordinates { return cmp.Or(l.Coordinates, lca.CoordinatesAligned) }

// version is that of a snapshot taken now: the rows learnt, after those of the model that had the id before.
func (l *Learn) version() uint64 { return l.state.Base + l.learner.Info().Rows }

// waits reports whether too few rows are learnt for a first snapshot.
func (l *Learn) waits() bool {
	_, waits := l.learner.Waiting()
	return waits
}

// unfinished is a snapshot that is being made while the learner goes on.
type unfinished struct {
	snapshot *snapshot.Snapshot
	msgs     []sink.Message
	slots    snapshot.Slots
	err      error
	done     chan struct{} // closed when the others may be read
}

// publish makes a snapshot of the learner, unless this version exists already: a stream that pauses calls it
// repeatedly, and a model is expensive to make.
func (l *Learn) publish(byRows bool) error {
	if l.learner == nil {
		return nil
	}
	if err := l.beginSnapshot(l.learner.Freeze, byRows); err != nil {
		return err
	}
	return l.endSnapshot()
}

// beginSnapshot is the first half of publish: what depends on the learner's state. The rest is made on another goroutine
// from a copy of that, so that the snapshot is the same however far the learner is when it is done.
func (l *Learn) beginSnapshot(freeze func() (*online.Frozen, error), byRows bool) error {
	if l.version() <= l.state.Published {
		return nil
	}
	if err := l.endSnapshot(); err != nil { // the slots of one follow from those of the one before
		return err
	}
	frozen, err := freeze()
	if errors.Is(err, online.ErrWarmup) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pipeline: model: %w", err)
	}
	version, rows := l.version(), l.learner.Info().Rows
	s := &snapshot.Snapshot{
		ModelID: l.ModelID, Version: version, Number: l.state.Snapshots, Parent: l.state.Parent,
		Features: l.features.Names, Offsets: l.offsets.Clone(), Producer: l.Producer,
	}
	if l.Checkpoints != nil {
		s.Group, s.By = l.Checkpoints.Owner.Group, l.Checkpoints.By
	}
	u, before := &unfinished{snapshot: s, done: make(chan struct{})}, l.slots
	l.unfinished = u
	go func() {
		defer close(u.done)
		if s.Model, u.err = frozen.ModelIn(l.coordinates()); u.err != nil {
			u.err = fmt.Errorf("pipeline: model after %s: %w", plural.Count(rows, "row"), u.err)
		} else if u.msgs, u.slots, u.err = snapshot.Messages(s, l.Topic, l.Keep, before); u.err != nil {
			u.err = fmt.Errorf("pipeline: snapshot %d: %w", version, u.err)
		}
	}()
	l.state.Snapshots++
	l.state.Published, l.state.History = version, nil
	if byRows {
		l.state.Parent = version
	}
	l.shownAt = l.Now()
	return nil
}

// endSnapshot waits for the snapshot that is being made, and adds it to what is put next.
func (l *Learn) endSnapshot() error {
	u := l.unfinished
	if u == nil {
		return nil
	}
	<-u.done
	l.unfinished = nil
	if u.err != nil {
		return u.err
	}
	l.slots = u.slots
	failpoint.Here("snapshot.before")
	l.pending = append(l.pending, u.msgs...)
	l.published++
	if l.OnSnapshot != nil {
		l.OnSnapshot(u.snapshot)
	}
	return nil
}

// dropSnapshot waits for the snapshot that is being made and forgets it, because the learner goes back to its last checkpoint.
func (l *Learn) dropSnapshot() {
	if l.unfinished != nil {
		<-l.unfinished.done
		l.unfinished = nil
	}
}

// changed reports whether a step has put another metric in the place of the former one, or what a series shows is normal now, so that a snapshot is due: the one
// before is that of other rows, or not the best for them.
func changed(s online.Step) bool {
	return s.Alarm != online.AlarmNone || s.Accepted > 0 || remade(s.Choice) && s.Choice.Taken > 0
}

// remade reports whether there was a model before the choice. What a model begins with is no change.
func remade(c *lca.Choice) bool { return c != nil && !c.Beginning() }

// alarm logs why the learner has left its metric or refuses rows, and makes a record of that and of a choice, in the transaction of the
// snapshot that is due.
func (l *Learn) alarm(s online.Step) {
	logChoice(l.Log, s.Choice, l.ModelID, l.learner.Info().Rows)
	if remade(s.Choice) && s.Choice.Other() {
		l.tell(transform.AlarmModel, "the data chose another model: "+s.Choice.Candidates[s.Choice.Taken].Name)
	}
	if s.Accepted > 0 {
		l.Log.Info("what was unusual is normal now, and is learnt", "model_id", l.ModelID, "series", s.Accepted)
	}
	switch s.Alarm {
	case online.AlarmNone:
	case online.AlarmDrift:
		l.left(slog.LevelWarn, transform.AlarmDrift, "the stream has changed: the learner restarted from the rows since")
	case online.AlarmLockout:
		l.left(slog.LevelWarn, transform.AlarmDrift, "most rows were refused: the learner restarted from those that came next")
	case online.AlarmRefused:
		l.left(slog.LevelWarn, transform.AlarmDrift, l.refused(s))
	case online.AlarmRegimeReturned:
		l.left(slog.LevelInfo, transform.AlarmReturned, "a former regime has returned, and its metric is current again")
	}
}

// refused says which rows are not learnt.
func (l *Learn) refused(s online.Step) string {
	switch {
	case s.Still:
		return "no column moves any more, as where sensors are stuck: such rows are not learnt"
	case !l.Learner.Drift && s.RefusedShare > 0.5:
		return fmt.Sprintf("%.1f %% of the last rows were refused. lca.accept_after is never, so none are learnt however long this lasts: if the machine itself was changed, accept its episode, or set another snapshot.model_id", 100*s.RefusedShare)
	default:
		return fmt.Sprintf("%.1f %% of the last rows were refused, and not fewer before: they are outliers to the model, and are not learnt", 100*s.RefusedShare)
	}
}

// left says that the learner has left its metric, or does not learn many rows.
func (l *Learn) left(level slog.Level, kind, message string) {
	l.Log.Log(context.Background(), level, message, "model_id", l.ModelID, "rows", l.learner.Info().Rows)
	l.tell(kind, message)
}

// tell makes the record of an event.
func (l *Learn) tell(kind, message string) {
	if l.Alarms.Topic != "" {
		l.pending = append(l.pending, l.Alarms.Message(transform.Alarm{Type: kind, Time: l.Now(), Version: l.version(), Source: l.at, Message: message}))
	}
}

// reject skips a bad record, which the transform sets aside. The learner stops where the transform would stop: before
// the first model the transform has not begun, and records would be skipped without notice (invariant 4).
func (l *Learn) reject(m *source.Message, bad *source.RecordError) error {
	var stop *reject.Stop
	if errors.As(bad.Err, &stop) {
		return stop
	}
	l.unusable.record(bad)
	return l.passOver(&l.rejects, m, bad)
}

// passOver skips a bad record, or returns why to stop.
func (c *LearnConfig) passOver(r *reject.Rejects, m *source.Message, bad *source.RecordError) error {
	if c.Rejects == nil {
		return nil
	}
	c.Log.Warn("a record cannot be learnt from", "partition", m.Partition.String(), "offset", m.Offset, "error", bad.Err)
	return c.Rejects.Allow(bad, c.inWindow(r, true))
}

// inWindow counts a message and returns how many of the last ones were rejected. A rewind begins with an empty
// window.
func (c *LearnConfig) inWindow(r *reject.Rejects, rejected bool) int {
	defer r.Keep()
	return r.Add(c.Rejects.WindowLength(), rejected)
}

// invalid applies source.on_invalid: stop to the rows of a slice, which begins at row first. The other policies concern only the
// transform.
func (c *LearnConfig) invalid(rows *minibatch.Rows, m *source.Message, first int) error {
	for i, reason := range rows.Invalid {
		if c.OnInvalid == reject.StopAtRow && reason != minibatch.ReasonNone {
			return reject.StopAtInvalid(m, first+i, reason)
		}
	}
	return nil
}

// skipper decides which minibatches are learnt when the learner cannot keep up with the stream: every k-th, so that
// the learnt rows are still an even, unbiased sample (section 5.1 of the paper asks no more). A backlog that shrinks
// is learnt in full. k doubles each time the lag has grown by an eighth, and halves each time it has fallen to half
// of what it was when k last changed. k = 1 learns everything.
type skipper struct {
	k      uint64
	seen   uint64
	known  bool  // least is set
	least  int64 // the smallest lag since k changed
	turned int64 // the lag when k last changed
	turns  int
}

const (
	skipMost   = 256 // largest k
	skipTurns  = 4   // batches between two measurements of the lag
	skipBehind = 64  // lag, in records, that needs no action
)

// measure reads the lag once every few batches, and returns k.
func (s *skipper) measure(enabled bool, lag func() int64) uint64 {
	s.k = max(s.k, 1)
	if !enabled || lag == nil {
		s.k, s.known = 1, false
		return s.k
	}
	if s.turns++; s.turns%skipTurns != 0 {
		return s.k
	}
	now := lag()
	switch {
	case now <= skipBehind:
		s.k, s.known = 1, false
		return s.k
	case s.known && now > s.least+s.least/8 && s.k < skipMost:
		s.k *= 2
		s.least, s.turned = now, now
	case s.k > 1 && now < s.turned/2:
		s.k /= 2
		s.least, s.turned = now, now
	case !s.known:
		s.least, s.known = now, true
	}
	s.least = min(s.least, now)
	return s.k
}

// now reports whether the next minibatch is skipped.
func (s *skipper) now() bool {
	s.seen++
	return s.k > 1 && s.seen%s.k != 0
}

// skipped logs what share of the rows is skipped: as soon as any are, and then once a minute with the figures since
// the last line, until none are.
type skipped struct {
	rows, learnt uint64    // since the last line
	at           time.Time // of the last line; zero: none was skipped
}

// skippedEvery is the interval between two lines.
const skippedEvery = time.Minute

// say logs a line if one is due. k is the skipper's.
func (s *skipped) say(log *slog.Logger, now time.Time, k uint64) {
	switch {
	case s.rows == 0 && s.at.IsZero():
		s.learnt = 0
		return
	case now.Sub(s.at) < skippedEvery:
		return
	case s.rows == 0:
		log.Info("the learner keeps up again: no rows are skipped", "learnt", s.learnt)
		*s = skipped{}
		return
	}
	share := 1 - 1/float64(k) // of what comes now: the rows that the first line could count are too few to tell
	if !s.at.IsZero() {
		share = float64(s.rows) / float64(s.rows+s.learnt)
	}
	log.WarnContext(logs.Unlimited(context.Background()), "rows are skipped evenly, because they come faster than they are learnt", "skipped", s.rows, "learnt", s.learnt,
		"share", fmt.Sprintf("%.0f %%", 100*share), "learnt_one_minibatch_in", k,
		"remedy", "none is needed for an even sample; to learn all of a backlog, begin with --from-history, or lca.skip_when_behind: false")
	*s = skipped{at: now}
}

// passing is what was said of the rows that the learner set aside as a change, and gave up because it did not last: most faults are such rows.
type passing struct {
	rows uint64 // of Learn.released
	at   time.Time
}

const passingEvery = time.Minute // between two lines

// sayPassing logs what was given up, once all is over that was set aside. With drift off it is given up at once, and may go on.
func (l *Learn) sayPassing() {
	rows := l.released - l.said.rows
	if l.oneOfMany || !l.Learner.Drift || rows == 0 || l.learner.Quarantined() > 0 || l.Now().Sub(l.said.at) < passingEvery {
		return
	}
	l.Log.Info("a change did not last: its rows were not learnt", "model_id", l.ModelID, "set_aside", rows, "rows", l.learner.Info().Rows)
	l.said = passing{l.released, l.Now()}
}

// constantNamed is how many columns a line names.
const constantNamed = 20

// sayConstant logs which columns have not moved, at first and when others do. They have no part in the metric, and their first move is an anomaly.
func (l *Learn) sayConstant(columns []int) {
	named := func(k int) string { return l.features.Names[k] }
	if len(columns) == len(l.constant) {
		same := true
		for i, k := range columns {
			same = same && l.constant[i] == named(k)
		}
		if same {
			return
		}
	}
	before := l.constant
	l.constant = make([]string, 0, len(columns)) // a reader may have the one before
	for _, k := range columns {
		l.constant = append(l.constant, named(k))
	}
	moved := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return slices.Contains(l.constant, name) })
	l.Log.Info("columns that have not moved: their first move is an anomaly", "model_id", l.ModelID,
		"columns", len(l.constant), "names", l.constant[:min(constantNamed, len(l.constant))], "moved_since", moved[:min(constantNamed, len(moved))])
}

// logChoice says what the data have chosen, and what the choice is worth on the rows that judged.
func logChoice(log *slog.Logger, c *lca.Choice, modelID string, rows uint64) {
	if c == nil {
		return
	}
	was, now := c.Candidates[0], c.Candidates[c.Taken]
	attrs := []any{
		"model_id", modelID, "version", rows, "candidates", len(c.Candidates), "d_parzen", now.Parzen, "nu", now.Nu, "nu_unit", now.NuUnit.String(),
		"kernel", now.Kernel.String(), "nll", now.NLL, "nll_before", was.NLL,
	}
	switch {
	case c.Beginning():
		log.Info("the data chose what the model begins with", append(attrs, "taken", now.Name)...)
	case c.Taken == 0:
		log.Info("the data chose to keep the model: no candidate was surely better", attrs...)
	case !c.Other():
		log.Info("the data chose the same settings, fitted again", append(attrs, "taken", now.Name)...)
	default:
		log.Info("the data chose another model", append(attrs, "taken", now.Name)...)
	}
}
