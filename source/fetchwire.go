package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// The versions of Fetch: the first with transactions, with compact encodings, and with topic ids in place of names
// (KIP-516). Later ones add nothing that is needed here.
const (
	fetchLeast    = 4
	fetchFlexible = 12
	fetchByID     = 13
)

// fetchRequest is a request for one partition. Package kmsg encodes it. The response is parsed here, so that its
// records are not copied. If the topic's id is known and the broker supports ids, the partition is named by that id:
// then nothing is read of another topic that was created under the same name.
type fetchRequest struct {
	partition       Partition
	topic           [16]byte // its id; noTopicID: not known
	trail           trail
	offset          int64
	maxBytes        int32 // the broker returns more if the first batch is larger
	maxWaitMs       int32
	readUncommitted bool
	limit           int  // bytes of the response to keep; the rest is read and dropped
	again           bool // may ask once more with a larger limit
	blocks          *blocks
	patience        kafkaconn.Patience
}

// fetchResponse is a broker's answer for the partition.
type fetchResponse struct {
	throttled     time.Duration // > 0: over a quota; the answer then holds only how long to wait
	code          int16
	highWatermark int64
	lastStable    int64
	aborted       []abortedTxn
	records       []byte // record batches; the last one may be cut off
	block         *block // memory that records is part of
	cut           bool   // the broker sent more than is kept
	need          int64  // bytes of a response of which the beginning is longer than what is kept; nothing else is set then
}

// ApiKey makes it a protocol.Message.
func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch }

func (r *fetchRequest) send(ctx context.Context, c *kafkaconn.Cluster) (*fetchResponse, error) {
	most := int16(fetchByID)
	if r.topic == noTopicID {
		most = fetchFlexible - 1
	}
	m, err := c.Exchange(ctx, kafkaconn.Question{
		Request: r.encoded(), Least: fetchLeast, Most: most,
		Broker:   func(c protocol.Cluster) (protocol.Broker, error) { return r.trail.broker(c, r.partition) },
		Read:     r.read,
		Patience: r.patience,
	})
	if err != nil {
		return nil, err
	}
	return m.(*fetchResponse), nil
}

// encoded returns the request for kmsg: with the topic's name or its id, depending on the version.
func (r *fetchRequest) encoded() *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.PartitionMaxBytes = r.partition.ID, r.trail.epoch, r.offset, r.maxBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = r.partition.Topic, r.topic, append(t.Partitions, p)
	request := kmsg.NewPtrFetchRequest() // no fetch session: sessions save bytes for readers of many partitions
	// The limit is that of the partition, the only one. kfake forgets to list the aborted transactions of a response
	// that is cut off by the limit of the whole.
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = r.maxWaitMs, 1, math.MaxInt32
	if request.IsolationLevel = 1; r.readUncommitted {
		request.IsolationLevel = 0
	}
	request.Topics = append(request.Topics, t)
	return request
}

// read reads the response. It keeps at most limit bytes, so that a partition with larger batches than we accept costs
// time but no memory.
func (r *fetchRequest) read(in io.Reader, version int16) (protocol.Message, error) {
	if version < fetchLeast || version > fetchByID {
		return nil, fmt.Errorf("an answer of Fetch v%d to a request of v%d to v%d", version, fetchLeast, fetchByID)
	}
	kept, over, err := readResponse(in, r.limit, r.blocks)
	if err != nil {
		return nil, err
	}
	res := &fetchResponse{block: kept, cut: over > 0}
	p := wire{b: kept.bytes, flexible: version >= fetchFlexible}
	p.skip(4) // correlation id
	p.tags()
	p.fetchResponse(res, r, version)
	switch {
	case p.failed && res.cut && r.again:
		return &fetchResponse{block: kept, need: int64(len(kept.bytes)) + over}, nil
	case p.failed:
		return nil, errors.New("the response does not parse")
	}
	return res, nil
}

// readResponse reads one response: its size, then that many bytes, of which it keeps the first limit. It returns how
// many bytes it dropped.
func readResponse(in io.Reader, limit int, home *blocks) (kept *block, over int64, err error) {
	var sizeBytes [4]byte
	if _, err := io.ReadFull(in, sizeBytes[:]); err != nil {
		return nil, 0, noEOF(err)
	}
	size := int64(int32(binary.BigEndian.Uint32(sizeBytes[:])))
	if size < 0 {
		return nil, 0, fmt.Errorf("a response of %d bytes", size)
	}
	kept = home.take(int(min(size, int64(limit))))
	if _, err := io.ReadFull(in, kept.bytes); err != nil {
		return nil, 0, noEOF(err)
	}
	over = size - int64(len(kept.bytes))
	if _, err := io.CopyN(io.Discard, in, over); err != nil {
		return nil, 0, noEOF(err)
	}
	return kept, over, nil
}

// noEOF maps io.EOF to io.ErrUnexpectedEOF, because within a response the end of the connection is never the end of
// the data.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// wire reads big-endian fields from the front of b. After the first missing field it returns zeros, and failed is
// set.
type wire struct {
	b        []byte
	flexible bool // lengths are compact, and tagged fields follow each structure (KIP-482)
	failed   bool
}

func (w *wire) fetchResponse(res *fetchResponse, want *fetchRequest, version int16) {
	throttle := time.Duration(w.int32()) * time.Millisecond
	if version >= 7 {
		res.code = w.int16()
		w.skip(4) // session id
	}
	if res.code != 0 {
		return
	}
	topics := w.length()
	if topics == 0 && !w.failed { // KIP-219: a client over its quota gets no topics at all
		res.throttled = max(throttle, minBackoff)
		return
	}
	same := false
	if version >= fetchByID {
		same = [16]byte(w.take(16)) == want.topic
	} else {
		same = w.string() == want.partition.Topic
	}
	partitions := w.length()
	id := w.int32()
	if topics != 1 || !same || partitions != 1 || id != want.partition.ID {
		w.failed = true
		return
	}
	res.code = w.int16()
	res.highWatermark = w.int64()
	res.lastStable = w.int64()
	if version >= 5 {
		w.int64() // the first offset
	}
	for n := w.length(); n > 0 && !w.failed; n-- { // -1 is null
		res.aborted = append(res.aborted, abortedTxn{producer: w.int64(), first: w.int64()})
		w.tags()
	}
	if version >= 11 {
		w.skip(4) // preferred read replica: we name no rack
	}
	size := w.length()
	res.records = w.b[:min(len(w.b), max(size, 0))]
}

// take returns the next n bytes, or n zeros.
func (w *wire) take(n int) []byte {
	if n < 0 || n > len(w.b) {
		w.failed = true
		w.b = nil
		return make([]byte, 16)
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
	n := 0
	if w.flexible {
		n = w.length()
	} else {
		n = int(w.int16())
	}
	if w.failed || n < 0 {
		return ""
	}
	return string(w.take(n))
}

// length reads the length of an array or of bytes; -1 is null.
func (w *wire) length() int {
	if !w.flexible {
		return int(w.int32())
	}
	return w.uvarint() - 1
}

// uvarint reads a varint of at most the largest int32.
func (w *wire) uvarint() int {
	v, n := binary.Uvarint(w.b)
	if n <= 0 || v > math.MaxInt32 {
		w.take(-1)
		return 0
	}
	w.take(n)
	return int(v)
}

// tags skips tagged fields; none of them is needed.
func (w *wire) tags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint(); n > 0 && !w.failed; n-- {
		w.uvarint()
		w.skip(w.uvarint())
	}
}
