package sink

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// size returns the bytes of the request.
func (r *produceRequest) size() int { return len(r.bytes) + apart(r.cuts) }

// apart returns the bytes of cuts.
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

// pieces returns the request with this version and correlation id.
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
