package learn

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// simBroker is the cluster of the simulation, as far as its clients can see it: logs with transactions,
// a last stable offset, leader epochs, retention and compaction; committed offsets that may come late
// and expire; consumer groups; topics that have ids.
type simBroker struct {
	topics  map[string]*simTopic
	topicID int
	epoch   map[string]int     // transactional id → newest owner
	open    []*simTxn          // in the order of their begin
	late    []*simTxn          // ended, but their offsets are not completed yet (KAFKA-17507)
	async   bool               // the coordinator is one that completes them late
	byID    bool               // … and by the transactional id alone, as those before Kafka 3.9.1 do
	pending map[string]*simTxn // by transactional id: whose offsets its next completion takes
	offsets map[string]map[source.Partition]simOffset
	groups  map[string]*simGroup
	happens func(what, format string, args ...any)
}

// simOffset is a committed offset.
type simOffset struct {
	next     int64
	epoch    int32
	metadata string
	txn      *simTxn // that carried it
}

// simTopic is one incarnation of a topic.
type simTopic struct {
	id    int
	parts []*simPart
}

// simPart is one partition. Offsets are indices of log, forever: what is gone is only marked so.
type simPart struct {
	log     []simEntry
	start   int64 // the first offset that retention has left
	epoch   int32 // of the leader
	pending int   // open transactions that have written here
}

type simEntry struct {
	sink.Message
	txn   *simTxn // nil: written outside of transactions
	mark  bool    // the end of txn, which no client reads
	gone  bool    // compacted away
	epoch int32   // of the leader that took it
	feed  int     // which message of the input it is
	at    time.Time
}

type simTxn struct {
	id        string
	deadline  time.Time // zero: it hangs until it is ended by hand
	committed bool
	ended     bool
	parts     []*simPart
	group     string
	offsets   map[source.Partition]simOffset
}

func newSimBroker() *simBroker {
	return &simBroker{
		topics: map[string]*simTopic{}, epoch: map[string]int{}, pending: map[string]*simTxn{},
		offsets: map[string]map[source.Partition]simOffset{}, groups: map[string]*simGroup{},
	}
}

// create makes a topic, or a new one of the same name, whose committed offsets go with the old one.
func (b *simBroker) create(name string, partitions int) {
	b.topicID++
	t := &simTopic{id: b.topicID}
	for range partitions {
		t.parts = append(t.parts, &simPart{})
	}
	b.topics[name] = t
	for _, offsets := range b.offsets {
		for p := range offsets {
			if p.Topic == name {
				delete(offsets, p)
			}
		}
	}
}

func (b *simBroker) part(p source.Partition) *simPart { return b.topics[p.Topic].parts[p.ID] }

func (b *simBroker) partitions(topic string) (parts []source.Partition) {
	for id := range b.topics[topic].parts {
		parts = append(parts, source.Partition{Topic: topic, ID: int32(id)})
	}
	return parts
}

// end is the high watermark.
func (p *simPart) end() int64 { return int64(len(p.log)) }

// stable is the last stable offset: before the first record of an open transaction.
func (p *simPart) stable() int64 {
	if p.pending > 0 {
		for i := range p.log {
			if e := &p.log[i]; e.txn != nil && !e.txn.ended {
				return int64(i)
			}
		}
	}
	return p.end()
}

// visible reports whether a read_committed reader sees the entry.
func (e *simEntry) visible() bool { return !e.mark && !e.gone && (e.txn == nil || e.txn.committed) }

// read returns at most n entries that a read_committed reader sees from an offset on, and where
// to read next.
func (p *simPart) read(from int64, most int) (offsets []int64, next int64) {
	for next = from; next < p.stable() && len(offsets) < most; next++ {
		if p.log[next].visible() {
			offsets = append(offsets, next)
		}
	}
	return offsets, next
}

// drained reports whether a reader at an offset has nothing left to see or to wait for.
func (p *simPart) drained(from int64) bool {
	offsets, next := p.read(from, 1)
	return len(offsets) == 0 && next == p.end()
}

func (p *simPart) append(e simEntry) {
	e.epoch, e.at = p.epoch, time.Now()
	p.log = append(p.log, e)
}

// begin opens a transaction.
func (b *simBroker) begin(id string, limit time.Duration) *simTxn {
	t := &simTxn{id: id, offsets: map[source.Partition]simOffset{}}
	if limit > 0 {
		t.deadline = time.Now().Add(limit)
	}
	b.open = append(b.open, t)
	return t
}

// write adds a message to an open transaction.
func (b *simBroker) write(t *simTxn, p source.Partition, m sink.Message, feed int) {
	part := b.part(p)
	if !slices.Contains(t.parts, part) {
		t.parts = append(t.parts, part)
		part.pending++
	}
	part.append(simEntry{Message: m, txn: t, feed: feed})
}

// finish ends a transaction, with its marks and its offsets.
func (b *simBroker) finish(t *simTxn, commit bool) {
	t.ended, t.committed = true, commit
	b.open = slices.DeleteFunc(b.open, func(o *simTxn) bool { return o == t })
	for _, part := range t.parts {
		part.pending--
		part.append(simEntry{txn: t, mark: true})
	}
	if t.group == "" || !commit && !b.byID {
		return
	}
	b.late = append(b.late, t)
	if !b.async {
		b.complete(true)
	}
}

// pend takes the offsets of an open transaction: they wait for its end.
func (b *simBroker) pend(t *simTxn, group string, offsets map[source.Partition]simOffset) {
	t.group = group
	maps.Copy(t.offsets, offsets)
	b.pending[t.id] = t
}

// complete lets the offsets of transactions that have ended be read, or drops them: of all, or of the first.
func (b *simBroker) complete(all bool) {
	for len(b.late) > 0 {
		b.completeOne(b.late[0])
		if b.late = b.late[1:]; !all {
			return
		}
	}
}

// completeOne completes by its id alone where brokers do: a producer's next transaction may then lose its offsets to the completion of the one before.
func (b *simBroker) completeOne(t *simTxn) {
	taken := t
	if b.byID {
		if taken = b.pending[t.id]; taken == nil {
			return
		}
		delete(b.pending, t.id)
		if taken != t && t.committed {
			b.happens("offsets shown early", "of %s", t.id)
		} else if taken != t {
			b.happens("offsets dropped", "of %s", t.id)
		}
	}
	if !t.committed {
		return
	}
	if b.offsets[t.group] == nil {
		b.offsets[t.group] = map[source.Partition]simOffset{}
	}
	maps.Copy(b.offsets[t.group], taken.offsets)
}

// unstable reports whether the offset of a partition is about to change: then a broker that is asked
// for stable offsets asks to come again.
func (b *simBroker) unstable(group string, p source.Partition) bool {
	waits := func(t *simTxn) bool { _, ok := t.offsets[p]; return ok && t.group == group }
	if b.byID {
		for _, t := range b.pending {
			if waits(t) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(b.open, waits) || slices.ContainsFunc(b.late, waits)
}

// owned is the open transaction of a transactional id.
func (b *simBroker) owned(id string) *simTxn {
	for _, t := range b.open {
		if t.id == id {
			return t
		}
	}
	return nil
}

// fence gives a transactional id to a new owner: what the former one left open is aborted.
func (b *simBroker) fence(id string) int {
	if t := b.owned(id); t != nil {
		b.finish(t, false)
	}
	b.epoch[id]++
	return b.epoch[id]
}

// forgetOffsets is what a classic group coordinator does (brokers before 4.0) with a TxnOffsetCommit of a former epoch that no generation of
// the group forbids: it refuses it, and drops the offsets that are pending under the producer's id, whose owner does not hear of it.
func (s *sim) forgetOffsets(id string, claim source.Claim) {
	if t := s.owned(id); s.classic && t != nil && claim.Member == "" && t.group == claim.Group && s.chance(2) {
		s.happens("offsets forgotten", "of %s", id)
		t.group = ""
		delete(s.pending, id)
	}
}

// expire aborts the transactions that have been open for too long, and fences their owners.
func (b *simBroker) expire() {
	for _, t := range slices.Clone(b.open) {
		if !t.deadline.IsZero() && !time.Now().Before(t.deadline) {
			b.fence(t.id)
		}
	}
}

// compact leaves of each key the last record, as far as the log is stable, and those that had a newer one for less than a lag; tombstones
// stay.
func (p *simPart) compact(lag time.Duration) {
	stable := p.stable()
	for i := range p.log[:stable] {
		e := &p.log[i]
		if e.mark || e.gone {
			continue
		}
		e.gone = e.txn != nil && !e.txn.committed || slices.ContainsFunc(p.log[i+1:stable], func(l simEntry) bool {
			return l.visible() && bytes.Equal(l.Key, e.Key) && time.Since(l.at) >= lag
		})
	}
}

// endOf is where an epoch, or the last one before it, ends in the log; a negative one is not known.
func (p *simPart) endOf(epoch int32) int64 {
	if epoch < 0 {
		return p.end()
	}
	end := p.end()
	for end > 0 && p.log[end-1].epoch > epoch {
		end--
	}
	return end
}

// truncate is an unclean election: the new leader never had the records from an offset on.
func (p *simPart) truncate(from int64) {
	p.log = p.log[:from]
	p.epoch++
}
