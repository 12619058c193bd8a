package pipeline

import (
	"errors"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// reject passes a bad record over: the transform sets it aside. The learner stops where the transform would,
// which has not begun before the first model, so that nothing is passed over unseen (invariant 4).
func (l *Learn) reject(m *source.Message, bad *source.RecordError) error {
	var stop *Stop
	if errors.As(bad.Err, &stop) {
		return stop
	}
	l.unusable.record(bad)
	if l.Rejects == nil {
		return nil
	}
	l.Log.Warn("a record cannot be learnt from", "partition", m.Partition.String(), "offset", m.Offset, "error", bad.Err)
	return l.Rejects.allow(bad, l.inWindow(true))
}

// inWindow counts a message, and returns how many of the last ones were rejected. A rewind begins an empty window.
func (l *Learn) inWindow(rejected bool) int {
	defer l.rejects.keep()
	return l.rejects.add(l.Rejects.window(), rejected)
}

// invalid applies source.on_invalid: stop to the rows of a slice; what else it may say is for the transform to do.
func (l *Learn) invalid(m *source.Message, first int) error {
	for i, reason := range l.rows.Invalid {
		if l.StopAtRow && reason != minibatch.ReasonNone {
			return stopAtRow(m, first+i, reason)
		}
	}
	return nil
}
