package learn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// simSource, simSink, simLog and simPlaces do what source.Kafka, sink.Kafka, source.Fetcher and the
// command's places do, as far as a loop can tell.
type simSource struct {
	p      *proc
	thread string
	next   source.Offsets
	epochs source.Epochs     // of the records before next
	ids    map[string]string // of the topics that next belongs to
	claim  source.Claim
	bound  bool          // Read ends with the input; otherwise it waits for more
	idle   time.Duration // an empty batch comes after this; 0 = it waits forever
	gaps   *start.Gaps
	first  source.Offsets // where each partition was first read, by any process
}

// Read waits like a consumer.
func (m *simSource) Read(ctx context.Context) (source.Batch, error) {
	b := source.Batch{Claim: m.claim}
	b.Claim.Next, b.Claim.Epochs = source.Offsets{}, source.Epochs{}
	var fault error
	var gap *source.OffsetError
	over := false
	can := func() bool { return fault != nil || m.over() || m.moves() }
	waiting := ctx
	if m.idle > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, m.idle)
		defer cancel()
	}
	err := m.p.ask(waiting, m.thread, "read", can, func() {
		s := m.p.sim
		over = m.over()
		most := 1 + s.random.IntN(4)
		if s.fleet != nil { // of several models
			most *= 2
		}
		for _, at := range m.next.Partitions() {
			if fault = m.lost(at); fault != nil {
				return
			}
			if _, known := m.first[at]; !known && m.first != nil {
				m.first[at] = m.next[at]
			}
			part := s.part(at)
			offsets, next := part.read(m.next[at], most)
			for _, o := range offsets {
				b.Messages = append(b.Messages, s.decoded(at, o, &part.log[o]))
			}
			if next > m.next[at] {
				m.next[at], m.epochs[at] = next, s.epochBefore(at, next)
			}
			b.Claim.Next[at] = m.next[at]
			if e, ok := m.epochs[at]; ok {
				b.Claim.Epochs[at] = e
			}
		}
	})
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		b.Claim.Next, b.Claim.Epochs = m.next.Clone(), m.epochs.Clone()
		return b, nil
	case err != nil:
		return b, err
	case errors.As(fault, &gap):
		if err := m.gaps.Pass(context.WithValue(ctx, simThread{}, m.thread), gap); err != nil {
			return b, err
		}
		m.next[gap.Partition] = gap.Start
		delete(m.epochs, gap.Partition) // as Fetcher.Move does: nothing is known of what is before it
		return m.Read(ctx)
	case fault != nil:
		return b, fault
	case over:
		return b, source.ErrEnd
	}
	return b, nil
}

// moves reports whether there is anything to read, or a position that the log does not have.
func (m *simSource) moves() bool {
	for at, next := range m.next {
		if m.p.sim.part(at).stable() > next || m.lost(at) != nil {
			return true
		}
	}
	return false
}

func (m *simSource) over() bool {
	if !m.bound || m.p.sim.fed < len(m.p.sim.feed()) {
		return false
	}
	for at, next := range m.next {
		if !m.p.sim.part(at).drained(next) {
			return false
		}
	}
	return true
}

// lost is the error of a position that the log does not have, or that it has of other records.
func (m *simSource) lost(at source.Partition) error {
	s, next := m.p.sim, m.next[at]
	if was, is := m.ids[at.Topic], strconv.Itoa(s.topics[at.Topic].id); was != is && !s.byName {
		return &source.RecreatedError{Topic: at.Topic, Was: was, Is: is}
	}
	part := s.part(at)
	if epoch, known := m.epochs[at]; known && s.mistake != "truncation unnoticed" {
		if end := part.endOf(epoch); end < next {
			return &source.TruncatedError{Partition: at, Offset: next, Epoch: epoch, End: end}
		}
	}
	if next < part.start || next > part.end() {
		return &source.OffsetError{Partition: at, Offset: next, Start: part.start, End: part.end()}
	}
	return nil
}

func (m *simSource) Seek(ctx context.Context, to source.Offsets) error {
	return m.p.ask(ctx, m.thread, "seek", nil, func() {
		for at, next := range to {
			if next > m.next[at] { // what is before it was not read here
				delete(m.epochs, at)
			}
			m.next[at] = next
		}
	})
}

func (m *simSource) Close() error { return nil }

// simSink is one owner's transactional producer: after any answer that it did not get it takes a new
// epoch, by which what was open is aborted and the outcome settled.
type simSink struct {
	p      *proc
	thread string
	id     string
	epoch  int

	wrote, aborted bool                    // since it was opened; for mistakes
	former         map[string]sink.Message // states that it has written; for mistakes
}

// Most is how many bytes a transaction may have.
func (m *simSink) Most() int {
	if strings.Contains(m.id, "/transform/") {
		return m.p.sim.link
	}
	return 0
}

func (p *proc) open(ctx context.Context, thread, id string) (*simSink, error) {
	m := &simSink{p: p, thread: thread, id: id}
	for {
		err := p.ask(ctx, thread, "fence "+id, nil, func() { m.epoch = p.sim.fence(id) })
		if !errors.Is(err, fixtures.ErrCrash) {
			return m, err
		}
	}
}

func (m *simSink) fenced() bool {
	s := m.p.sim
	return s.simBroker.epoch[m.id] != m.epoch && s.mistake != "no fence"
}

func (m *simSink) Put(ctx context.Context, msgs []sink.Message, claim source.Claim) error {
	if len(msgs) == 0 && claim.Group == "" {
		return nil // every Put settles its outcome before it returns
	}
	var refused error
	err := m.p.ask(ctx, m.thread, fmt.Sprintf("put %d messages, %v", len(msgs), claim.Next), nil, func() { refused = m.write(msgs, claim) })
	if err == nil && refused == nil {
		err = m.p.ask(ctx, m.thread, "commit", nil, func() {
			if m.fenced() {
				refused = sink.ErrFenced
			} else if t := m.p.sim.owned(m.id); t != nil {
				m.p.sim.finish(t, true)
			}
		})
	}
	if refused != nil {
		return refused
	}
	cause := err
	for errors.Is(err, fixtures.ErrCrash) {
		err = m.p.ask(ctx, m.thread, "a new epoch", nil, func() {
			if m.fenced() {
				refused = sink.ErrFenced
				return
			}
			m.epoch, m.aborted = m.p.sim.fence(m.id), true
		})
		if refused != nil {
			return refused
		}
		if err != nil && !errors.Is(err, fixtures.ErrCrash) {
			return err
		}
	}
	return cause
}

// write is what a transaction sends before its end.
func (m *simSink) write(msgs []sink.Message, claim source.Claim) error {
	s := m.p.sim
	if m.fenced() {
		s.forgetOffsets(m.id, claim)
		return sink.ErrFenced
	}
	if claim.Member != "" && s.groups[claim.Group].refuses(claim) {
		return sink.ErrRevoked
	}
	t := s.owned(m.id)
	if t == nil {
		t = s.simBroker.begin(m.id, simTimeout)
	}
	msgs = m.stateMistake(t, m.alarmMistake(t, m.commandMistake(msgs)))
	m.wrote = true
	for _, msg := range msgs {
		at := source.Partition{Topic: msg.Topic, ID: msg.Partition}
		if msg.Offset != nil {
			*msg.Offset = s.part(at).end()
			if s.fleet != nil && s.fleet.forgets && s.chance(2) {
				*msg.Offset = -1
			}
		}
		s.write(t, at, fixtures.Stored(msg), -1)
	}
	if claim.Group == "" || s.mistake == "offsets lost" && s.chance(2) {
		return nil
	}
	if s.classic && m.aborted && s.chance(4) { // a request of the former epoch arrives now
		s.happens("offsets forgotten", "of %s", m.id)
		return nil
	}
	offsets := map[source.Partition]simOffset{}
	for p, next := range claim.Next {
		epoch, known := claim.Epochs[p]
		if !known {
			epoch = -1
		}
		offsets[p] = simOffset{next: next, epoch: epoch, metadata: claim.Metadata[p], txn: t}
	}
	s.pend(t, claim.Group, offsets)
	return nil
}

func (m *simSink) Close() error { return nil }

// simFollow is the thread that follows the snapshot topic.
const simFollow = " follow"

// simLog reads a topic of one partition, and waits at its end.
type simLog struct {
	p      *proc
	thread string
	topic  source.Partition
	next   int64
}

func (l *simLog) Fetch(ctx context.Context) (source.Fetched, error) {
	var got source.Fetched
	part := l.p.sim.part(l.topic)
	err := l.p.ask(ctx, l.thread, "fetch "+l.topic.Topic, func() bool { return part.stable() > l.next && !l.deaf() }, func() {
		var offsets []int64
		offsets, l.next = part.read(l.next, 1+l.p.sim.random.IntN(8))
		if l.p.sim.mistake == "a newer format is passed over" {
			offsets = slices.DeleteFunc(offsets, func(o int64) bool { return checkpoint.ReadableFormat(part.log[o].Value) != nil })
		}
		got.Records = records(part, offsets)
		got.Next, got.HighWatermark, got.LastStable = l.next, part.end(), part.stable()
	})
	return got, err
}

// deaf reports whether the log is the one that a process follows, and hears nothing from.
func (l *simLog) deaf() bool {
	return strings.HasPrefix(l.thread, simFollow) && time.Now().Before(l.p.deaf)
}

// records are entries as a fetcher gives them out.
func records(part *simPart, offsets []int64) (all []recordbatch.Record) {
	for _, o := range offsets {
		e := &part.log[o]
		all = append(all, recordbatch.Record{Offset: o, Key: e.Key, Value: e.Value, Timestamp: e.at.UnixMilli(), Headers: slices.Clone(e.Headers)})
	}
	return all
}

func (p *proc) log(thread, topic string) func(context.Context, int64) (checkpoint.TopicReader, error) {
	return func(_ context.Context, next int64) (checkpoint.TopicReader, error) {
		return &simLog{p: p, thread: thread, topic: source.Partition{Topic: topic}, next: next}, nil
	}
}

// simThread is the key of a context's thread, for what several threads ask through one function.
type simThread struct{}

func threadOf(ctx context.Context, fallback string) string {
	if thread, ok := ctx.Value(simThread{}).(string); ok {
		return thread
	}
	return fallback
}

// end is the end of a topic of one partition: for all readers, or for a read_committed reader.
func (p *proc) end(thread, topic string, at source.At) func(context.Context) (int64, error) {
	return func(ctx context.Context) (n int64, err error) {
		err = p.ask(ctx, threadOf(ctx, thread), "end of "+topic, nil, func() {
			n = p.sim.part(source.Partition{Topic: topic}).place(at)
		})
		return n, err
	}
}

func (p *simPart) place(at source.At) int64 {
	switch at {
	case source.Earliest:
		return p.start
	case source.LatestStable:
		return p.stable()
	}
	return p.end()
}

// simPlaces answers what Positions asks.
type simPlaces struct {
	p      *proc
	thread string
}

func (m simPlaces) Committed(ctx context.Context, group string, parts []source.Partition) (found map[source.Partition]source.Position, err error) {
	s := m.p.sim
	stable := func() bool {
		return s.mistake == "stale offsets" || !slices.ContainsFunc(parts, func(p source.Partition) bool { return s.unstable(group, p) })
	}
	err = m.p.ask(ctx, threadOf(ctx, m.thread), "committed offsets", stable, func() {
		found = map[source.Partition]source.Position{}
		for _, p := range parts {
			found[p] = source.Position{Next: -1, Epoch: -1}
			if o, ok := s.offsets[group][p]; ok {
				found[p] = source.Position{Next: o.next, Epoch: o.epoch, Metadata: o.metadata}
				if s.mistake == "aborted offsets are believed" || s.mistake == "keyed: aborted offsets are believed" {
					found[p] = asFormerly(found[p])
				}
			}
		}
	})
	return found, err
}

// asFormerly is a position as former builds have committed it: it does not say what was written.
func asFormerly(at source.Position) source.Position {
	if note, err := source.ParseNote(at.Metadata); err == nil && note.Outputs != nil {
		note.Outputs = nil
		at.Metadata = note.String()
	}
	return at
}

func (m simPlaces) Offsets(ctx context.Context, parts []source.Partition, at source.At) (found source.Offsets, err error) {
	err = m.p.ask(ctx, threadOf(ctx, m.thread), "list offsets", nil, func() {
		found = source.Offsets{}
		for _, p := range parts {
			found[p] = m.p.sim.part(p).place(at)
		}
	})
	return found, err
}

func (m simPlaces) Topic(ctx context.Context, name string) (topic source.Topic, err error) {
	err = m.p.ask(ctx, threadOf(ctx, m.thread), "topic "+name, nil, func() {
		topic = source.Topic{ID: strconv.Itoa(m.p.sim.topics[name].id), Partitions: m.p.sim.partitions(name)}
	})
	return topic, err
}

// metadata are the partitions that a topic has, or had: a broker may not have heard yet of one that was added.
func (p *proc) metadata(ctx context.Context, thread, topic string) (parts []source.Partition, err error) {
	err = p.ask(ctx, thread, "partitions of "+topic, nil, func() {
		parts = p.sim.partitions(topic)
		if added := len(parts) - p.sim.inputs; added > 0 && p.sim.chance(3) {
			p.sim.happens("metadata late", "for %s", p.name)
			parts = parts[:p.sim.inputs]
		}
	})
	return parts, err
}
