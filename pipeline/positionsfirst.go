package pipeline

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// first returns where the partitions of the group begin, and false if it has not begun anywhere. seen are the markers of Starts.
//
// With a model for each key the start markers of a partition are in the same partition of the checkpoint topic. Where every partition begins must be the
// same for all of them, so it is in the first one, as the claim to the models is: a partition that is taken later begins where the group did, and one that
// was added later at its first record.
func (p *Positions) first(ctx context.Context, seen map[string]Start) (first Start, begun bool, err error) {
	if p.Home != nil {
		home, err := p.Home.Read(ctx)
		first, begun = home[p.firstKey()]
		return first, begun, err
	}
	first, begun = seen[p.firstKey()]
	// A group of the first release has left no record: all its partitions begin at their first record.
	return first, begun || p.transforms() && others(seen, markersOf(p.Group, p.Topic)), nil
}

// begun is first, where a group has also begun that has committed anywhere. It has done so together with the record, so that is looked for again.
func (p *Positions) begun(ctx context.Context, seen map[string]Start, topic source.Topic) (first Start, begun bool, err error) {
	if first, begun, err = p.first(ctx, seen); begun || err != nil {
		return first, begun, err
	}
	if begun, err = p.elsewhere(ctx, topic); !begun || err != nil {
		return first, false, err
	}
	if seen, err = p.Starts.Read(ctx); err != nil {
		return first, false, err
	}
	first, _, err = p.first(ctx, seen)
	return first, true, err
}

// firstMessage returns the record that says where every partition begins, and whether an operator has said so.
func (p *Positions) firstMessage(id string, at source.Offsets, chosen bool) sink.Message {
	if p.Home == nil {
		return p.Starts.first(p.firstKey(), id, at, chosen, false)
	}
	return p.Home.first(p.firstKey(), id, at, chosen, true)
}

// elsewhere reports whether the group has committed in any partition of the topic. It has begun then, although no marker says so: the checkpoint topic
// is a new one.
func (p *Positions) elsewhere(ctx context.Context, topic source.Topic) (bool, error) {
	if p.Model != "" {
		return false, nil
	}
	found, err := p.Places.Committed(ctx, p.Group, topic.Partitions)
	for _, c := range found {
		if c.Next >= 0 && p.Ours(c) {
			return true, err
		}
	}
	return false, err
}

// markersOf is how the keys of a group's markers of the partitions of a topic begin.
func markersOf(group, topic string) string { return fmt.Sprintf("start/%s/%s/", group, topic) }
