package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/lca-stream/lca-stream/internal/cluster"
)

// fetchRequest asks for one partition. kafka-go encodes the request; the response is read here,
// because kafka-go's decoder forgets the aborted transactions and the last offsets of batches.
type fetchRequest struct {
	partition       Partition
	trail           trail
	offset          int64
	maxBytes        int32 // the broker sends more if the first batch is larger
	maxWaitMs       int32
	readUncommitted bool
	limit           int // bytes of the response to keep; the rest is read and dropped
	blocks          *blocks
	patience        cluster.Patience
}

// fetchResponse is what a broker says of the partition.
type fetchResponse struct {
	throttled     time.Duration // > 0: over a quota, and so nothing but how long to wait
	code          int16
	highWatermark int64
	lastStable    int64
	logStart      int64
	aborted       []abortedTxn
	records       []byte // record batches, the last one may be cut off
	block         *block // what records is part of
	cut           bool   // the broker sent more than is kept
}

// ApiKey makes it a protocol.Message.
func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch }

func (r *fetchRequest) send(ctx context.Context, c *cluster.Cluster) (*fetchResponse, error) {
	isolation := int8(1)
	if r.readUncommitted {
		isolation = 0
	}
	m, err := c.Send(ctx, cluster.Request{
		Message: &fetch.Request{
			ReplicaID:      -1,
			MaxWaitTime:    r.maxWaitMs,
			MinBytes:       1,
			MaxBytes:       r.maxBytes,
			IsolationLevel: isolation,
			SessionEpoch:   -1, // no fetch session: they save bytes for readers of many partitions
			Topics: []fetch.RequestTopic{{Topic: r.partition.Topic, Partitions: []fetch.RequestPartition{{
				Partition:          r.partition.ID,
				CurrentLeaderEpoch: r.trail.epoch,
				FetchOffset:        r.offset,
				LogStartOffset:     -1,
				PartitionMaxBytes:  r.maxBytes,
			}}}},
		},
		Broker: func(c protocol.Cluster) (protocol.Broker, error) { return r.trail.broker(c, r.partition) },
		Read:   r.read,

		Patience: r.patience,
	})
	if err != nil {
		return nil, err
	}
	return m.(*fetchResponse), nil
}

// read reads the response. It keeps at most limit bytes, so that a partition with larger batches
// than we take costs time but no memory.
func (r *fetchRequest) read(in io.Reader, version int16) (protocol.Message, error) {
	if version < 4 {
		return nil, fmt.Errorf("the broker speaks Fetch v%d; v4 (Kafka 0.11) is needed", version)
	}
	kept, cut, err := readResponse(in, r.limit, r.blocks)
	if err != nil {
		return nil, err
	}
	res := &fetchResponse{block: kept, cut: cut}
	p := wire{b: kept.bytes}
	p.skip(4) // correlation id
	p.fetchResponse(res, r.partition, version)
	if p.failed {
		return nil, errors.New("the response does not parse")
	}
	return res, nil
}

// readResponse reads one response: its size, then as many bytes, of which it keeps the first limit.
func readResponse(in io.Reader, limit int, home *blocks) (kept *block, cut bool, err error) {
	var sizeBytes [4]byte
	if _, err := io.ReadFull(in, sizeBytes[:]); err != nil {
		return nil, false, noEOF(err)
	}
	size := int64(int32(binary.BigEndian.Uint32(sizeBytes[:])))
	if size < 0 {
		return nil, false, fmt.Errorf("a response of %d bytes", size)
	}
	kept = home.take(int(min(size, int64(limit))))
	if _, err := io.ReadFull(in, kept.bytes); err != nil {
		return nil, false, noEOF(err)
	}
	over := size - int64(len(kept.bytes))
	if _, err := io.CopyN(io.Discard, in, over); err != nil {
		return nil, false, noEOF(err)
	}
	return kept, over > 0, nil
}

// noEOF: within a response the end of the connection is never the end of the data.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// wire reads big-endian fields from the front of b. After the first that is not there it returns
// zeros, and failed is set.
type wire struct {
	b      []byte
	failed bool
}

func (w *wire) fetchResponse(res *fetchResponse, want Partition, version int16) {
	throttle := time.Duration(w.int32()) * time.Millisecond
	if version >= 7 {
		res.code = w.int16()
		w.skip(4) // session id
	}
	if res.code != 0 {
		return
	}
	topics := w.int32()
	if topics == 0 && !w.failed { // KIP-219: whoever is over a quota gets no topics at all
		res.throttled = max(throttle, minBackoff)
		return
	}
	name := w.string()
	partitions := w.int32()
	id := w.int32()
	if topics != 1 || name != want.Topic || partitions != 1 || id != want.ID {
		w.failed = true
		return
	}
	res.code = w.int16()
	res.highWatermark = w.int64()
	res.lastStable = w.int64()
	res.logStart = -1
	if version >= 5 {
		res.logStart = w.int64()
	}
	for n := w.int32(); n > 0 && !w.failed; n-- { // -1 is null
		res.aborted = append(res.aborted, abortedTxn{producer: w.int64(), first: w.int64()})
	}
	if version >= 11 {
		w.skip(4) // preferred read replica: we name no rack
	}
	size := int(w.int32())
	res.records = w.b[:min(len(w.b), max(size, 0))]
}

// take returns the next n bytes, or n zeros.
func (w *wire) take(n int) []byte {
	if n < 0 || n > len(w.b) {
		w.failed = true
		w.b = nil
		return make([]byte, 8)
	}
	b := w.b[:n]
	w.b = w.b[n:]
	return b
}

func (w *wire) skip(n int)   { w.take(n) }
func (w *wire) int16() int16 { return int16(binary.BigEndian.Uint16(w.take(2))) }
func (w *wire) int32() int32 { return int32(binary.BigEndian.Uint32(w.take(4))) }
func (w *wire) int64() int64 { return int64(binary.BigEndian.Uint64(w.take(8))) }

func (w *wire) string() string {
	n := int(w.int16())
	if w.failed || n < 0 {
		return ""
	}
	return string(w.take(n))
}
