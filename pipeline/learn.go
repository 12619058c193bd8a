package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// LearnConfig says what is learnt and when it is published. A snapshot is due by rows at a minibatch boundary, which
// depends on the data only, and so it is at an alarm of the learner. The clock may publish one in between, from the same state and without changing it
// (invariant 3).
type LearnConfig struct {
	ModelID         string
	Topic           string // snapshot topic
	Keep            int    // snapshot slots, ≥ 1
	SnapshotRows    uint64 // a snapshot when the rows learnt pass a multiple of this, and before that at every doubling; 0 = only by time and at alarms after the first
	SnapshotEvery   time.Duration
	CheckpointRows  uint64 // 0 = only by time
	CheckpointEvery time.Duration
	Columns         []string      // source.features
	Learner         online.Config // with Dim 0: it follows from the features
	SkipWhenBehind  bool
	Alarms          Alarms      // where changes of the stream go
	Rejects         *DeadLetter // how many unusable records are tolerated; nil = all, as in a replay
	StopAtRow       bool        // source.on_invalid: stop
	LearnRest       bool        // learn the unfinished minibatch at the end and publish the result, for a replay
	LearnOneIn      uint64      // learn one minibatch in this many, by a count that no checkpoint holds, for replays; 0 and 1 learn all
	Producer        string
	Start           func(context.Context, source.Offsets) (source.Offsets, error) // returns where to read, given the offsets of the checkpoint, nil without one
	Lag             func() int64                                                  // records behind the end; nil = never behind
	Checkpoints     *Checkpoints                                                  // nil = none: a replay starts over
	Backlog         func(context.Context) (source.Offsets, error)                 // returns the ends of the partitions, up to which all is learnt before the first model is published; nil = it does not wait
	WarmStart       *snapshot.Snapshot                                            // used without a checkpoint; nil = the snapshot that Published returns
	OnSnapshot      func(*snapshot.Snapshot)                                      // called with each snapshot before it is put; may be nil
	Stats           *Stats
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
	at       place // of the rows that were read last
	ids      []uint64
	offsets  source.Offsets
	slots    snapshot.Slots
	state    Checkpoint // counters of the provisional state

	pending    []sink.Message // snapshots not yet put
	published  int            // number of snapshots in pending
	unfinished *unfinished    // the snapshot that is being made; nil after Do, Finish and Restart
	sinceRows  uint64         // rows since the last checkpoint
	keptAt     time.Time      // when the last checkpoint was put
	shownAt    time.Time      // when the last snapshot was made
	skip       skipper
	skipped    skipped
	rejects    rejects
	compared   bool   // the checkpoint was compared with the newest snapshot
	thin       uint64 // minibatches that LearnOneIn has counted
	released   uint64 // rows of anomalous minibatches that were given up
	said       passing
	curve      curve
	constant   []string           // columns that have not moved
	before     *snapshot.Snapshot // published by another writer before this learner began
	unusable   Unusable
	warmup     warmup

	backlog     source.Offsets // as first found by this process
	backlogSaid bool           // what is waited for was logged
	started     bool           // where learning begins was logged

	oneOfMany bool // a KeyedLearn feeds it, and shows what it learns
}

// Do learns every full minibatch of the batch. It requests a put when a snapshot or a checkpoint is due, and then
// adds the checkpoint that belongs to the batch's offsets. An empty batch serves as the clock of a stream that
// pauses: without it the last rows would not be published before the next ones came.
func (l *Learn) Do(ctx context.Context, b source.Batch) (Work, error) {
	// The first model is not put off: behind a fast stream, a transform that waits for it would wait forever.
	l.skip.measure(l.SkipWhenBehind && l.state.Snapshots > 0, l.Lag)
	defer l.dropSnapshot() // after an error; otherwise there is none
	for i := range b.Messages {
		if err := l.message(ctx, &b.Messages[i]); err != nil {
			return Work{}, err
		}
	}
	if err := l.endSnapshot(); err != nil {
		return Work{}, err
	}
	for p, next := range b.Claim.Next {
		l.offsets[p] = next
	}
	if err := l.endHistory(); err != nil {
		return Work{}, err
	}
	now := l.Now()
	if l.SnapshotEvery > 0 && now.Sub(l.shownAt) >= l.SnapshotEvery && l.state.History == nil {
		if err := l.publish(false); err != nil {
			return Work{}, err
		}
	}
	l.say(now)
	moved := len(b.Messages) > 0 || l.sinceRows > 0 // an idle stream needs no second checkpoint
	due := (l.CheckpointRows > 0 && l.sinceRows >= l.CheckpointRows) || (moved && l.CheckpointEvery > 0 && now.Sub(l.keptAt) >= l.CheckpointEvery)
	if len(l.pending) == 0 && !due {
		return Work{}, nil
	}
	return l.work(ctx)
}

// Finish puts what is left: in a replay the last rows and their snapshot, otherwise the checkpoint.
func (l *Learn) Finish(ctx context.Context) (Work, error) {
	if l.learner == nil {
		if l.LearnRest {
			return Work{}, l.unusable.nothing()
		}
		return Work{}, nil
	}
	if l.LearnRest {
		if rest := l.batcher.Rest(); len(rest.IDs) > 0 {
			if err := l.minibatch(ctx, rest); err != nil {
				return Work{}, err
			}
		}
		if err := l.endSnapshot(); err != nil {
			return Work{}, err
		}
		choice, err := l.learner.EndOfSet()
		if err != nil {
			return Work{}, err
		}
		logChoice(l.Log, choice, l.ModelID, l.learner.Info().Rows)
		if err := l.publish(true); err != nil {
			return Work{}, err
		}
		if l.state.Published == 0 {
			return Work{}, l.noModel()
		}
	}
	return l.work(ctx)
}

// work adds the checkpoint to the pending snapshots.
func (l *Learn) work(ctx context.Context) (Work, error) {
	work := Work{Messages: l.pending, Commit: true}
	if l.Checkpoints == nil || l.learner == nil {
		return work, nil
	}
	if err := l.learner.Await(ctx, 0); err != nil {
		return Work{}, err
	}
	msgs, err := l.checkpoint()
	if err != nil {
		return Work{}, err
	}
	work.Messages = append(work.Messages, msgs...)
	failpoint.Here("checkpoint")
	return work, nil
}

// Kept removes what has been put.
func (l *Learn) Kept() {
	failpoint.Here("learn.kept")
	l.Stats.Snapshots.Add(uint64(l.published))
	l.pending, l.published, l.sinceRows = nil, 0, 0
	l.keptAt = l.Now()
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
	var c *Checkpoint
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
		return start, l.adopt(ctx)
	}
	if err := l.restore(c); err != nil {
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
	l.state = Checkpoint{ModelID: l.ModelID}
	l.rejects = rejects{}
	l.pending, l.published, l.sinceRows, l.thin, l.released, l.said = nil, 0, 0, 0, 0, passing{}
	l.before, l.unusable = nil, Unusable{}
	l.keptAt, l.shownAt = l.Now(), l.Now()
}

// message learns one message's rows and advances its offset.
func (l *Learn) message(ctx context.Context, m *source.Message) error {
	defer func() { l.offsets[m.Partition] = m.Offset + 1 }()
	if m.Err != nil {
		return l.reject(m, m.Err)
	}
	if m.Record == nil || m.Record.NumRows() == 0 {
		return nil
	}
	if l.learner == nil {
		if err := l.begin(m); err != nil {
			return l.reject(m, refused(m, err))
		}
	}
	if err := readable(&l.features, &l.rows, m.Record); err != nil {
		return l.reject(m, refused(m, err))
	}
	if l.Rejects != nil {
		l.inWindow(&l.rejects, false)
	}
	if err := l.named(m); err != nil {
		return err
	}
	l.offsets[m.Partition] = m.Offset // until all its rows are learnt
	return eachSlice(&l.features, &l.rows, m.Record, func(first int) error { return l.gathered(ctx, m, first) })
}

// gathered learns the rows of a slice of a message, which begins at row first.
func (l *Learn) gathered(ctx context.Context, m *source.Message, first int) error {
	if err := l.invalid(&l.rows, m, first); err != nil {
		return err
	}
	l.at = place{Topic: m.Partition.Topic, Partition: m.Partition.ID, Offset: m.Offset}
	topic, offset, before := m.Identity()
	id := minibatch.NewRowIDs(topic, m.Partition.ID)
	l.x, l.ids = l.rows.AppendValid(l.x[:0], l.ids[:0], id, offset, before+first)
	l.unusable.rows(len(l.rows.Invalid), len(l.ids))
	return l.add(ctx, l.x, l.ids, m.Partition.ID)
}

// add learns the minibatches that rows complete.
func (l *Learn) add(ctx context.Context, x []float64, ids []uint64, partition int32) error {
	for mb := range l.batcher.Add(x, ids, partition) {
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
	f, leftOut, err := minibatch.Choose(m.Record, l.Columns)
	if err != nil {
		return err
	}
	if err := l.start(f); err != nil {
		return err
	}
	warnLeftOut(l.Log, f, leftOut)
	return nil
}

// start creates the learner of a new model.
func (l *Learn) start(f minibatch.Features) error {
	learner, batcher, err := l.newLearner(len(f.Names))
	if err != nil {
		return err
	}
	if err := l.warm(learner, f.Names); err != nil {
		return &Stop{Err: err, Remedy: "set another snapshot.model_id to learn a new model"}
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
		l.learner.Skip(len(mb.IDs))
		l.Stats.SkippedRows.Add(uint64(len(mb.IDs)))
		l.skipped.rows += uint64(len(mb.IDs))
		return nil
	}
	if err := l.learner.Await(ctx, len(mb.IDs)); err != nil {
		return err
	}
	start := time.Now()
	step, err := l.learner.Learn(mb.X, mb.IDs, mb.Partitions)
	if err != nil {
		return fmt.Errorf("pipeline: learn: %w", err)
	}
	l.alarm(step)
	l.released += uint64(step.Released)
	l.sayPassing()
	l.Stats.Update.observe(time.Since(start))
	l.Stats.Updates.Add(1)
	l.Stats.LearntRows.Add(uint64(len(mb.IDs)))
	l.skipped.learnt += uint64(len(mb.IDs))
	l.sinceRows += uint64(len(mb.IDs))
	l.note()
	switch {
	case l.historyLeft() > 0 || !l.dueByRows() && !changed(step):
		return nil
	case l.oneOfMany: // small models, and the learner's memory is another's in a moment
		return l.publish(true)
	default:
		return l.beginSnapshot(true)
	}
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
