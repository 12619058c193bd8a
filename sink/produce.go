package sink

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// produceRequest is a Produce request, encoded once into one buffer, which is written to the connection. Another
// encoder would copy the batches first.
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

	mu      sync.Mutex
	bytes   []byte
	written bool
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

// encoding appends an encoded batch, which may be compressed.
type encoding func(b []byte, recs []recordbatch.Record, p recordbatch.Producer) []byte

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
	for rest := parts; len(rest) > 0; {
		n := sameTopic(rest)
		b = l.string(b, rest[0].to.topic)
		b = l.length(b, n)
		for _, one := range rest[:n] {
			b = be.AppendUint32(b, uint32(one.to.id))
			p.Sequence = one.sequence
			b = l.end(l.batch(b, one, p))
		}
		b = l.end(b)
		rest = rest[n:]
	}
	b = l.end(b)
	be.PutUint32(b, uint32(len(b)-4))
	r := &produceRequest{to: parts[0].to, oldest: version1Oldest, newest: version1Produce, bytes: b}
	if l.flexible {
		r.oldest, r.newest = version2Produce, version2Produce
	}
	return r
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
func (l layout) batch(b []byte, one part, p recordbatch.Producer) []byte {
	before := len(b)
	b = l.length(b, one.most)
	at := len(b)
	b = one.encode(b, one.records, p)
	n := len(b) - at
	length := l.length(make([]byte, 0, binary.MaxVarintLen32), n)
	if by := len(length) - (at - before); by != 0 {
		b = slices.Grow(b, max(by, 0))[:len(b)+by]
		copy(b[at+by:], b[at:at+n])
	}
	copy(b[before:], length)
	return b
}

// ask writes the request to the partitions' leader and returns the answer.
func (r *produceRequest) ask(ctx context.Context, c *kafkaconn.Cluster, patience kafkaconn.Patience) (*kmsg.ProduceResponse, error) {
	m, err := c.Ask(ctx, kafkaconn.Question{
		Request: kmsg.NewPtrProduceRequest(), Least: r.oldest, Most: r.newest, Broker: r.leader, Write: r.write, Patience: patience,
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

func (r *produceRequest) write(w io.Writer, version int16, correlation int32) error {
	_, err := w.Write(r.addressed(version, correlation))
	return err
}

// addressed returns the bytes with this version and correlation id. A copy that timed out may still be on its way on
// another connection, so bytes that were handed out once are not changed.
func (r *produceRequest) addressed(version int16, correlation int32) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	be := binary.BigEndian
	if be.Uint16(r.bytes[atVersion:]) != uint16(version) || be.Uint32(r.bytes[atCorrelation:]) != uint32(correlation) {
		if r.written {
			r.bytes = slices.Clone(r.bytes)
		}
		be.PutUint16(r.bytes[atVersion:], uint16(version))
		be.PutUint32(r.bytes[atCorrelation:], uint32(correlation))
	}
	r.written = true
	return r.bytes
}
