package pipeline

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Refuse sets the input aside whose output its topic will never take, and cuts a dead letter that is itself
// too large.
func (t *Transform) Refuse(work Work, index int, cause error) (Work, error) {
	m := t.made.inputs[work.from+index]
	if work.Messages[index].Topic != t.Topic {
		if t.DeadLetter.StopAtTooLarge {
			return Work{}, &Stop{Err: cause, Hint: "or set dead_letter.on_too_large to cut"}
		}
		dead, ok := t.DeadLetter.cut(work.Messages[index], m)
		if !ok {
			return Work{}, &Stop{Err: cause, Hint: fmt.Sprintf("the dead letter is cut as far as it can be, and every one fits into a topic that takes %d bytes", DeadLetterBytes)}
		}
		work.Messages[index] = dead
		return work, nil
	}
	dead, err := t.setAside(m, bad(m, codeOutputTooLarge, cause))
	if err != nil {
		return Work{}, err
	}
	work.Messages[index] = dead
	return work, nil
}

// setAside is the dead letter of a message, counted, or the reason to stop.
func (t *Transform) setAside(m *source.Message, bad *source.RecordError) (sink.Message, error) {
	inWindow := t.rejects.add(t.window(), true)
	dead, err := t.DeadLetter.reject(m, bad, inWindow)
	if err != nil {
		return sink.Message{}, err
	}
	if inWindow > t.DeadLetter.MaxRejects {
		t.Log.Warn("more messages were rejected than dead_letter.max_rejects; going on, because dead_letter.on_threshold is warn",
			"rejected", inWindow, "of_the_last", t.window(), "max_rejects", t.DeadLetter.MaxRejects)
	}
	t.counts.dead(bad)
	return t.timed(dead), nil
}

// Retime gives the messages for a topic times that it takes, and keeps their own in a header. What
// the topic takes is remembered for the batches to come.
func (t *Transform) Retime(work Work, refused *sink.TimestampError) (Work, error) {
	if !t.bounds.learn(refused) {
		return Work{}, &Stop{Err: refused}
	}
	for i := range work.Messages {
		work.Messages[i] = t.timed(work.Messages[i])
	}
	return work, nil
}

// timed returns a message with a time that its topic takes.
func (t *Transform) timed(m sink.Message) sink.Message {
	if m.Time.IsZero() || t.bounds.permit(m.Topic, m.Time, t.Now) {
		return m
	}
	if source.LastHeader(m.Headers, sourceTimestamp) == "" {
		own := make([]source.Header, 0, len(m.Headers)+1)
		m.Headers = append(append(own, m.Headers...), text(sourceTimestamp, strconv.FormatInt(m.Time.UnixMilli(), 10)))
	}
	m.Time = t.Now()
	return m
}

// timeBounds are how far from now the times of records may be, of the topics that have refused one.
type timeBounds []timeBound

type timeBound struct {
	topic         string
	before, after time.Duration
}

// permit reports whether a topic takes a time, as far as is known.
func (b timeBounds) permit(topic string, at time.Time, now func() time.Time) bool {
	for i := range b {
		if b[i].topic == topic {
			age := now().Sub(at)
			return age <= b[i].before && -age <= b[i].after
		}
	}
	return true
}

// timeMargin is what a batch may take on its way, as a rule: times near a bound are beyond it by then.
const timeMargin = time.Minute

// learn remembers what a topic has said. If it refuses what it was said to take, or does not say, it gets
// no time but the present; false: it does not take that either.
func (b *timeBounds) learn(refused *sink.TimestampError) bool {
	bound := timeBound{topic: refused.Topic, before: -1, after: -1}
	if refused.Known {
		bound.before = refused.Before - min(refused.Before/10, timeMargin)
		bound.after = refused.After - min(refused.After/10, timeMargin)
	}
	for i := range *b {
		known := &(*b)[i]
		switch {
		case known.topic != refused.Topic:
			continue
		case known.before < 0:
			return false
		case *known == bound:
			known.before, known.after = -1, -1
		default:
			*known = bound
		}
		return true
	}
	*b = append(*b, bound)
	return true
}
