package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Places answers questions about positions in partitions.
type Places interface {
	// Committed returns what a group has committed, with Next -1 for partitions without an offset.
	Committed(ctx context.Context, group string, parts []source.Partition) (map[source.Partition]source.Position, error)
	// Offsets returns the offset of a place in each partition.
	Offsets(ctx context.Context, parts []source.Partition, at source.At) (source.Offsets, error)
	// Topic returns the topic of that name as it is now.
	Topic(ctx context.Context, name string) (source.Topic, error)
}

// Positions decides where the partitions of a topic are read from, and commits that before anything is read. So a
// start_offset of latest is resolved only once. A marker on the checkpoint topic, written with the first position,
// records that there was one (Starts): an offset that is missing later is recognised as lost. The topic's id is
// committed with each offset, because in a topic that was deleted and created again under its name an offset means
// something else. Methods may be called from any goroutine.
type Positions struct {
	Places Places
	Starts *Starts
	Group  string
	Topic  string
	Start  source.At // where a group begins at its first start; partitions that are found later begin at their first record
	Model  string    // model of the learner; "" for a transform, and for a learner of models by key
	Models string    // models of a learner by key, see positionskeyed.go
	Home   *Starts   // with a model for each key: of the first partition, where groups begin; nil: Starts say so
	Log    *slog.Logger
	// Written, unless nil, corrects committed offsets that are older than what is written.
	Written *Written

	id    atomic.Pointer[string] // id of the topic as first seen, which everything that is read and committed belongs to
	last  sync.Map               // source.Partition → source.Position, as last found
	since sync.Map               // source.Partition → source.Since, from which on topics that we write to count
	wrote sync.Map               // source.Partition → source.Outputs: how far is written
}

// known is what is known about a topic before a decision.
type known struct {
	topic     source.Topic
	committed map[source.Partition]source.Position
}

// Open returns where a transform reads partitions from: the committed offset, or where the group begins. It retries
// until that is committed through k, together with the marker, or until ctx ends.
func (p *Positions) Open(ctx context.Context, k Putter, claim source.Claim, parts []source.Partition) (source.Offsets, error) {
	return p.settle(ctx, k, claim, parts, p.committed)
}

// Resume does the same for a learner, whose position is in its checkpoint: saved, nil without one. Without one it
// begins where its model first began, so that a restart before the first checkpoint skips nothing. A partition that
// the checkpoint does not know was found later.
func (p *Positions) Resume(ctx context.Context, k Putter, claim source.Claim, parts []source.Partition, saved source.Offsets) (source.Offsets, error) {
	return p.settle(ctx, k, claim, parts, func(ctx context.Context, f known, parts []source.Partition) (source.Offsets, []sink.Message, error) {
		return p.learnt(ctx, f, parts, saved)
	})
}

// settle asks, decides and commits.
func (p *Positions) settle(ctx context.Context, k Putter, claim source.Claim, parts []source.Partition,
	decide func(context.Context, known, []source.Partition) (source.Offsets, []sink.Message, error),
) (source.Offsets, error) {
	looked := false
	for wait := firstRetry; ; wait = longer(wait) {
		f, err := p.find(ctx, parts)
		if err != nil {
			return nil, err
		}
		next, msgs, err := decide(ctx, f, parts)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !looked {
			p.foreign(ctx, f, parts)
			looked = true
		}
		stale := p.stale(f, next, parts)
		if len(msgs) == 0 && len(stale) == 0 {
			return next, nil
		}
		for _, part := range stale {
			msgs = append(msgs, p.startMarker(part, f.topic.ID, next[part]))
		}
		claim.Next, claim.Metadata, claim.Epochs = next, p.Metadata(parts), p.Epochs(next)
		if err = k.Put(ctx, msgs, claim); err == nil {
			return next, nil
		}
		if final(err) {
			return nil, err
		}
		p.Log.Warn("the position is not committed yet", "group", p.Group, "error", err, "retry_in", wait)
		if !sleep(ctx, wait) { // ask again, because it is not known whether it was committed
			return nil, ctx.Err()
		}
	}
}

// find reads what is known, and refuses a topic that is not the one that the group has read.
func (p *Positions) find(ctx context.Context, parts []source.Partition) (f known, err error) {
	if f.topic, err = p.Places.Topic(ctx, p.Topic); errors.Is(err, source.ErrNoTopic) {
		return f, &Stop{Err: err}
	}
	if err != nil {
		return f, err
	}
	if err = p.same(f.topic.ID); err != nil {
		return f, err
	}
	if f.committed, err = p.Places.Committed(ctx, p.Group, parts); err != nil {
		return f, err
	}
	for _, part := range parts {
		p.last.Store(part, f.committed[part])
		note, err := source.ParseNote(f.committed[part].Metadata)
		if err != nil {
			return f, &Stop{Err: fmt.Errorf("group %q, %s: %w", p.Group, part, err), Remedy: "use that one, or set the offsets with `lca-stream offsets reset`"}
		}
		if p.transforms() && note.Model+note.Models != "" {
			return f, p.learners(note, part, f.committed[part].Next)
		}
		if p.Ours(f.committed[part]) && differ(note.TopicID, f.topic.ID) {
			return f, p.recreated(note.TopicID, f.topic.ID, fmt.Sprintf("offset %d of partition %d", f.committed[part].Next, part.ID))
		}
		if p.Written == nil {
			continue
		}
		since, err := p.Written.since(ctx, part, note.Since)
		if err != nil {
			return f, err
		}
		p.since.Store(part, since)
		p.wrote.Delete(part)
		if note.Outputs != nil {
			p.wrote.Store(part, *note.Outputs)
		}
	}
	return f, nil
}

// stale returns the partitions whose committed text differs from what this program commits, or a transform's that are
// read from another offset than the committed one.
func (p *Positions) stale(f known, next source.Offsets, parts []source.Partition) (stale []source.Partition) {
	for _, part := range parts {
		c := f.committed[part]
		if c.Next < 0 || c.Metadata != p.text(f.topic.ID, part) || p.Model == "" && c.Next != next[part] {
			stale = append(stale, part)
		}
	}
	return stale
}

// text is what is committed with an offset of a partition.
func (p *Positions) text(id string, part source.Partition) string {
	if wrote, known := p.outputs(part); known {
		return p.noteOf(id, part, &wrote)
	}
	return p.noteOf(id, part, nil)
}

// noteOf is text where a transform has written that far.
func (p *Positions) noteOf(id string, part source.Partition, wrote *source.Outputs) string {
	note := source.NewNote(id, p.Model)
	note.Models, note.Since, note.Outputs = p.Models, p.counts(part), wrote
	return note.String()
}

// counts returns from which offset on the topics that we write to count; nil: they do not.
func (p *Positions) counts(part source.Partition) source.Since {
	since, _ := p.since.Load(part)
	counts, _ := since.(source.Since)
	return counts
}

// committed decides for a transform, and for a learner of models by key.
func (p *Positions) committed(ctx context.Context, f known, parts []source.Partition) (source.Offsets, []sink.Message, error) {
	next := make(source.Offsets, len(parts))
	var missing []source.Partition
	for _, part := range parts {
		if next[part] = f.committed[part].Next; next[part] < 0 || !p.Ours(f.committed[part]) {
			next[part], missing = -1, append(missing, part)
			continue
		}
		var err error
		if next[part], err = p.goOn(ctx, part, next[part], f.topic.ID); err != nil {
			return nil, nil, err
		}
	}
	if len(missing) == 0 {
		return next, nil, nil
	}
	seen, err := p.Starts.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, part := range missing {
		if next[part], err = p.goesOn(ctx, part, seen, f); err != nil {
			return nil, nil, err
		}
	}
	begin, msgs, err := p.begin(ctx, seen, f.topic)
	if err != nil {
		return nil, nil, err
	}
	for _, part := range missing {
		if next[part] < 0 {
			next[part] = begin[part]
			p.sayFirst(part, begin[part], f.committed[part].Next)
		}
		if err = p.beginOutputs(ctx, part, next[part]); err != nil {
			return nil, nil, err
		}
	}
	return next, msgs, nil
}

// goesOn returns where a partition goes on that has no committed offset, or another learner's; -1: it has not begun.
func (p *Positions) goesOn(ctx context.Context, part source.Partition, seen map[string]Start, f known) (int64, error) {
	m, begun := seen[p.markerKey(part)]
	committed := f.committed[part]
	switch {
	case committed.Next >= 0 && begun:
		return p.returns(part, m, f)
	case begun:
		return p.gone(ctx, part, m, f.topic.ID)
	case committed.Next >= 0:
		return -1, nil
	}
	return -1, p.Unwritten(ctx, part)
}

// learnt decides for a learner.
func (p *Positions) learnt(ctx context.Context, f known, parts []source.Partition, saved source.Offsets) (source.Offsets, []sink.Message, error) {
	var missing []source.Partition // partitions whose committed offset no longer tells the topic's id
	for _, part := range parts {
		if _, ok := saved[part]; ok && f.committed[part].Next < 0 {
			missing = append(missing, part)
		}
	}
	var seen map[string]Start
	if saved == nil || len(missing) > 0 {
		var err error
		if seen, err = p.Starts.Read(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, part := range missing {
		if m := seen[p.markerKey(part)]; differ(m.TopicID, f.topic.ID) {
			return nil, nil, p.recreated(m.TopicID, f.topic.ID, fmt.Sprintf("a checkpoint at offset %d of partition %d", saved[part], part.ID))
		}
	}
	begin, msgs := source.Offsets(nil), []sink.Message(nil)
	var err error
	if saved == nil {
		begin, msgs, err = p.begin(ctx, seen, f.topic)
	} else {
		begin, err = p.Places.Offsets(ctx, parts, source.Earliest)
	}
	next := make(source.Offsets, len(parts))
	for _, part := range parts {
		next[part] = begin[part]
		if at, ok := saved[part]; ok {
			next[part] = at
		}
	}
	return next, msgs, err
}

// begin returns where each partition of the topic begins, and the record that stores it if there is none yet. The
// first start resolves it for all partitions. A partition that is not among them was found later and begins at its
// first record, so that nothing written since the first start is skipped.
//
// Partitions, and processes, begin independently of each other, and the first that has written the record is the group's beginning. Where they begin is
// asked for before the record is looked for: who finds none has asked before it was written, so that nothing that comes after it is skipped.
func (p *Positions) begin(ctx context.Context, seen map[string]Start, topic source.Topic) (source.Offsets, []sink.Message, error) {
	earliest, err := p.Places.Offsets(ctx, topic.Partitions, source.Earliest)
	if err != nil {
		return nil, nil, err
	}
	at := earliest
	if p.Start != source.Earliest {
		if at, err = p.Places.Offsets(ctx, topic.Partitions, p.Start); err != nil {
			return nil, nil, err
		}
		if p.Home == nil { // else first reads them
			if seen, err = p.Starts.Read(ctx); err != nil {
				return nil, nil, err
			}
		}
	}
	first, begun, err := p.begun(ctx, seen, topic)
	if err != nil {
		return nil, nil, err
	}
	if begun && differ(first.TopicID, topic.ID) {
		if p.Model == "" {
			return nil, nil, p.recreated(first.TopicID, topic.ID, "start markers")
		}
		begun = false // a learner without a checkpoint has nothing to lose
	}
	switch {
	case begun && p.Start == source.Earliest && !first.Chosen:
		return earliest, nil, nil
	case begun:
		for part, start := range earliest {
			at, ok := first.of(part)
			switch {
			case !ok:
			case p.Model == "":
				earliest[part] = at // what retention has deleted of it is a gap
			default:
				earliest[part] = max(at, start) // nothing is learnt yet, so nothing is missing
			}
		}
		return earliest, nil, nil
	}
	return at, []sink.Message{p.firstMessage(topic.ID, at, false)}, nil
}

// Metadata returns what is committed with the offsets, once Open or Resume has seen the topic.
func (p *Positions) Metadata(parts []source.Partition) map[source.Partition]string {
	id := p.id.Load()
	if id == nil {
		return nil
	}
	all := make(map[source.Partition]string, len(parts))
	for _, part := range parts {
		all[part] = p.text(*id, part)
	}
	return all
}

// TopicIDs returns the id of the topic that the positions belong to, once Open or Resume has seen it.
func (p *Positions) TopicIDs() map[string]string {
	id := p.id.Load()
	if id == nil {
		return nil
	}
	return map[string]string{p.Topic: *id}
}

// Epochs returns the leader epochs of offsets, as far as they were committed with them.
func (p *Positions) Epochs(at source.Offsets) source.Epochs {
	epochs := make(source.Epochs, len(at))
	for part, next := range at {
		if c, ok := p.last.Load(part); ok && c.(source.Position).Next == next && c.(source.Position).Epoch >= 0 {
			epochs[part] = c.(source.Position).Epoch
		}
	}
	return epochs
}

// Markers returns the start markers of offsets that are committed again.
func (p *Positions) Markers(at source.Offsets) (msgs []sink.Message) {
	id := p.id.Load()
	if id == nil {
		return nil
	}
	for _, part := range at.Partitions() {
		msgs = append(msgs, p.startMarker(part, *id, at[part]))
	}
	return msgs
}
