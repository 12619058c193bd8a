package start

import (
	"context"
	"maps"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
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

// Reset commits offsets that an operator has chosen, in one transaction with msgs, regardless of the present ones.
// The topic's present id is committed with them.
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
	msgs = append(msgs, p.Markers(to)...)
	parts := to.Partitions()
	return k.Put(ctx, msgs, source.Claim{Group: p.Group, Generation: -1, Next: to, Metadata: p.Metadata(parts)})
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
