package start

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Known is what is left of a group: its committed offsets and its start markers.
type Known struct {
	Topic     source.Topic
	Committed map[source.Partition]source.Position
	Markers   map[source.Partition]Start
	Others    map[source.Partition]bool // what is committed of these is another learner's, see Positions.Models
}

// Known reads everything and refuses nothing.
func (p *Positions) Known(ctx context.Context) (k Known, err error) {
	if k.Topic, err = p.Places.Topic(ctx, p.Topic); err != nil {
		return k, err
	}
	if k.Committed, err = p.Places.Committed(ctx, p.Group, k.Topic.Partitions); err != nil {
		return k, err
	}
	seen, err := p.Starts.Read(ctx)
	if err != nil {
		return k, err
	}
	k.Markers, k.Others = make(map[source.Partition]Start), make(map[source.Partition]bool)
	for _, part := range k.Topic.Partitions {
		if m, ok := seen[p.markerKey(part)]; ok {
			k.Markers[part] = m
		}
		if !p.Ours(k.Committed[part]) {
			k.Others[part] = true
		}
	}
	return k, nil
}

// Take takes what is known of a partition from where its markers are.
func (k *Known) Take(from *Known, part source.Partition) {
	delete(k.Others, part)
	if from.Others[part] {
		k.Others[part] = true
	}
	if m, ok := from.Markers[part]; ok {
		k.Markers[part] = m
	}
}

// Stand is where a partition goes on as things are; −1: it has not begun in this topic.
type Stand struct {
	Next int64
	Why  string // why not at the committed offset; "": it does, has not begun, or stops because the offset is lost
}

// Stands returns where partitions go on as things are: at their committed offset, unless that is not the one that counts (goOn), or at their start marker.
// It changes and says nothing.
func (p *Positions) Stands(ctx context.Context, parts []source.Partition) (map[source.Partition]Stand, error) {
	at := make(map[source.Partition]Stand, len(parts))
	for _, part := range parts {
		var err error
		if at[part], err = p.stands(ctx, part); err != nil {
			return nil, err
		}
	}
	return at, nil
}

func (p *Positions) stands(ctx context.Context, part source.Partition) (at Stand, err error) {
	q := &Positions{Places: p.Places, Starts: p.Starts, Group: p.Group, Topic: p.Topic, Models: p.Models, Written: p.Written, Log: slog.New(slog.DiscardHandler)}
	f, err := q.find(ctx, []source.Partition{part})
	committed, found := f.committed[part]
	_, newer := source.ParseNote(committed.Metadata)
	switch {
	case found && newer != nil: // of a newer program, which may stand elsewhere
		return Stand{Next: committed.Next}, nil
	case found && errors.As(err, new(*reject.Stop)): // of a topic that is gone, or a learner's: what a reset is for
		return Stand{Next: -1}, nil
	case err != nil:
		return at, err
	case committed.Next >= 0 && q.Ours(committed):
		at.Next, at.Why, err = q.goOn(ctx, part, committed.Next, f.topic.ID)
		return at, err
	}
	seen, err := q.Starts.Read(ctx)
	m, begun := seen[q.markerKey(part)]
	if !begun || differ(m.TopicID, f.topic.ID) {
		return Stand{Next: -1}, err
	}
	at.Next = m.Offset
	switch {
	case committed.Next >= 0:
		at.Why = whyOthers
	case q.Models != "":
		at.Why = whyGone
	case q.Written != nil && m.Since != nil: // see gone
		none, err := q.Written.nothing(ctx, part, m.Since)
		if none {
			at.Why = whyGone
		}
		return at, err
	}
	return at, err
}

// resetTries is how often a reset commits offsets that a broker does not keep. One drops those of a transaction when the completion of the one before
// is late (KAFKA-17507), which is over by the next.
const resetTries = 5

// Reset commits offsets that an operator has chosen, in one transaction with msgs, regardless of the present ones, and sees to it that they stay.
// The topic's present id is committed with them, and where the outputs of a transform end by now: the transactions after this one may be complete before the
// broker has completed the one before it, and lose their offsets to that. Then the reset's is shown, with what was written after it.
func (p *Positions) Reset(ctx context.Context, k checkpoint.Putter, to source.Offsets, msgs []sink.Message) error {
	topic, err := p.Places.Topic(ctx, p.Topic)
	if err != nil {
		return err
	}
	if err := p.same(topic.ID); err != nil {
		return err
	}
	seen, err := p.Starts.Read(ctx)
	if err != nil {
		return err
	}
	first, begun, err := p.begun(ctx, seen, topic)
	if err != nil {
		return err
	}
	if p.Model != "" || !begun || first.Version == 0 || differ(first.TopicID, topic.ID) {
		at, err := p.unmoved(ctx, topic, first, begun)
		if err != nil {
			return err
		}
		maps.Copy(at, to)
		msgs = append(msgs, p.firstMessage(topic.ID, at, true))
	}
	parts := to.Partitions()
	for _, part := range parts {
		if p.Written == nil {
			break
		}
		since, err := p.Written.since(ctx, part, nil)
		if err != nil {
			return err
		}
		p.since.Store(part, since)
		if err := p.beginOutputs(ctx, part, to[part]); err != nil {
			return err
		}
	}
	msgs = append(msgs, p.Markers(to)...)
	for range resetTries {
		if err := k.Put(ctx, msgs, source.Claim{Group: p.Group, Generation: -1, Next: to, Metadata: p.Metadata(parts)}); err != nil {
			return err
		}
		now, err := p.Places.Committed(ctx, p.Group, parts)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(parts, func(part source.Partition) bool { return now[part].Next != to[part] }) {
			return nil
		}
	}
	return fmt.Errorf("group %q: the offsets were committed %d times, and the broker shows others (KAFKA-17507): try again when it is less busy", p.Group, resetTries)
}

// unmoved returns where partitions begin that a reset does not name, and that have not begun: where the first record says, and without one at their first
// record. The reset of a group that has not begun is its first start. One that has written has begun, although nothing says so any more.
func (p *Positions) unmoved(ctx context.Context, topic source.Topic, first Start, begun bool) (source.Offsets, error) {
	start := source.Earliest
	if !begun {
		written, err := p.hasWritten(ctx, topic)
		if err != nil {
			return nil, err
		}
		if !written {
			start = p.Start
		}
	}
	at, err := p.Places.Offsets(ctx, topic.Partitions, start)
	if err != nil || differ(first.TopicID, topic.ID) {
		return at, err
	}
	for part := range at {
		if from, known := first.of(part); known {
			at[part] = from
		}
	}
	return at, nil
}

// Beginning returns where partitions begin that a reset does not name; nil where the group has begun, so that they stay as they are.
func (p *Positions) Beginning(ctx context.Context) (source.Offsets, error) {
	topic, err := p.Places.Topic(ctx, p.Topic)
	if err != nil {
		return nil, err
	}
	seen, err := p.Starts.Read(ctx)
	if err != nil {
		return nil, err
	}
	first, begun, err := p.begun(ctx, seen, topic)
	if begun || err != nil {
		return nil, err
	}
	return p.unmoved(ctx, topic, first, begun)
}

// hasWritten reports whether the group has written anything.
func (p *Positions) hasWritten(ctx context.Context, topic source.Topic) (bool, error) {
	if p.Written == nil {
		return false, nil
	}
	for _, part := range topic.Partitions {
		if next, err := p.Written.next(ctx, part, nil); next > 0 || err != nil {
			return next > 0, err
		}
	}
	return false, nil
}
