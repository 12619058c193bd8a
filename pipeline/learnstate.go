package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// checkpoint encodes a checkpoint of the provisional state as messages.
func (l *Learn) checkpoint() ([]sink.Message, error) {
	c, err := l.saved()
	if err != nil {
		return nil, err
	}
	msgs, err := l.Checkpoints.Messages(c)
	if err != nil {
		return nil, err
	}
	l.state.Sequence = c.Sequence
	return msgs, nil
}

// saved is the next checkpoint, of the provisional state.
func (l *Learn) saved() (*Checkpoint, error) {
	c := l.state
	c.Sequence++
	c.Offsets, c.Slots, c.Digest, c.Owner = l.offsets, l.slots, l.digest(), l.Checkpoints.Owner
	var err error
	if c.Learner, err = l.learner.AppendBinary(nil); err != nil {
		return nil, fmt.Errorf("pipeline: checkpoint: %w", err)
	}
	if c.Batcher, err = l.batcher.AppendBinary(nil); err != nil {
		return nil, fmt.Errorf("pipeline: checkpoint: %w", err)
	}
	return &c, nil
}

// restore adopts a checkpoint, unless the configuration asks for something that the learnt state cannot become.
func (l *Learn) restore(c *Checkpoint) error {
	if err := l.continues(c); err != nil {
		return err
	}
	learner, batcher, err := l.newLearner(len(c.Features))
	if err != nil {
		return err
	}
	if err := learner.UnmarshalBinary(c.Learner); errors.As(err, new(*online.ShapeError)) {
		return l.otherPool(fmt.Errorf("lca.neighbours or lca.pool has changed, and the checkpoint of model %q cannot follow: %w", l.ModelID, err))
	} else if err != nil {
		return &Stop{Err: fmt.Errorf("checkpoint of model %q: %w", l.ModelID, err), Remedy: "set another snapshot.model_id to learn a new model"}
	}
	if err := batcher.UnmarshalBinary(c.Batcher); err != nil {
		return &Stop{Err: fmt.Errorf("checkpoint of model %q: %w", l.ModelID, err)}
	}
	maps.Copy(l.offsets, c.Offsets) // also those of partitions that this learner does not read, because another one may read them again
	if _, changed := l.changed(c); len(changed) > 0 {
		l.Log.Warn("the configuration has changed since the checkpoint; learning goes on from its state", "changed", strings.Join(changed, "; "))
	}
	if o, err := online.StateOrigin(c.Learner); err == nil && !o.SameBits() {
		l.Log.Warn("the checkpoint was written by a build for another architecture or of another Go version; learning goes on, "+
			"but a replay may differ in its last bits", "arch", o.Arch, "go", o.Go)
	}
	if l.learner != nil {
		l.learner.Close()
	}
	l.learner, l.batcher, l.features = learner, batcher, minibatch.Features{Names: c.Features}
	l.slots = c.Slots
	l.state = *c
	l.state.Learner, l.state.Batcher, l.state.Offsets = nil, nil, nil
	l.note()
	return nil
}

// continues refuses to go on from a checkpoint of other features or of another model.
func (l *Learn) continues(c *Checkpoint) error {
	if err := l.sameFeatures(c.Features); err != nil {
		return err
	}
	return l.sameModel(c)
}

// sameFeatures refuses to go on from a model of other features: their number and order count.
func (l *Learn) sameFeatures(learnt []string) error {
	if minibatch.Chosen(l.Columns, learnt) {
		return nil
	}
	return &Stop{
		Err:    fmt.Errorf("model %q %s", l.ModelID, OtherFeatures(learnt, "source.features now says", l.Columns)),
		Remedy: "set another snapshot.model_id to learn a new model, or the former features to go on",
	}
}

// digest identifies the settings that decide the bits of the model.
func (l *Learn) digest() string {
	c := l.Learner
	c.Dim = 0
	return fmt.Sprintf("%+v", c)
}

// Check returns whether this learner could go on from what is there, before the sink is opened and a working learner
// fenced. It waits for no open transaction, so it may miss what is being written: Rewind looks again.
func (l *Learn) Check(ctx context.Context) error {
	c, err := l.Checkpoints.Peek(ctx)
	if err != nil {
		return err
	}
	if c != nil {
		if l.WarmStart != nil {
			l.Log.Warn("there is a checkpoint: the learner goes on from there, and not from the snapshot that it was given; to have it go on from that one, import it", "model_id", l.ModelID)
		}
		return l.GoesOn(c, nil)
	}
	s := l.WarmStart
	if s == nil && l.Published != nil {
		if s, _, err = l.Published(ctx, false); err != nil {
			return err
		}
		if err := l.ours(s); err != nil {
			return err
		}
	}
	return l.GoesOn(nil, s)
}

// GoesOn returns whether this learner could go on from a checkpoint, or without one from a snapshot; both may be nil.
func (l *Learn) GoesOn(c *Checkpoint, s *snapshot.Snapshot) error {
	switch {
	case c != nil:
		return l.continues(c)
	case s == nil:
		return nil
	}
	if err := l.sameFeatures(s.Features); err != nil || s == l.WarmStart {
		return err
	}
	return l.sameMetric(s)
}

// ours applies if there is no checkpoint. It refuses to go on from what the learner of another topic or group has
// published, unless a start was configured. That learner may be at work, with a checkpoint topic of its own.
func (l *Learn) ours(s *snapshot.Snapshot) error {
	if l.WarmStart != nil || l.Checkpoints == nil {
		return nil
	}
	return Belongs(s, l.Topic, l.Checkpoints.Owner)
}

// Belongs refuses a snapshot on a topic that the learner of another topic or group than those of an owner has published; nil: there is none.
func Belongs(s *snapshot.Snapshot, topic string, ours Owner) error {
	if s == nil || ours == (Owner{}) {
		return nil
	}
	if from := s.LearntFrom(); from != "" && from != ours.Topic {
		return foreign(s.ModelID, topic, Owner{Topic: from}, ours)
	}
	if s.Group != "" && s.Group != ours.Group {
		return foreign(s.ModelID, topic, Owner{Group: s.Group, Topic: ours.Topic}, ours)
	}
	return nil
}

// adopt applies if there is no checkpoint. It goes on from what a replay or an import has published: a version only
// grows, and the learner's snapshots take the slots after theirs.
func (l *Learn) adopt(ctx context.Context) error {
	if l.Published == nil {
		return nil
	}
	newest, slots, err := l.Published(ctx, true)
	if err != nil {
		return err
	}
	if err := l.ours(newest); err != nil {
		return err
	}
	l.slots, l.before = slots, newest
	if newest != nil {
		if err := l.sameMetric(newest); err != nil {
			return err
		}
		l.state.Snapshots, l.state.Published, l.state.Parent = newest.Number+1, newest.Version, newest.Version
	}
	return nil
}

// warm starts a learner from the chosen snapshot, or else from the newest one on the topic.
func (l *Learn) warm(learner *online.Learner, features []string) error {
	s := l.WarmStart
	if s == nil {
		s = l.before
	}
	if s == nil {
		return nil
	}
	if !slices.Equal(s.Features, features) {
		return fmt.Errorf("version %d of model %q %s", s.Version, s.ModelID, OtherFeatures(s.Features, "the stream has", features))
	}
	model := *s.Model
	model.Info.Rows = max(s.Version, l.state.Published)
	if err := learner.WarmStart(&model); err != nil {
		return fmt.Errorf("snapshot %d of model %q: %w", s.Version, s.ModelID, err)
	}
	l.state.Published, l.state.Parent = model.Info.Rows, model.Info.Rows
	l.Log.Info("going on from a snapshot", "model_id", s.ModelID, "version", s.Version)
	return nil
}

// sayStart logs where learning begins, and why there. After that a return to the last commit is detail.
func (l *Learn) sayStart(start source.Offsets) {
	if l.Checkpoints == nil {
		return
	}
	level, because, rows := slog.LevelInfo, "the model has no checkpoint", uint64(0)
	if l.started {
		level = slog.LevelDebug
	}
	l.started = true
	if l.learner != nil {
		because, rows = fmt.Sprintf("checkpoint %d is the newest", l.state.Sequence), l.learner.Info().Rows
	}
	l.Log.Log(context.Background(), level, "the learner reads on", "model_id", l.ModelID, "offsets", offsetList(start), "because", because,
		"rows_learnt", rows, "version", l.state.Published)
}

// note stores the learner's latest figures in the statistics.
func (l *Learn) note() {
	if l.oneOfMany {
		return
	}
	i := l.learner.Info()
	l.sayConstant(i.Constant)
	l.curve.add(Point{Rows: i.Rows, NLL: i.NLL, Gaussian: i.GaussianNLL})
	l.Stats.SetLearning(&Learning{
		Version: i.Rows, NLL: i.NLL, GaussianNLL: i.GaussianNLL, Effective: i.Effective,
		Alarms: i.Alarms, Lockouts: l.learner.AlarmsOf(online.AlarmLockout), Refusals: l.learner.AlarmsOf(online.AlarmRefused), Returns: l.learner.AlarmsOf(online.AlarmRegimeReturned),
		Gated: i.Gated, Copies: i.Copies, Constant: l.constant, PassRows: i.PassRows,
		Curve: l.curve.points,
	})
}

// curve keeps at most curvePoints points: when it is full, every other point is removed and the step doubles.
type curve struct {
	points []Point
	step   uint64
	seen   uint64
}

const curvePoints = 512

func (c *curve) add(p Point) {
	c.step = max(c.step, 1)
	c.seen++
	if c.seen%c.step != 0 {
		return
	}
	points := append(c.points, p) // readers hold what is before it, which does not change
	if len(points) > curvePoints {
		half := points[:0:0]
		for i := 1; i < len(points); i += 2 {
			half = append(half, points[i])
		}
		points, c.step = half, 2*c.step
	}
	c.points = points
}

// newLearner returns a learner of dim features, and the batcher that cuts its minibatches. A minibatch has at least a
// quarter as many rows as features, so that enough rows share the cost of a factorisation.
func (l *Learn) newLearner(dim int) (*online.Learner, *minibatch.Batcher, error) {
	c := l.Learner
	c.Dim = dim
	c.Minibatch = max(c.Minibatch, (dim+3)/4)
	if least, _, _ := CheckpointBytes(c.Neighbours, c.Dim); l.Checkpoints != nil && least > CheckpointLimit { // better now than after the rows have been learnt
		return nil, nil, largeCheckpoint(l.ModelID, least)
	}
	if err := learnerFits(c.Neighbours, dim); err != nil {
		return nil, nil, err
	}
	learner, err := online.NewLearner(c)
	if err != nil {
		return nil, nil, &Stop{Err: err, Remedy: "see the lca section of the configuration"}
	}
	return learner, minibatch.NewBatcher(dim, c.Minibatch), nil
}

// learnerFits refuses so many features that the first fit alone would take more than the memory of the process: four matrices of float64. Their number comes
// with the data.
func learnerFits(neighbours, dim int) error {
	takes, limit := 4*int64(neighbours)*int64(dim)+4*8*int64(dim)*int64(dim), debug.SetMemoryLimit(-1) // that of memory.limit
	if takes <= limit {
		return nil
	}
	return &Stop{
		Err:    fmt.Errorf("a model of %d features takes at least %d MiB, and the process may take %d (memory.limit)", dim, takes>>20, limit>>20),
		Remedy: "name fewer features in source.features, or raise memory.limit",
	}
}
