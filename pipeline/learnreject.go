package pipeline

import (
	"errors"
	"fmt"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// reject skips a bad record, which the transform sets aside. The learner stops where the transform would stop: before
// the first model the transform has not begun, and records would be skipped without notice (invariant 4).
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

// named stops at a feature that none of the first messages has, while there is no model: it is misspelt, and there will
// never be one.
func (l *Learn) named(m *source.Message) error {
	if l.state.Published > 0 {
		return nil
	}
	if l.unusable.messages == 0 {
		l.unusable.since = fmt.Sprintf("%s at offset %d", m.Partition, m.Offset)
	}
	l.unusable.read(&l.features, m.Record.Schema())
	if err := l.unusable.never(); err != nil && l.unusable.messages >= neverThere {
		return &Stop{
			Err:    fmt.Errorf("source.features has a name that none of %d messages has, from %s on: %w", l.unusable.messages, l.unusable.since, err),
			Remedy: "where newer messages have it, begin with them: `lca-stream offsets reset --to TIME` moves a learner that has no model yet, too",
		}
	}
	return nil
}

// inWindow counts a message and returns how many of the last ones were rejected. A rewind begins with an empty
// window.
func (l *Learn) inWindow(rejected bool) int {
	defer l.rejects.keep()
	return l.rejects.add(l.Rejects.window(), rejected)
}

// invalid applies source.on_invalid: stop to the rows of a slice. The other policies concern only the transform.
func (l *Learn) invalid(m *source.Message, first int) error {
	for i, reason := range l.rows.Invalid {
		if l.StopAtRow && reason != minibatch.ReasonNone {
			return stopAtRow(m, first+i, reason)
		}
	}
	return nil
}
