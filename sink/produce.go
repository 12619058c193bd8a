package sink

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// produceRequest is a Produce request, encoded once. Another encoder would copy the batches first, and even here large
// values stay where they are: the cuts.
//
//	size int32 | key 0 int16 | version int16 | correlation int32 | client id string      header
//	transactional id string | acks −1 int16 | timeout ms int32                           versions 3 to 8
//	topics int32: name string | partitions int32: id int32 | size int32, record batch
//
// Version 12 is flexible (KIP-482): names, arrays and batches begin with their length plus one as a
// varint, and the header, each partition, each topic and the request end with the number of their
// tagged fields, which is 0.
//
// A request that is repeated consists of the same bytes, except for the version if the broker has changed.
type produceRequest struct {
	to             topicPartition // the first partition
	oldest, newest int16          // range of versions with this layout

	use   sync.Mutex // for a connection that reads the following
	bytes []byte
	cuts  []recordbatch.Cut // parts of the request that are not in bytes
}

const (
	atVersion     = 6
	atCorrelation = 8

	version1Oldest  = 3 // the first version with transactions
	version1Produce = 8 // the last version of its layout
	version2Produce = 12
)

// part is one batch of a request.
type part struct {
	to       topicPartition
	records  []recordbatch.Record
	most     int // upper bound of the encoded batch's size
	sequence int32
	encode   encoding
}

// encoding appends an encoded batch, which may be compressed, and what of it is not copied.
type encoding func(b []byte, cuts []recordbatch.Cut, recs []recordbatch.Record, p recordbatch.Producer) ([]byte, []recordbatch.Cut)

// newProduceRequest encodes one batch into buffer, or into a new one if that is too small.
func newProduceRequest(version int, buffer []byte, clientID, transactionalID string, to topicPartition, timeout time.Duration, recs []recordbatch.Record, p recordbatch.Producer, encode encoding) *produceRequest {
	one := part{to: to, records: recs, sequence: p.Sequence, encode: encode}
	if version == 2 { // the length of the length field depends on it
		one.most = recordbatch.Size(recs)
	}
	return newProduce(version, buffer, clientID, transactionalID, timeout, []part{one}, p)
}

// newProduce encodes parts, which must be sorted by topic.
func newProduce(version int, buffer []byte, clientID, transactionalID string, timeout time.Duration, parts []part, p recordbatch.Producer) *produceRequest {
	b := append(buffer[:0], make([]byte, 12)...) // the size, and the header up to the client id
	be := binary.BigEndian
	be.PutUint16(b[4:], uint16(protocol.Produce))
	b = appendString(b, clientID)
	l := layout{flexible: version == 2}
	b = l.end(b)
	b = l.string(b, transactionalID)
	b = be.AppendUint16(b, 0xffff) // acks: all replicas in sync
	b = be.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = l.length(b, topics(parts))
	r := &produceRequest{to: parts[0].to, oldest: version1Oldest, newest: version1Produce}
	if l.flexible {
		r.oldest, r.newest = version2Produce, version2Produce
	}
	for rest := parts; len(rest) > 0; {
		n := sameTopic(rest)
		b = l.string(b, rest[0].to.topic)
		b = l.length(b, n)
		for _, one := range rest[:n] {
			b = be.AppendUint32(b, uint32(one.to.id))
			p.Sequence = one.sequence
			b, r.cuts = l.batch(b, r.cuts, one, p)
			b = l.end(b)
		}
		b = l.end(b)
		rest = rest[n:]
	}
	r.bytes = l.end(b)
	be.PutUint32(r.bytes, uint32(r.size()-4))
	return r
}

func (r *produceRequest) size() int { return len(r.bytes) + apart(r.cuts) }

func apart(cuts []recordbatch.Cut) (n int) {
	for _, c := range cuts {
		n += len(c.Bytes)
	}
	return n
}

func topics(parts []part) (n int) {
	for ; len(parts) > 0; n++ {
		parts = parts[sameTopic(parts):]
	}
	return n
}

// sameTopic returns how many of the first parts have the same topic.
func sameTopic(parts []part) int {
	n := slices.IndexFunc(parts, func(p part) bool { return p.to.topic != parts[0].to.topic })
	if n < 0 {
		return len(parts)
	}
	return n
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// layout says how lengths are encoded.
type layout struct{ flexible bool }

func (l layout) string(b []byte, s string) []byte {
	if l.flexible {
		return append(binary.AppendUvarint(b, uint64(len(s)+1)), s...)
	}
	return appendString(b, s)
}

func (l layout) length(b []byte, n int) []byte {
	if l.flexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// end appends the number of tagged fields.
func (l layout) end(b []byte) []byte {
	if l.flexible {
		return append(b, 0)
	}
	return b
}

// batch appends a batch after its length. A varint of another length than expected, because the batch was compressed,
// moves the batch.
func (l layout) batch(b []byte, cuts []recordbatch.Cut, one part, p recordbatch.Producer) ([]byte, []recordbatch.Cut) {
	before, own := len(b), len(cuts)
	b = l.length(b, one.most)
	at := len(b)
	b, cuts = one.encode(b, cuts, one.records, p)
	n := len(b) - at
	length := l.length(make([]byte, 0, binary.MaxVarintLen32), n+apart(cuts[own:]))
	if by := len(length) - (at - before); by != 0 {
		b = slices.Grow(b, max(by, 0))[:len(b)+by]
		copy(b[at+by:], b[at:at+n])
		for i := range cuts[own:] {
			cuts[own+i].At += by
		}
	}
	copy(b[before:], length)
	return b, cuts
}

// ask writes the request to the partitions' leader and returns the answer. When it returns, no connection reads the
// request any more.
func (r *produceRequest) ask(ctx context.Context, c *kafkaconn.Cluster, patience kafkaconn.Patience) (*kmsg.ProduceResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel() // ends a write that is on its way
		r.use.Lock()
		defer r.use.Unlock()
	}()
	m, err := c.Ask(ctx, kafkaconn.Question{
		Request: kmsg.NewPtrProduceRequest(), Least: r.oldest, Most: r.newest, Broker: r.leader, Patience: patience,
		Write: func(w io.Writer, version int16, correlation int32) error {
			r.use.Lock()
			defer r.use.Unlock()
			if err := ctx.Err(); err != nil {
				return err
			}
			return kafkaconn.WritePieces(w, r.pieces(version, correlation))
		},
	})
	if err != nil {
		return nil, err
	}
	return m.(*kmsg.ProduceResponse), nil
}

// send writes a request for one partition. It returns the offset of its first record, -1 where the broker does not tell,
// and the error in its answer.
func (r *produceRequest) send(ctx context.Context, c *kafkaconn.Cluster, patience kafkaconn.Patience) (base int64, err error) {
	res, err := r.ask(ctx, c, patience)
	if err != nil {
		return -1, err
	}
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return -1, fmt.Errorf("an answer about %d topics to a batch for %s/%d", len(res.Topics), r.to.topic, r.to.id)
	}
	p := &res.Topics[0].Partitions[0]
	if err := failure(p.ErrorCode); err != nil {
		if p.ErrorMessage != nil {
			return -1, fmt.Errorf("%w: %s", err, *p.ErrorMessage)
		}
		return -1, err
	}
	return p.BaseOffset, nil
}

func (r *produceRequest) leader(c protocol.Cluster) (protocol.Broker, error) {
	return kafkaconn.Leader(c, r.to.topic, r.to.id)
}

func (r *produceRequest) pieces(version int16, correlation int32) net.Buffers {
	be := binary.BigEndian
	be.PutUint16(r.bytes[atVersion:], uint16(version))
	be.PutUint32(r.bytes[atCorrelation:], uint32(correlation))
	pieces, from := make(net.Buffers, 0, 2*len(r.cuts)+1), 0
	for _, c := range r.cuts {
		pieces = append(pieces, r.bytes[from:c.At], c.Bytes)
		from = c.At
	}
	return append(pieces, r.bytes[from:])
}

// topicPartition is the partition that a message is written to.
type topicPartition struct {
	topic string
	id    int32
}

// share holds the records of one Put for one partition, in the order of the messages.
type share struct {
	topicPartition
	records []recordbatch.Record
	sizes   []int    // upper bound of each record's size in a batch
	index   []int    // position of each record among the messages of the Put
	offsets []*int64 // where the offset of each record goes, see Message.Offset
	done    int      // number of records already written by a request for several partitions
}

// shares groups the messages of one Put by partition, in order of first appearance. The next Put reuses its memory,
// because a stream puts about as much every time.
type shares struct{ all []*share }

// sort groups the messages, and overwrites the groups of the previous call.
func (s *shares) sort(msgs []Message, now time.Time) ([]*share, error) {
	known := s.all[:cap(s.all)]
	s.all = s.all[:0]
	var last *share
	for i := range msgs {
		m := &msgs[i]
		if m.Topic == "" || m.Partition < 0 {
			return nil, fmt.Errorf("message %d has no destination: topic %q, partition %d", i, m.Topic, m.Partition)
		}
		if to := (topicPartition{m.Topic, m.Partition}); last == nil || last.topicPartition != to {
			last = s.find(to, known)
			if i == 0 { // most Puts have one partition only
				last.grow(len(msgs))
			}
		}
		at := m.Time
		if at.IsZero() {
			at = now
		}
		r := recordbatch.Record{Timestamp: at.UnixMilli(), Key: m.Key, Value: m.Value, Rest: m.Rest, Headers: m.Headers}
		last.records = append(last.records, r)
		last.sizes = append(last.sizes, recordbatch.RecordSize(&r))
		last.index = append(last.index, i)
		last.offsets = append(last.offsets, m.Offset)
	}
	return s.all, nil
}

// find returns the share of a partition: one of this Put, a recycled one, or a new one.
func (s *shares) find(to topicPartition, known []*share) *share {
	for _, old := range s.all {
		if old.topicPartition == to {
			return old
		}
	}
	n := len(s.all)
	if n < len(known) && known[n] != nil {
		old := known[n]
		old.topicPartition, old.records, old.sizes, old.index = to, old.records[:0], old.sizes[:0], old.index[:0]
		old.offsets, old.done = old.offsets[:0], 0
		s.all = append(s.all, old)
		return old
	}
	s.all = append(s.all, &share{topicPartition: to})
	return s.all[n]
}

// grow reserves room for n messages at once, because growing step by step would allocate several times as much.
func (s *share) grow(n int) {
	s.records, s.sizes, s.index = slices.Grow(s.records, n), slices.Grow(s.sizes, n), slices.Grow(s.index, n)
	s.offsets = slices.Grow(s.offsets, n)
}

// written stores the offsets of n records, from number first on, in a batch that the broker has put at base; negative:
// it did not tell.
func (s *share) written(first, n int, base int64) {
	for i, to := range s.offsets[first : first+n] {
		if to == nil {
			continue
		}
		if *to = -1; base >= 0 {
			*to = base + int64(i)
		}
	}
}

// forget drops the references to messages: their memory belongs to the caller of Put.
func (s *shares) forget() {
	for _, one := range s.all {
		clear(one.records)
		clear(one.offsets)
	}
}

// fit returns how many of the first records make a batch of at most limit bytes, but at least one.
func fit(sizes []int, limit int) (n, size int) {
	size = recordbatch.Size(nil) // the batch's header
	for i, s := range sizes {
		if size+s > limit && i > 0 {
			return i, size
		}
		size += s
	}
	return len(sizes), size
}

// togetherBytes bounds a request for several partitions: a larger batch gains little from a shared request, and would
// take too long on a slow link.
const togetherBytes = 256 << 10

// together writes the first batch of each partition, with one request per leader. It tries once. What is refused or
// not answered is left to produce, which repeats it with the same sequence numbers.
//
// One request saves more than round trips. A leader asks the coordinator about a partition's first batch in each
// transaction (KIP-890), and keeps only one question at a time for each transactional id: of concurrent requests it
// refuses all but one. Eight concurrent requests took 70 ms, the same eight in turn 22 ms.
func (k *Kafka) together(ctx context.Context, all []*share, unsure []bool) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(k.sideBySide())
	for _, company := range k.companies(ctx, all) {
		g.Go(func() error {
			if err := k.produceTogether(ctx, all, company); err != nil && unanswered(err) {
				for _, i := range company {
					unsure[i] = true
				}
			}
			return nil
		})
	}
	_ = g.Wait() // none of them returns an error
}

// sideBySide returns the number of concurrent Produce requests. In version 2 it is one, because the coordinator, too,
// adds partitions for one leader at a time.
func (k *Kafka) sideBySide() int {
	if k.version == 2 {
		return 1
	}
	return writers
}

// companies returns the shares that go into one request, by index and sorted by topic, two or more for each request.
func (k *Kafka) companies(ctx context.Context, all []*share) (companies [][]int) {
	leaders := k.leaders(ctx, all)
	order := make([]int, 0, len(all))
	for i, s := range all {
		if _, ok := leaders[s.topicPartition]; ok {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := all[a].topicPartition, all[b].topicPartition
		return cmp.Or(cmp.Compare(leaders[x], leaders[y]), cmp.Compare(x.topic, y.topic), cmp.Compare(x.id, y.id))
	})
	var company []int
	bytes := 0
	end := func() {
		if len(company) > 1 {
			companies = append(companies, company)
		}
		company, bytes = nil, 0
	}
	for _, i := range order {
		_, size := fit(all[i].sizes, k.limits.batch(all[i].topic, k.config.BatchBytes))
		if size > togetherBytes {
			continue
		}
		if len(company) > 0 && (bytes+size > togetherBytes || leaders[all[company[0]].topicPartition] != leaders[all[i].topicPartition]) {
			end()
		}
		company = append(company, i)
		bytes += size
	}
	end()
	return companies
}

// leaders returns the leaders of partitions, as far as the transport knows them without a request.
func (k *Kafka) leaders(ctx context.Context, all []*share) map[topicPartition]int {
	var topics []string
	for _, s := range all {
		if !slices.Contains(topics, s.topic) {
			topics = append(topics, s.topic)
		}
	}
	m, err := k.config.Cluster.Client().Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil
	}
	known := make(map[topicPartition]int)
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if p.Error == nil && p.Leader.Host != "" {
				known[topicPartition{t.Name, int32(p.ID)}] = p.Leader.ID
			}
		}
	}
	return known
}

// produceTogether writes the first batches of several partitions in one request.
func (k *Kafka) produceTogether(ctx context.Context, all []*share, company []int) error {
	var parts []part
	size := 0
	for _, i := range company {
		s, limit := all[i], k.limits.batch(all[i].topic, k.config.BatchBytes)
		n, most := fit(s.sizes, limit)
		encode, room := k.packer.encoding(s.records[:n], s.topic, limit, most)
		size += room + requestHead
		parts = append(parts, part{to: s.topicPartition, records: s.records[:n], most: most, sequence: *k.next[s.topicPartition], encode: encode})
	}
	req := newProduce(k.version, k.config.Link.spare.take(size), k.config.Cluster.ClientID(), k.config.TransactionalID, k.request, parts,
		recordbatch.Producer{ID: k.producer.id, Epoch: k.producer.epoch, Transactional: true})
	defer k.config.Link.spare.give(req.bytes)
	res, err := req.ask(ctx, k.config.Cluster, k.patience(req.size()))
	if err != nil {
		if tooSlow(err) {
			k.late.Store(true)
		}
		return err
	}
	written := make(map[topicPartition]int64) // base offsets
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				written[topicPartition{t.Topic, p.Partition}] = p.BaseOffset
			}
		}
	}
	for at, i := range company {
		s := all[i]
		if base, ok := written[s.topicPartition]; ok {
			s.done = len(parts[at].records)
			s.written(0, s.done, base)
			*k.next[s.topicPartition] = recordbatch.NextSequence(parts[at].sequence, s.done)
		}
	}
	return nil
}

// spare keeps the buffers of answered requests for later ones, of all producers of the process. A new buffer would
// have to be cleared, and is large enough that each transaction would bring on a garbage collection.
type spare struct {
	most int // bytes that are kept

	mu    sync.Mutex
	free  [][]byte // in the order of their return
	bytes int
}

// requestHead is room for what a request holds besides its batch.
const requestHead = 2 << 10

// take returns a buffer for a request with a batch of the given size: the smallest one that is large enough, or a new
// one.
func (s *spare) take(batch int) []byte {
	size := batch + requestHead
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for i, b := range s.free {
		if cap(b) >= size && (best < 0 || cap(b) < cap(s.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]byte, 0, size+size/8) // the next batch may be a little larger
	}
	b := s.free[best]
	s.drop(best)
	return b
}

// give returns a buffer that is no longer used. The buffers that were idle longest make room for it.
func (s *spare) give(b []byte) {
	if cap(b) > s.most {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes+cap(b) > s.most {
		s.drop(0)
	}
	s.free = append(s.free, b)
	s.bytes += cap(b)
}

func (s *spare) drop(i int) {
	s.bytes -= cap(s.free[i])
	s.free = slices.Delete(s.free, i, i+1)
}
