package pipeline

import (
	"context"
	"maps"
	"slices"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// A committed offset alone is not believed. Coordinators of Kafka before 3.9.1 complete the offsets of a transaction after its end, by the id of its
// producer alone (KAFKA-17507). Where the next transaction has sent its offsets by then, the late completion takes these:
//
//   - after a commit they are shown as committed, although their transaction may be aborted yet: too new,
//   - after an abort they are dropped, although their transaction may be committed: too old.
//
// So a transform notes with each offset where its topics ended before the transaction, and what this has written (source.Outputs). A transaction is
// visible whole or not at all: where what it has written is not in a topic, the offset is that of an aborted one, and reading goes on where the
// transaction before it ended.

// goOn returns where a partition goes on that has a committed offset.
func (p *Positions) goOn(ctx context.Context, part source.Partition, committed int64, id string) (int64, error) {
	if p.Models != "" {
		return p.atMarker(ctx, part, committed, id)
	}
	if p.Written == nil {
		return committed, nil
	}
	wrote, noted := p.outputs(part)
	if !noted { // of an earlier release, or set by hand
		written, err := p.Written.next(ctx, part, p.counts(part))
		if err != nil {
			return 0, err
		}
		p.sayOlder(ctx, part, committed, written)
		next := max(committed, written)
		return next, p.beginOutputs(ctx, part, next)
	}
	found, err := p.Written.found(ctx, part, &wrote)
	if err != nil {
		return 0, err
	}
	next := max(committed, found.end)
	log := p.Log.With("group", p.Group, "partition", part.String(), "committed", committed)
	switch {
	case found.whole:
		p.sayOlder(ctx, part, committed, found.end)
		return next, p.nameEnds(ctx, part)
	case found.missing:
		next = found.end
		log.WarnContext(logs.Unlimited(ctx), "the committed offset is that of an aborted transaction: going on where the outputs end. Brokers before Kafka 3.9.1 may show it (KAFKA-17507)", "offset", next)
	default:
		log.WarnContext(logs.Unlimited(ctx), "it is not certain that the committed offset belongs to a committed transaction, because what it has written may be deleted, or is in other topics by now: going on at it", "offset", next)
	}
	return next, p.beginOutputs(ctx, part, next)
}

// sayOlder says that more is written than is committed.
func (p *Positions) sayOlder(ctx context.Context, part source.Partition, committed, written int64) {
	if written > committed {
		p.Log.WarnContext(logs.Unlimited(ctx), "the committed offset is older than what is written: going on after that. Brokers before Kafka 4.0 forget the offsets of a transaction when a late request of its former owner arrives",
			"group", p.Group, "partition", part.String(), "committed", committed, "offset", written)
	}
}

// atMarker returns where models by key go on. Each of their transactions carries a start marker with the offset that it commits, and a topic shows what is
// committed alone: so the marker tells which offset was.
func (p *Positions) atMarker(ctx context.Context, part source.Partition, committed int64, id string) (int64, error) {
	m, ok, err := p.Starts.newest(ctx, p.markerKey(part))
	if err != nil || !ok || !m.Exact || m.Offset == committed || differ(m.TopicID, id) {
		return committed, err
	}
	p.Log.WarnContext(logs.Unlimited(ctx), "the committed offset is not that of the last committed transaction: the models go on at its start marker. Brokers before Kafka 3.9.1 may show another (KAFKA-17507)",
		"group", p.Group, "partition", part.String(), "committed", committed, "offset", m.Offset)
	return m.Offset, nil
}

// outputs returns what is known of the outputs of a partition; false: nothing.
func (p *Positions) outputs(part source.Partition) (wrote source.Outputs, known bool) {
	all, _ := p.wrote.Load(part)
	wrote, known = all.(source.Outputs)
	return wrote, known
}

// beginOutputs notes that all input before an offset is done, and that what is made of the rest will be written after the present ends of the topics.
func (p *Positions) beginOutputs(ctx context.Context, part source.Partition, next int64) error {
	if p.Written == nil {
		return nil
	}
	p.wrote.Store(part, source.Outputs{From: next})
	return p.nameEnds(ctx, part)
}

// nameEnds notes the present ends of topics that have none noted yet, or of another partition, and forgets those that are not written to any more.
func (p *Positions) nameEnds(ctx context.Context, part source.Partition) error {
	wrote, _ := p.outputs(part)
	ends := make(map[string]source.End, len(p.Written.Topics))
	for _, topic := range p.Written.Topics {
		place := p.Written.Place(topic, part)
		if end, ok := wrote.Ends[topic]; ok && end.Partition == place {
			ends[topic] = end
			continue
		}
		back := p.Written.Read(topic, place, part)
		id, err := back.topicID(ctx)
		if err != nil {
			return err
		}
		at, err := back.End(ctx)
		if err != nil {
			return err
		}
		ends[topic] = source.End{TopicID: id, Partition: place, Offset: at}
	}
	wrote.Ends = ends
	p.wrote.Store(part, wrote)
	return nil
}

// Outputs keep the note of what a loop has written of its partition.
type Outputs struct {
	Positions *Positions
	Partition source.Partition
}

// claim returns the claim of a transaction with the note that belongs to it, and what is to be done once that is committed. The last messages for each
// topic are asked for their offsets.
func (o *Outputs) claim(c source.Claim, msgs []sink.Message) (claim source.Claim, kept func()) {
	p := o.Positions
	wrote, known := p.outputs(o.Partition)
	id := p.id.Load()
	if !known || id == nil {
		return c, func() {}
	}
	at := make(map[string]*int64, len(wrote.Ends))
	ends := make(map[string]source.End, len(wrote.Ends))
	for topic, end := range wrote.Ends {
		end.Written = 0
		for i := range slices.Backward(msgs) { // they are in the order of the input
			m := &msgs[i]
			if m.Topic != topic {
				continue
			}
			if end.Written = p.Written.after(m.Headers, o.Partition); end.Written > 0 {
				at[topic] = new(int64)
				m.Offset = at[topic]
				break
			}
		}
		ends[topic] = end
	}
	wrote.Ends = ends
	c.Metadata = map[source.Partition]string{o.Partition: p.noteOf(*id, o.Partition, &wrote)}
	next, moves := c.Next[o.Partition]
	return c, func() { p.written(o.Partition, wrote, next, moves, at) }
}

// written notes that a transaction is committed: all input before next is done, and what comes is after what it has written. Where a broker has not told
// where that is, what was noted before still holds.
func (p *Positions) written(part source.Partition, wrote source.Outputs, next int64, moves bool, at map[string]*int64) {
	ends := maps.Clone(wrote.Ends)
	for topic, end := range ends {
		if offset := at[topic]; offset != nil {
			moves = moves && *offset >= 0
			end.Offset = max(end.Offset, *offset+1)
		}
		end.Written = 0
		ends[topic] = end
	}
	if moves {
		p.wrote.Store(part, source.Outputs{From: next, Ends: ends})
	}
}

// look notes where the topics end by now, between two transactions, when all input before next is done: retention may delete what was noted of a topic
// that is seldom written to.
func (o *Outputs) look(ctx context.Context, next source.Offsets) {
	p := o.Positions
	before, known := p.outputs(o.Partition)
	at, done := next[o.Partition]
	if !known || !done {
		return
	}
	if err := p.beginOutputs(ctx, o.Partition, at); err != nil {
		p.wrote.Store(o.Partition, before)
		p.Log.Debug("where the outputs end is not known; what was known stays", "partition", o.Partition.String(), "error", err)
	}
}

// foundOutputs is what the topics tell of a transaction.
type foundOutputs struct {
	end     int64 // all input before it is done
	whole   bool  // it is committed: what it has written is there, or it has written nothing
	missing bool  // it is aborted: what it has written is surely not there
}

// found looks for what is noted of a transaction: where it was written, whatever is written to by now.
func (w *Written) found(ctx context.Context, of source.Partition, noted *source.Outputs) (f foundOutputs, err error) {
	f = foundOutputs{end: noted.From, whole: true}
	topics := slices.Sorted(maps.Keys(noted.Ends))
	for _, topic := range topics {
		f.whole = f.whole && noted.Ends[topic].Written == 0
	}
	for _, topic := range topics { // most often the last record tells
		end := noted.Ends[topic]
		if !slices.Contains(w.Topics, topic) {
			continue
		}
		n, err := w.last(ctx, w.Read(topic, end.Partition, of), of, end.Offset)
		if err != nil {
			return f, wrapEnd(topic, err)
		}
		f.end = max(f.end, n)
		f.whole = f.whole || end.Written > 0 && n >= end.Written
	}
	for _, wrote := range []bool{true, false} { // those first that this transaction has written to
		for _, topic := range topics {
			end := noted.Ends[topic]
			if f.whole || wrote != (end.Written > 0) {
				continue
			}
			n, sure, err := w.search(ctx, topic, of, end)
			switch {
			case err != nil && !slices.Contains(w.Topics, topic): // it is not ours any more, and may be gone
				continue
			case err != nil:
				return f, wrapEnd(topic, err)
			}
			f.end = max(f.end, n)
			f.whole, f.missing = wrote && n >= end.Written, f.missing || wrote && sure && n < end.Written
		}
	}
	return f, nil
}

// search looks through all that was written since the noted end. Others may have written copies of our records behind them. sure: nothing of it is gone.
func (w *Written) search(ctx context.Context, topic string, of source.Partition, noted source.End) (next int64, sure bool, err error) {
	back := w.Read(topic, noted.Partition, of)
	id, err := back.topicID(ctx)
	if err != nil || differ(noted.TopicID, id) {
		return 0, false, err
	}
	end, err := back.ReadNewest(ctx, noted.Offset, func(r *source.Record) bool {
		next = max(next, w.after(r.Headers, of))
		return noted.Written > 0 && next >= noted.Written
	})
	if err != nil {
		return 0, false, err
	}
	begin, err := back.Begin(ctx)
	return next, err == nil && begin <= noted.Offset && noted.Offset <= end, err
}
