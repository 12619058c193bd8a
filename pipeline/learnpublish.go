package pipeline

import (
	"errors"
	"fmt"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

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
	if err := l.beginSnapshot(byRows); err != nil {
		return err
	}
	return l.endSnapshot()
}

// beginSnapshot is the first half of publish: what depends on the learner's state. The rest is made on another goroutine
// from a copy of that, so that the snapshot is the same however far the learner is when it is done.
func (l *Learn) beginSnapshot(byRows bool) error {
	if l.learner == nil || l.version() <= l.state.Published {
		return nil
	}
	if err := l.endSnapshot(); err != nil { // the slots of one follow from those of the one before
		return err
	}
	frozen, err := l.learner.Freeze()
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
		if s.Model, u.err = frozen.Model(); u.err != nil {
			u.err = fmt.Errorf("pipeline: model after %d rows: %w", rows, u.err)
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
