package pipeline

import (
	"errors"
	"fmt"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// version is that of a snapshot taken now: the rows learnt, after those of the model that had the id before.
func (l *Learn) version() uint64 { return l.state.Base + l.learner.Info().Rows }

// waits reports whether too few rows are learnt for a first snapshot.
func (l *Learn) waits() bool {
	_, waits := l.learner.Waiting()
	return waits
}

// publish makes a snapshot of the learner, unless this version exists already: a stream that pauses calls it
// repeatedly, and a model is expensive to make.
func (l *Learn) publish(byRows bool) error {
	if l.learner == nil || l.version() <= l.state.Published {
		return nil
	}
	model, err := l.learner.Model()
	if errors.Is(err, online.ErrWarmup) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pipeline: model after %d rows: %w", l.learner.Info().Rows, err)
	}
	version := l.version()
	s := &snapshot.Snapshot{
		Model: model, ModelID: l.ModelID, Version: version, Number: l.state.Snapshots, Parent: l.state.Parent,
		Features: l.features.Names, Offsets: l.offsets.Clone(), Producer: l.Producer,
	}
	if l.Checkpoints != nil {
		s.Group, s.By = l.Checkpoints.Owner.Group, l.Checkpoints.By
	}
	msgs, slots, err := snapshot.Messages(s, l.Topic, l.Keep, l.slots)
	if err != nil {
		return fmt.Errorf("pipeline: snapshot %d: %w", version, err)
	}
	l.slots = slots
	failpoint.Here("snapshot.before")
	l.pending = append(l.pending, msgs...)
	l.published++
	l.state.Snapshots++
	l.state.Published, l.state.History = version, nil
	if byRows {
		l.state.Parent = version
	}
	l.shownAt = l.Now()
	if l.OnSnapshot != nil {
		l.OnSnapshot(s)
	}
	return nil
}
