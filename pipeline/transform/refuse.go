package transform

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Refuse sets aside the input whose output its topic will never take, or cuts a dead letter that is too large itself.
func (t *Transform) Refuse(work pipeline.Work, index int, cause error) (pipeline.Work, error) {
	m := work.Inputs[index]
	switch work.Messages[index].Topic {
	case t.Topic:
	case t.Alarms.Topic:
		return pipeline.Work{}, &reject.Stop{Err: cause, Remedy: fmt.Sprintf("every alarm fits into a topic that takes %d bytes", AlarmBytes)}
	case t.States.topic():
		return pipeline.Work{}, &reject.Stop{Err: cause, Remedy: fmt.Sprintf("every state fits into a topic that takes %d bytes", StateBytes)}
	default:
		dead, ok := t.DeadLetter.Cut(work.Messages[index], m)
		if !ok {
			return pipeline.Work{}, &reject.Stop{Err: cause, Remedy: fmt.Sprintf("the dead letter is cut as far as it can be, and every one fits into a topic that takes %d bytes", reject.DeadLetterBytes)}
		}
		work.Messages[index] = dead
		return work, nil
	}
	bad := reject.Bad(m, reject.CodeOutputTooLarge, cause)
	bad.Version, _ = strconv.ParseUint(source.LastHeader(work.Messages[index].Headers, reject.HeaderVersion), 10, 64)
	dead, err := t.setAside(m, bad)
	if err != nil {
		return pipeline.Work{}, err
	}
	work.Messages[index] = dead
	return work, nil
}

// setAside returns the dead letter of a message, and counts it, or returns the reason to stop.
func (t *Transform) setAside(m *source.Message, bad *source.RecordError) (sink.Message, error) {
	dead, err := t.DeadLetter.Reject(m, bad, t.rejects.Add(t.window(), true))
	if err != nil {
		return sink.Message{}, err
	}
	t.counts.dead(bad)
	return t.timed(dead), nil
}

// Retime gives the messages for a topic timestamps that it takes, and keeps their own in a header. It remembers what
// the topic takes for later batches.
func (t *Transform) Retime(work pipeline.Work, refused *sink.TimestampError) (pipeline.Work, error) {
	if !t.bounds.learn(refused) {
		return pipeline.Work{}, &reject.Stop{Err: refused}
	}
	for i := range work.Messages {
		work.Messages[i] = t.timed(work.Messages[i])
	}
	return work, nil
}

// timed returns a message with a timestamp that its topic takes.
func (t *Transform) timed(m sink.Message) sink.Message {
	if m.Time.IsZero() || t.bounds.permit(m.Topic, m.Time, t.Now) {
		return m
	}
	if source.LastHeader(m.Headers, reject.SourceTimestamp) == "" {
		own := make([]source.Header, 0, len(m.Headers)+1)
		m.Headers = append(append(own, m.Headers...), reject.Text(reject.SourceTimestamp, strconv.FormatInt(m.Time.UnixMilli(), 10)))
	}
	m.Time = t.Now()
	return m
}

// timeBounds are how far from now the timestamps of records may be, for topics with a refusal.
type timeBounds []timeBound

type timeBound struct {
	topic         string
	before, after time.Duration
}

// permit reports whether a topic takes a timestamp, as far as is known.
func (b timeBounds) permit(topic string, at time.Time, now func() time.Time) bool {
	for i := range b {
		if b[i].topic == topic {
			now := now()
			return within(now.Sub(at), b[i].before) && within(at.Sub(now), b[i].after)
		}
	}
	return true
}

// within reports whether a distance from now is within a bound. A distance of more than 292 years is told as math.MaxInt64, or as
// math.MinInt64 in the other direction, which has no negative: both directions are measured.
func within(d, bound time.Duration) bool { return bound == sink.AnyTime || d <= bound }

// timeMargin is the assumed longest time of a batch on its way: a timestamp nearer to a bound may be beyond it on
// arrival.
const timeMargin = time.Minute

func nearer(bound time.Duration) time.Duration {
	if bound == sink.AnyTime {
		return bound
	}
	return bound - min(bound/10, timeMargin)
}

// learn remembers a topic's refusal. A topic that refuses what it should take, or does not tell its bounds, gets only
// the present time. It returns false if the topic refuses that too.
func (b *timeBounds) learn(refused *sink.TimestampError) bool {
	bound := timeBound{topic: refused.Topic, before: -1, after: -1}
	if refused.Known {
		bound.before, bound.after = nearer(refused.Before), nearer(refused.After)
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
