package pipeline

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Firsts are where groups begin, with a model for each key. The start markers of a partition are then in the same partition of the checkpoint topic.
// Where every partition begins must be the same for all of them, so it is in the first one, as the claim to the models is.
//
// Former builds wrote it to each partition, when that was first read. A partition that was added later, or taken later, did not know that the group had
// begun: "latest" was resolved again there, and what was written until then was left out. What they wrote is read where the common record is missing.
// Methods may be called from any goroutine.
type Firsts struct {
	Home   *Starts                                  // of the first partition
	Others func(context.Context) ([]*Starts, error) // of the other partitions

	once   sync.Once
	turn   chan struct{}
	looked bool               // at Others. Once is enough: what is written now is in Home
	former []map[string]Start // of Others
	saved  bool               // one of Others has checkpoints of the models
}

// everywhere returns the markers of all partitions, those of the first being home, and whether any has checkpoints of the models.
func (f *Firsts) everywhere(ctx context.Context, home map[string]Start) (all []map[string]Start, saved bool, err error) {
	f.once.Do(func() { f.turn = make(chan struct{}, 1) })
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	if !f.looked {
		if err := f.look(ctx); err != nil {
			return nil, false, err
		}
	}
	return append([]map[string]Start{home}, f.former...), f.saved || f.Home.Saved(), nil
}

func (f *Firsts) look(ctx context.Context) error {
	others, err := f.Others(ctx)
	if err != nil {
		return err
	}
	f.former = nil
	for _, s := range others {
		seen, err := s.Read(ctx)
		if err != nil {
			return err
		}
		f.former, f.saved = append(f.former, seen), f.saved || s.Saved()
	}
	f.looked = true
	return nil
}

// first returns where the partitions of the group begin, false if it has not begun anywhere, and the record of that if it is still to be written.
// seen are the markers of Starts.
func (p *Positions) first(ctx context.Context, seen map[string]Start, id string) (first Start, begun bool, msgs []sink.Message, err error) {
	if p.Firsts == nil {
		first, begun = seen[p.firstKey()]
		// A group of the first release has left no record: all its partitions begin at their first record.
		return first, begun || p.transforms() && others(seen, markersOf(p.Group, p.Topic)), nil, nil
	}
	home, err := p.Firsts.Home.Read(ctx)
	if err != nil {
		return first, false, nil, err
	}
	if first, begun = home[p.firstKey()]; begun && first.All {
		return first, true, nil, nil
	}
	all, saved, err := p.Firsts.everywhere(ctx, home)
	if err != nil {
		return first, false, nil, err
	}
	if first, begun = mergedFirst(all, p.beginnings(saved), id); !begun {
		return first, false, nil, nil
	}
	first.Version, first.All = startVersion, true
	return first, true, []sink.Message{p.Firsts.Home.message(p.firstKey(), first)}, nil
}

// begun is first, where a group has also begun that has committed anywhere. It has done so together with the record, so that is looked for again.
func (p *Positions) begun(ctx context.Context, seen map[string]Start, topic source.Topic) (first Start, begun bool, msgs []sink.Message, err error) {
	first, begun, msgs, err = p.first(ctx, seen, topic.ID)
	if begun || err != nil {
		return first, begun, msgs, err
	}
	if begun, err = p.elsewhere(ctx, seen, topic); !begun || err != nil {
		return first, false, nil, err
	}
	if seen, err = p.Starts.Read(ctx); err != nil {
		return first, false, nil, err
	}
	first, _, msgs, err = p.first(ctx, seen, topic.ID)
	return first, true, msgs, err
}

// firstMessage returns the record that says where every partition begins, and whether an operator has said so.
func (p *Positions) firstMessage(id string, at source.Offsets, chosen bool) sink.Message {
	if p.Firsts == nil {
		return p.Starts.first(p.firstKey(), id, at, chosen, false)
	}
	return p.Firsts.Home.first(p.firstKey(), id, at, chosen, true)
}

// beginning is how a group has noted that it has begun.
type beginning struct{ first, markers string }

// beginnings are all ways in which the group of these positions may have done so; saved: there are checkpoints of the models.
func (p *Positions) beginnings(saved bool) []beginning {
	all := []beginning{{p.firstKey(), markersOf(p.Group, p.Topic)}}
	if p.Models != "" {
		all[0].markers = p.models() + "/"
		if saved {
			all = append(all, beginning{firstKey(p.Group, p.Topic, ""), markersOf(p.Group, p.Topic)})
		}
	}
	return all
}

// mergedFirst returns what several partitions say of where a group begins: the earliest of it, and of partitions that one of them does not know, nothing.
// They begin at their first record, as all do where there are only markers. What is said of another topic of the name counts if nothing else is said.
func mergedFirst(all []map[string]Start, ways []beginning, id string) (first Start, begun bool) {
	var former Start
	marked, recreated := false, false
	for _, seen := range all {
		for _, way := range ways {
			marked = marked || others(seen, way.markers)
			one, ok := seen[way.first]
			switch {
			case !ok:
			case differ(one.TopicID, id):
				former, recreated = one, true
			case !begun:
				first, begun = one, true
				first.Offsets = maps.Clone(one.Offsets)
			default:
				first.Chosen = first.Chosen || one.Chosen
				earlier(first.Offsets, one.Offsets)
			}
		}
	}
	switch {
	case begun:
		return first, true
	case recreated:
		return former, true
	}
	return Start{TopicID: id}, marked
}

// earlier leaves in one what both have, and of that the smaller.
func earlier(one, other map[string]int64) {
	for part, at := range one {
		if theirs, known := other[part]; known {
			one[part] = min(at, theirs)
		} else {
			delete(one, part)
		}
	}
}

// elsewhere reports whether the group has committed in any partition of the topic. It has begun then, although no marker says so: the checkpoint topic
// is a new one.
func (p *Positions) elsewhere(ctx context.Context, seen map[string]Start, topic source.Topic) (bool, error) {
	if p.Model != "" {
		return false, nil
	}
	found, err := p.Places.Committed(ctx, p.Group, topic.Partitions)
	if err != nil {
		return false, err
	}
	heir, err := p.heir(ctx, seen, found)
	for _, c := range found {
		if c.Next >= 0 && p.ours(c, heir) {
			return true, err
		}
	}
	return false, err
}

// markersOf is how the keys of a group's markers of the partitions of a topic begin.
func markersOf(group, topic string) string { return fmt.Sprintf("start/%s/%s/", group, topic) }
