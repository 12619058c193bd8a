package sink

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
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
	to      topicPartition
	bytes   []byte
	written bool
}

const (
	atVersion     = 6
	atCorrelation = 8

	oldestProduce = 3 // the first with transactions
	newestProduce = 8 // the last of this layout
)

func newProduceRequest(clientID, transactionalID string, to topicPartition, timeout time.Duration, recs []recordbatch.Record, p recordbatch.Producer) *produceRequest {
	size := recordbatch.Size(recs)
	// A fresh buffer each time: after a timeout the connection may still be writing the old one.
	b := make([]byte, 12, 64+len(clientID)+len(transactionalID)+len(to.topic)+size)
	be := binary.BigEndian
	b = appendString(b, clientID)
	b = appendString(b, transactionalID)
	b = be.AppendUint16(b, 0xffff) // acks: all replicas in sync
	b = be.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = be.AppendUint32(b, 1)
	b = appendString(b, to.topic)
	b = be.AppendUint32(b, 1)
	b = be.AppendUint32(b, uint32(to.id))
	b = be.AppendUint32(b, uint32(size))
	b = recordbatch.Append(b, recs, p)
	be.PutUint32(b, uint32(len(b)-4))
	return &produceRequest{to: to, bytes: b}
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
	be := binary.BigEndian
	if be.Uint16(r.bytes[atVersion:]) != uint16(version) || be.Uint32(r.bytes[atCorrelation:]) != uint32(correlation) {
		if r.written { // a copy that timed out may still be on its way
			r.bytes = slices.Clone(r.bytes)
		}
		be.PutUint16(r.bytes[atVersion:], uint16(version))
		be.PutUint32(r.bytes[atCorrelation:], uint32(correlation))
	}
	r.written = true
	_, err := w.Write(r.bytes)
	return err
}

func readProduced(in io.Reader, version int16) (protocol.Message, error) {
	_, m, err := protocol.ReadResponse(in, protocol.Produce, version)
	return m, err
}
