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
	return l.passOver(&l.rejects, m, bad)
}

// passOver skips a bad record, or returns why to stop.
func (c *LearnConfig) passOver(r *rejects, m *source.Message, bad *source.RecordError) error {
	if c.Rejects == nil {
		return nil
	}
	c.Log.Warn("a record cannot be learnt from", "partition", m.Partition.String(), "offset", m.Offset, "error", bad.Err)
	return c.Rejects.allow(bad, c.inWindow(r, true))
}

// named stops at a feature of which none of the first messages has a number, while there is no model: it is misspelt or text, and there will
// never be one.
func (l *Learn) named(m *source.Message) error {
	if l.state.Published > 0 {
		return nil
	}
	if l.unusable.messages == 0 {
		l.unusable.since = fmt.Sprintf("%s at offset %d", m.Partition, m.Offset)
	}
	l.unusable.read(&l.features, m.Record)
	if err := l.unusable.never(); err != nil && l.unusable.messages >= neverThere {
		return &Stop{
			Err:    fmt.Errorf("source.features has a name under which none of %d messages has a number, from %s on: %w", l.unusable.messages, l.unusable.since, err),
			Remedy: "where newer messages have it, begin with them: `lca-stream offsets reset --to TIME` moves a learner that has no model yet, too",
		}
	}
	return nil
}

// inWindow counts a message and returns how many of the last ones were rejected. A rewind begins with an empty
// window.
func (c *LearnConfig) inWindow(r *rejects, rejected bool) int {
	defer r.keep()
	return r.add(c.Rejects.window(), rejected)
}

// invalid applies source.on_invalid: stop to the rows of a slice, which begins at row first. The other policies concern only the
// transform.
func (c *LearnConfig) invalid(rows *minibatch.Rows, m *source.Message, first int) error {
	for i, reason := range rows.Invalid {
		if c.StopAtRow && reason != minibatch.ReasonNone {
			return stopAtRow(m, first+i, reason)
		}
	}
	return nil
}
