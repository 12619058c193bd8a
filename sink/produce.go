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

	"github.com/lca-stream/lca-stream/internal/cluster"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// produceRequest is a Produce request for one batch, encoded once in one buffer and written to the
// connection as it is. Any other encoder would copy the batch first.
//
//	size int32 | key 0 int16 | version int16 | correlation int32 | client id string      header
//	transactional id string | acks −1 int16 | timeout ms int32                           versions 3 to 8
//	1 topic: name string | 1 partition: id int32 | size int32, record batch
//
// Version 12 is flexible (KIP-482): names, arrays and the batch begin with their length plus one as a
// varint, and the header, the partition, the topic and the request each end with the number of their
// tagged fields, which is 0.
//
// A request that is repeated is the same bytes, except for the version if the broker has changed.
type produceRequest struct {
	to             topicPartition
	oldest, newest int16  // versions of this layout
	buffer         []byte // of which bytes are the end

	mu      sync.Mutex
	bytes   []byte
	written bool
}

const (
	atVersion     = 6
	atCorrelation = 8

	version1Oldest  = 3 // the first with transactions
	version1Produce = 8 // the last of its layout
	version2Produce = 12
)

// newProduceRequest encodes into buffer, if it is large enough. pack may compress the batch where it stands.
func newProduceRequest(version int, buffer []byte, clientID, transactionalID string, to topicPartition, timeout time.Duration, recs []recordbatch.Record, p recordbatch.Producer, pack func(b []byte, batch int) []byte) *produceRequest {
	b := append(buffer[:0], make([]byte, 12)...) // the size, and the header up to the client id
	be := binary.BigEndian
	be.PutUint16(b[4:], uint16(protocol.Produce))
	b = appendString(b, clientID)
	if version == 2 {
		return newProduce12(b, transactionalID, to, timeout, recs, p, pack)
	}
	b = appendString(b, transactionalID)
	b = be.AppendUint16(b, 0xffff) // acks: all replicas in sync
	b = be.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = be.AppendUint32(b, 1)
	b = appendString(b, to.topic)
	b = be.AppendUint32(b, 1)
	b = be.AppendUint32(b, uint32(to.id))
	batch := len(b) + 4
	b = pack(recordbatch.Append(be.AppendUint32(b, 0), recs, p), batch)
	be.PutUint32(b[batch-4:], uint32(len(b)-batch))
	be.PutUint32(b, uint32(len(b)-4))
	return &produceRequest{to: to, oldest: version1Oldest, newest: version1Produce, buffer: b, bytes: b}
}

// newProduce12 continues after the client id. The length before the batch takes as many bytes as the
// batch's size asks for: room is left for five, and the head moves up to what is needed.
func newProduce12(b []byte, transactionalID string, to topicPartition, timeout time.Duration, recs []recordbatch.Record, p recordbatch.Producer, pack func(b []byte, batch int) []byte) *produceRequest {
	be := binary.BigEndian
	b = append(b, 0) // tagged fields of the header
	b = appendCompact(b, transactionalID)
	b = be.AppendUint16(b, 0xffff) // acks: all replicas in sync
	b = be.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = appendCompact(append(b, 1+1), to.topic)
	b = be.AppendUint32(append(b, 1+1), uint32(to.id))
	head := len(b)
	b = append(b, make([]byte, binary.MaxVarintLen32)...)
	batch := len(b)
	b = pack(recordbatch.Append(b, recs, p), batch)
	var length [binary.MaxVarintLen32]byte
	n := binary.PutUvarint(length[:], uint64(len(b)-batch+1))
	copy(b[batch-n:], length[:n])
	b = append(b, 0, 0, 0) // tagged fields of the partition, the topic and the request
	start := binary.MaxVarintLen32 - n
	copy(b[start:], b[:head])
	whole := b[start:]
	be.PutUint32(whole, uint32(len(whole)-4))
	return &produceRequest{to: to, oldest: version2Produce, newest: version2Produce, buffer: b, bytes: whole}
}

// spare keeps the buffer of a request that was answered for the next one. A fresh buffer would have
// to be cleared, and is large enough to bring the collector on with each transaction.
type spare struct {
	most int // bytes of a batch: what is much larger is not kept

	mu     sync.Mutex
	buffer []byte
}

// requestHead is room for what a request holds beside its batch.
const requestHead = 2 << 10

// take returns a buffer for a request with a batch of so many bytes.
func (s *spare) take(batch int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buffer
	s.buffer = nil
	if size := batch + requestHead; cap(b) < size {
		return make([]byte, 0, size+size/8) // the next one may be a little larger
	}
	return b
}

// give takes a buffer that nobody uses any more.
func (s *spare) give(b []byte) {
	if cap(b) > 2*s.most {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(b) > cap(s.buffer) {
		s.buffer = b
	}
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendCompact(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s)+1)), s...)
}

// send writes the request to the partition's leader and returns what the answer says.
func (r *produceRequest) send(ctx context.Context, c *cluster.Cluster, patience cluster.Patience) error {
	m, err := c.Ask(ctx, cluster.Question{
		Request: kmsg.NewPtrProduceRequest(), Least: r.oldest, Most: r.newest, Broker: r.leader, Write: r.write, Patience: patience,
	})
	if err != nil {
		return err
	}
	res := m.(*kmsg.ProduceResponse)
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return fmt.Errorf("an answer about %d topics to a batch for %s/%d", len(res.Topics), r.to.topic, r.to.id)
	}
	p := &res.Topics[0].Partitions[0]
	if err := failure(p.ErrorCode); err != nil {
		if p.ErrorMessage != nil {
			return fmt.Errorf("%w: %s", err, *p.ErrorMessage)
		}
		return err
	}
	return nil
}

func (r *produceRequest) leader(c protocol.Cluster) (protocol.Broker, error) {
	return cluster.Leader(c, r.to.topic, r.to.id)
}

func (r *produceRequest) write(w io.Writer, version int16, correlation int32) error {
	_, err := w.Write(r.addressed(version, correlation))
	return err
}

// addressed are the bytes with this version and correlation id. A copy that timed out may be on its way at the same
// time, on another connection, so what was handed out once is not changed.
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
