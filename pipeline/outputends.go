package pipeline

import (
	"context"
	"maps"
	"slices"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// A committed offset alone is not believed. Coordinators of Kafka before 3.9.1 complete the offsets of a transaction after its end, by the id of its
// producer alone (KAFKA-17507). Where the next transaction has sent its offsets by then, the late completion takes these:
//
//   - after a commit they are shown as committed, although their transaction may be aborted yet: too new,
//   - after an abort they are dropped, although their transaction may be committed: too old.
//
// So a transform notes with each offset up to which input it has written (source.Outputs), and who goes on compares that with the end of the topics. Where
// they end before what is noted, the offset is that of an aborted transaction. Outputs are in the order of the input, so nothing is lost or comes twice
// where reading goes on after the last of them: input between the two that made no output makes none again.

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
		p.sayOlder(part, committed, written)
		next := max(committed, written)
		return next, p.beginOutputs(ctx, part, next)
	}
	end, sure, err := p.Written.end(ctx, part, &wrote)
	if err != nil {
		return 0, err
	}
	switch log := p.Log.With("group", p.Group, "partition", part.String(), "committed", committed, "offset", end); {
	case end >= wrote.Written:
		p.sayOlder(part, committed, end)
	case sure:
		log.Warn("the committed offset is that of an aborted transaction: going on where the outputs end. Brokers before Kafka 3.9.1 may show it (KAFKA-17507)",
			"written", wrote.Written)
		committed = end
	default:
		log.Warn("it is not certain that the committed offset belongs to a committed transaction, because the outputs that it names are gone, or the topics are others: going on at it",
			"written", wrote.Written)
		return max(committed, end), p.beginOutputs(ctx, part, max(committed, end))
	}
	wrote.Written = end
	p.wrote.Store(part, wrote)
	return max(committed, end), p.nameEnds(ctx, part)
}

// sayOlder says that more is written than is committed.
func (p *Positions) sayOlder(part source.Partition, committed, written int64) {
	if written > committed {
		p.Log.Warn("the committed offset is older than what is written: going on after that. Brokers before Kafka 4.0 forget the offsets of a transaction when a late request of its former owner arrives",
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
	p.Log.Warn("the committed offset is not that of the last committed transaction: the models go on at its start marker. Brokers before Kafka 3.9.1 may show another (KAFKA-17507)",
		"group", p.Group, "partition", part.String(), "committed", committed, "offset", m.Offset)
	return m.Offset, nil
}

// outputs returns what is known of the outputs of a partition; false: nothing.
func (p *Positions) outputs(part source.Partition) (wrote source.Outputs, known bool) {
	all, _ := p.wrote.Load(part)
	wrote, known = all.(source.Outputs)
	return wrote, known
}

// beginOutputs notes that what is made of the input from an offset on will be written after the present ends of the topics.
func (p *Positions) beginOutputs(ctx context.Context, part source.Partition, next int64) error {
	if p.Written == nil {
		return nil
	}
	p.wrote.Store(part, source.Outputs{Written: next, From: next})
	return p.nameEnds(ctx, part)
}

// nameEnds notes the present ends of topics that have none noted yet, and forgets those that are not written to any more.
func (p *Positions) nameEnds(ctx context.Context, part source.Partition) error {
	wrote, _ := p.outputs(part)
	ends := make(map[string]source.End, len(p.Written.Topics))
	for _, topic := range p.Written.Topics {
		if end, ok := wrote.Ends[topic]; ok {
			ends[topic] = end
			continue
		}
		back := p.Written.At(topic, part)
		id, err := back.topicID(ctx)
		if err != nil {
			return err
		}
		at, err := back.End(ctx)
		if err != nil {
			return err
		}
		ends[topic] = source.End{TopicID: id, Offset: at}
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

// claim returns the claim of a transaction with the note that belongs to it, and what notes that it is committed.
func (o *Outputs) claim(c source.Claim, msgs []sink.Message) (claim source.Claim, kept func()) {
	p := o.Positions
	wrote, known := p.outputs(o.Partition)
	id := p.id.Load()
	if !known || id == nil {
		return c, func() {}
	}
	for i := range slices.Backward(msgs) { // they are in the order of the input
		if m := &msgs[i]; slices.Contains(p.Written.Topics, m.Topic) {
			wrote.Written = max(wrote.Written, p.Written.after(m.Headers, o.Partition))
			break
		}
	}
	c.Metadata = map[source.Partition]string{o.Partition: p.noteOf(*id, o.Partition, &wrote)}
	return c, func() { p.wrote.Store(o.Partition, wrote) }
}

// look notes where the topics end by now, between two transactions. So a take-over reads back little, and retention has not deleted all that it looks for.
func (o *Outputs) look(ctx context.Context) {
	p := o.Positions
	before, known := p.outputs(o.Partition)
	if !known {
		return
	}
	if err := p.beginOutputs(ctx, o.Partition, before.Written); err != nil {
		p.wrote.Store(o.Partition, before)
		p.Log.Debug("where the outputs end is not known; what was known stays", "partition", o.Partition.String(), "error", err)
	}
}

// end returns the offset after the last input that something is written of, where it is at least what was noted, and looks no farther then. Otherwise sure
// says that it is the last one: nothing after it was deleted, and the topics are those that were written to.
func (w *Written) end(ctx context.Context, of source.Partition, noted *source.Outputs) (end int64, sure bool, err error) {
	end = noted.From
	for _, topic := range w.Topics {
		n, err := w.last(ctx, w.At(topic, of), of, noted.Ends[topic].Offset)
		if err != nil {
			return 0, false, wrapEnd(topic, err)
		}
		end = max(end, n)
	}
	if end >= noted.Written {
		return end, true, nil
	}
	sure = true
	for _, topic := range slices.Sorted(maps.Keys(noted.Ends)) {
		if !slices.Contains(w.Topics, topic) { // it was written to, and is no longer
			sure = false
			continue
		}
		n, all, err := w.search(ctx, topic, of, noted.Ends[topic])
		if err != nil {
			return 0, false, wrapEnd(topic, err)
		}
		end, sure = max(end, n), sure && all
	}
	return end, sure || end >= noted.Written, nil
}

// search looks for the last record of ours since the topic's noted end, however far back it is; sure: nothing after it is gone.
func (w *Written) search(ctx context.Context, topic string, of source.Partition, noted source.End) (next int64, sure bool, err error) {
	back := w.At(topic, of)
	id, err := back.topicID(ctx)
	if err != nil || differ(noted.TopicID, id) {
		return 0, false, err
	}
	end, err := back.ReadNewest(ctx, noted.Offset, func(r *source.Record) bool {
		n := w.after(r.Headers, of)
		next = max(next, n)
		return n > 0
	})
	if err != nil || next > 0 {
		return next, err == nil, err
	}
	begin, err := back.Begin(ctx)
	return 0, err == nil && begin <= noted.Offset && noted.Offset <= end, err
}
