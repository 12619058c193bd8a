package sink

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/lca-stream/lca-stream/internal/cluster"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// produceRequest is a Produce request for one batch, encoded once in one buffer and written to the
// connection as it is. kafka-go would copy the batch into pages of its own first.
//
//	size int32 | key 0 int16 | version int16 | correlation int32 | client id string      header v1
//	transactional id string | acks −1 int16 | timeout ms int32                           versions 3 to 8
//	1 topic: name string | 1 partition: id int32 | size int32, record batch
//
// A request that is repeated is the same bytes, but for the version if the broker has changed.
type produceRequest struct {
	to topicPartition

	mu      sync.Mutex
	bytes   []byte
	written bool
}

const (
	atVersion     = 6
	atCorrelation = 8

	oldestProduce = 3 // the first with transactions
	newestProduce = 8 // the last of this layout
)

// newProduceRequest encodes into buffer, if it is large enough. pack may compress the batch where it stands.
func newProduceRequest(buffer []byte, clientID, transactionalID string, to topicPartition, timeout time.Duration, recs []recordbatch.Record, p recordbatch.Producer, pack func(b []byte, batch int) []byte) *produceRequest {
	b := append(buffer[:0], make([]byte, 12)...) // the size, and the header up to the client id
	be := binary.BigEndian
	be.PutUint16(b[4:], uint16(protocol.Produce))
	b = appendString(b, clientID)
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
	return &produceRequest{to: to, bytes: b}
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

// send writes the request to the partition's leader and returns what the answer says.
func (r *produceRequest) send(ctx context.Context, c *cluster.Cluster) error {
	m, err := c.Send(ctx, cluster.Request{Message: &produce.Request{}, Broker: r.leader, Write: r.write, Read: readProduced})
	if err != nil {
		return err
	}
	res := m.(*produce.Response)
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return fmt.Errorf("an answer about %d topics to a batch for %s/%d", len(res.Topics), r.to.topic, r.to.id)
	}
	p := &res.Topics[0].Partitions[0]
	if err := failure(p.ErrorCode); err != nil {
		if p.ErrorMessage != "" {
			return fmt.Errorf("%w: %s", err, p.ErrorMessage)
		}
		return err
	}
	return nil
}

func (r *produceRequest) leader(c protocol.Cluster) (protocol.Broker, error) {
	return cluster.Leader(c, r.to.topic, r.to.id)
}

func (r *produceRequest) write(w io.Writer, version int16, correlation int32) error {
	if version < oldestProduce || version > newestProduce {
		return fmt.Errorf("the broker speaks Produce v%d; v%d (Kafka 0.11) to v%d are known: %w", version, oldestProduce, newestProduce, kafka.UnsupportedVersion)
	}
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

func readProduced(in io.Reader, version int16) (protocol.Message, error) {
	_, m, err := protocol.ReadResponse(in, protocol.Produce, version)
	return m, err
}
