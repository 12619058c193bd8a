package start

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Written looks at the end of what a transform has written, because the committed offset may be older than that.
//
// Coordinators of Kafka before 4.0 drop the offsets of a running transaction when a late TxnOffsetCommit of a former
// epoch of its producer arrives: they refuse that request, as they should, but keep what is pending by producer id
// alone. The transaction then commits its records without its offsets, until the next one commits newer ones. A
// process that is stopped at that point, or the next owner, would begin at the old offset and write records twice.
//
// Outputs and dead letters of a partition are in the order of its offsets, so the last of them is enough.
type Written struct {
	Group  string
	Topics []string // outputs, and dead letters if there are any
	// Place is the partition of one of Topics that holds what is made of a partition of the source.
	Place func(topic string, of source.Partition) int32
	// Read reads back a partition of a topic for what was made of a partition of the source.
	Read func(topic string, partition int32, of source.Partition) *checkpoint.ReadBack
}

// At reads back the partition of one of Topics that holds what is made of a partition of the source.
func (w *Written) At(topic string, of source.Partition) *checkpoint.ReadBack {
	return w.Read(topic, w.Place(topic, of), of)
}

// next returns the offset after the last one of a partition that something was written of, where since says from which
// offset on the topics count; 0: nothing was found.
func (w *Written) next(ctx context.Context, of source.Partition, since source.Since) (next int64, err error) {
	for _, topic := range w.Topics {
		n, err := w.last(ctx, w.At(topic, of), of, since[topic])
		if err != nil {
			return 0, wrapEnd(topic, err)
		}
		next = max(next, n)
	}
	return next, nil
}

// nothing reports whether it is certain that nothing was written of a partition since then.
func (w *Written) nothing(ctx context.Context, of source.Partition, since source.Since) (bool, error) {
	for _, topic := range w.Topics {
		from, ok := since[topic]
		if !ok {
			return false, nil
		}
		back := w.At(topic, of)
		begin, err := back.Begin(ctx)
		if err != nil {
			return false, fmt.Errorf("the beginning of topic %s: %w", topic, err)
		}
		end, err := back.End(ctx)
		if err != nil {
			return false, wrapEnd(topic, err)
		}
		if begin > from || end < from || end-from > checkpoint.RecentMost { // deleted, another topic, or more than is read back
			return false, nil
		}
		next := int64(0)
		if err = back.From(ctx, from, end, w.latest(of, &next)); err != nil {
			return false, wrapEnd(topic, err)
		}
		if next > 0 {
			return false, nil
		}
	}
	return true, nil
}

// last reads back to the last record of ours. Other groups may write to the same partition.
func (w *Written) last(ctx context.Context, back *checkpoint.ReadBack, of source.Partition, since int64) (next int64, err error) {
	err = back.ReadRecent(ctx, since, w.latest(of, &next), func() bool { return next > 0 })
	return next, err
}

func wrapEnd(topic string, err error) error { return fmt.Errorf("the end of topic %s: %w", topic, err) }

// latest raises next to the offset after the last one that records were made of.
func (w *Written) latest(of source.Partition, next *int64) func(*source.Fetched) error {
	return func(got *source.Fetched) error {
		for i := range got.Records {
			*next = max(*next, w.after(got.Records[i].Headers, of))
		}
		return nil
	}
}

// after returns the offset after those that a record was made of, or 0 if it is not of our group and the partition.
func (w *Written) after(headers []source.Header, of source.Partition) int64 {
	if source.LastHeader(headers, reject.HeaderGroup) != w.Group || source.LastHeader(headers, reject.HeaderSourceTopic) != of.Topic ||
		source.LastHeader(headers, reject.HeaderSourcePartition) != strconv.Itoa(int(of.ID)) {
		return 0
	}
	last := source.LastHeader(headers, reject.HeaderSourceOffset)
	if batch := source.LastHeader(headers, reject.HeaderSourceLastOffset); batch != "" {
		last = batch
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil {
		return 0
	}
	return n + 1
}

// since completes what a committed offset says: a topic that it does not name counts from its present end on. So
// what was written before a reset says nothing.
func (w *Written) since(ctx context.Context, of source.Partition, noted source.Since) (source.Since, error) {
	all := make(source.Since, len(w.Topics))
	for _, topic := range w.Topics {
		if at, ok := noted[topic]; ok {
			all[topic] = at
			continue
		}
		end, err := w.At(topic, of).End(ctx)
		if err != nil {
			return nil, err
		}
		all[topic] = end
	}
	return all, nil
}

// A committed offset alone is not believed. Coordinators of Kafka before 3.9.1 complete the offsets of a transaction after its end, by the id of its
// producer alone (KAFKA-17507). Where the next transaction has sent its offsets by then, the late completion takes these:
//
//   - after a commit they are shown as committed, although their transaction may be aborted yet: too new,
//   - after an abort they are dropped, although their transaction may be committed: too old.
//
// So a transform notes with each offset where its topics ended before the transaction, and what this has written (source.Outputs). A transaction is
// visible whole or not at all: where what it has written is not in a topic, the offset is that of an aborted one, and reading goes on where the
// transaction before it ended.

// Why a partition does not go on at its committed offset.
const (
	whyOlder   = "the committed offset is older than what is written"
	whyAborted = "the committed offset is that of an aborted transaction"
	whyNotLast = "the committed offset is not that of the last committed transaction"
	whyGone    = "the committed offset is gone, and the start marker says where"
	whyOthers  = "what is committed is another learner's, and the start marker says where"
)

// goOn returns where a partition goes on that has a committed offset, and why not there.
func (p *Positions) goOn(ctx context.Context, part source.Partition, committed int64, id string) (next int64, why string, err error) {
	if p.Models != "" {
		return p.atMarker(ctx, part, committed, id)
	}
	if p.Written == nil {
		return committed, "", nil
	}
	wrote, noted := p.outputs(part)
	if !noted { // of an earlier release, or set by hand
		written, err := p.Written.next(ctx, part, p.counts(part))
		if err != nil {
			return 0, "", err
		}
		next = max(committed, written)
		return next, p.sayOlder(ctx, part, committed, written), p.beginOutputs(ctx, part, next)
	}
	found, err := p.Written.found(ctx, part, &wrote)
	if err != nil {
		return 0, "", err
	}
	next = max(committed, found.end)
	log := p.Log.With("group", p.Group, "partition", part.String(), "committed", committed)
	switch {
	case found.whole:
		return next, p.sayOlder(ctx, part, committed, found.end), p.nameEnds(ctx, part)
	case found.missing:
		next, why = found.end, whyAborted
		log.WarnContext(logs.Unlimited(ctx), why+": going on where the outputs end. Brokers before Kafka 3.9.1 may show it (KAFKA-17507)", "offset", next)
	default:
		log.WarnContext(logs.Unlimited(ctx), "it is not certain that the committed offset belongs to a committed transaction, because what it has written may be deleted, or is in other topics by now: going on at it", "offset", next)
	}
	return next, why, p.beginOutputs(ctx, part, next)
}

// sayOlder says that more is written than is committed, if it is.
func (p *Positions) sayOlder(ctx context.Context, part source.Partition, committed, written int64) (why string) {
	if written <= committed {
		return ""
	}
	p.Log.WarnContext(logs.Unlimited(ctx), whyOlder+": going on after that. Brokers before Kafka 4.0 forget the offsets of a transaction when a late request of its former owner arrives",
		"group", p.Group, "partition", part.String(), "committed", committed, "offset", written)
	return whyOlder
}

// atMarker returns where models by key go on. Each of their transactions carries a start marker with the offset that it commits, and a topic shows what is
// committed alone: so the marker tells which offset was.
func (p *Positions) atMarker(ctx context.Context, part source.Partition, committed int64, id string) (next int64, why string, err error) {
	m, ok, err := p.Starts.newest(ctx, p.markerKey(part))
	if err != nil || !ok || !m.Exact || m.Offset == committed || differ(m.TopicID, id) {
		return committed, "", err
	}
	p.Log.WarnContext(logs.Unlimited(ctx), whyNotLast+": the models go on at its start marker. Brokers before Kafka 3.9.1 may show another (KAFKA-17507)",
		"group", p.Group, "partition", part.String(), "committed", committed, "offset", m.Offset)
	return m.Offset, whyNotLast, nil
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
		id, err := back.CurrentTopicID(ctx)
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

// Claim returns the claim of a transaction with the note that belongs to it, and what is to be done once that is committed. The last messages for each
// topic are asked for their offsets.
func (o *Outputs) Claim(c source.Claim, msgs []sink.Message) (claim source.Claim, kept func()) {
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

// Look notes where the topics end by now, between two transactions, when all input before next is done: retention may delete what was noted of a topic
// that is seldom written to.
func (o *Outputs) Look(ctx context.Context, next source.Offsets) {
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
	id, err := back.CurrentTopicID(ctx)
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

// Gaps decides about records that retention deleted before they were read. By default the process stops, because
// records are lost (invariant 4). Methods may be called from any goroutine.
type Gaps struct {
	Skip  bool                        // source.on_gap: skip: go on with the first available record
	Check func(context.Context) error // verifies that the topic is still the same, because offsets of another topic are not a gap

	// Learner marks a learner's gaps. They are counted separately, because the transform may have whitened the
	// records, and otherwise has counted them itself.
	Learner bool

	// Keyed marks those of models by key. They may have learnt some of the records, because each model knows by itself what it has learnt.
	Keyed bool

	// Done returns the offset up to which a transform has read a partition; nil: there is no transform. Records
	// before it may be skipped independently of Skip, because a learner need not learn every record.
	Done  func(context.Context, source.Partition) (int64, error)
	Stats *stats.Stats
	Log   *slog.Logger

	mu      sync.Mutex
	counted map[source.Partition]span
}

// span is the last gap that was counted. After an aborted transaction it is met again, and may have grown.
type span struct{ from, to int64 }

// Pass returns nil if reading may go on at gap.Start, and otherwise the reason to stop.
func (g *Gaps) Pass(ctx context.Context, gap *source.OffsetError) error {
	if gap.Offset >= gap.Start {
		return gap // behind the end: another topic, or a truncated log
	}
	if g.Check != nil {
		if err := g.Check(ctx); err != nil {
			return err
		}
	}
	because := "source.on_gap is skip"
	if !g.Skip {
		if g.Done == nil {
			return g.stop(gap)
		}
		done, err := g.Done(ctx, gap.Partition)
		if err != nil {
			return err
		}
		if done < gap.Start {
			return g.stop(gap)
		}
		because = "the transform has read this partition farther: it has whitened these records, or has said what became of them"
	}
	g.pass(ctx, gap, because)
	return nil
}

// pass counts a gap and logs it once, past any limit on repeated lines, because only this line tells which records
// were lost. Retention moves the start of a log every few minutes at most, which bounds the number of lines.
func (g *Gaps) pass(ctx context.Context, gap *source.OffsetError, because string) {
	more := g.count(gap)
	if more == 0 {
		return
	}
	what := "passing records over that retention has deleted before they were read"
	if g.Learner {
		what = "leaving records out of what is learnt: retention has deleted them before the learner read them"
		if g.Keyed {
			what += ", except for those that models by key have learnt already"
		}
		g.Stats.LearnerGaps.Add(more)
	} else {
		g.Stats.Pass(reject.ReasonGap, more)
	}
	g.Log.WarnContext(logs.Unlimited(ctx), what, "partition", gap.Partition.String(),
		"from", gap.Offset, "to", gap.Start, "records", gap.Start-gap.Offset, "because", because)
}

func (g *Gaps) stop(gap *source.OffsetError) error {
	remedy := "set source.on_gap: skip to go on with what is left, or say where with `lca-stream offsets reset`"
	if g.Keyed {
		remedy = "set source.on_gap: skip to go on with what is left: of what is gone, only rows that their model had not learnt are missing, and no row is learnt twice. " +
			"`lca-stream offsets reset` has all models learn everything from a place on, again too"
	}
	return &reject.Stop{Err: gap, Remedy: remedy}
}

// count returns how many records of a gap were not counted before. It is an upper bound, because compaction and
// transactions leave offsets without records.
func (g *Gaps) count(gap *source.OffsetError) (more uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.counted == nil {
		g.counted = make(map[source.Partition]span)
	}
	now := span{gap.Offset, gap.Start}
	known, ok := g.counted[gap.Partition]
	if !ok || known.to < now.from || now.to < known.from {
		g.counted[gap.Partition] = now
		return uint64(now.to - now.from)
	}
	before := max(known.from-now.from, 0)
	after := max(now.to-known.to, 0)
	g.counted[gap.Partition] = span{min(known.from, now.from), max(known.to, now.to)}
	return uint64(before + after)
}
