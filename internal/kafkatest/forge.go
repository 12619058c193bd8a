package kafkatest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Forged is a record batch that no client would write, though a broker may well take it: only what the
// header says is checked there, and of compressed records not even that.
type Forged struct {
	Records []byte               // as ForgedRecord makes them, or anything else
	Count   int                  // records that the header claims
	Codec   kgo.CompressionCodec // of Records; the zero value is none
	Bits    uint16               // further attribute bits, such as those of a codec that does not exist
	Change  func(batch []byte)   // changes the batch before its checksum is computed; nil: no change
	Damage  func(batch []byte)   // changes the batch after its checksum was computed; nil: no change
}

// Bytes makes the batch, with the right checksum unless it is damaged.
func (f Forged) Bytes(t testing.TB) []byte {
	t.Helper()
	compressor, err := kgo.DefaultCompressor(f.Codec)
	if err != nil {
		t.Fatal(err)
	}
	records, bits := f.Records, kgo.CompressionCodecType(0)
	if compressor != nil {
		records, bits = compressor.Compress(new(bytes.Buffer), f.Records)
	}
	be := binary.BigEndian
	b := make([]byte, 61, 61+len(records))
	be.PutUint32(b[12:], 0xffffffff) // leader epoch
	b[16] = 2                        // magic
	be.PutUint16(b[21:], uint16(bits)|f.Bits)
	be.PutUint32(b[23:], uint32(f.Count-1))
	now := uint64(time.Now().UnixMilli())
	be.PutUint64(b[27:], now)
	be.PutUint64(b[35:], now)
	be.PutUint64(b[43:], ^uint64(0)) // no producer
	be.PutUint16(b[51:], 0xffff)
	be.PutUint32(b[53:], 0xffffffff)
	be.PutUint32(b[57:], uint32(f.Count))
	b = append(b, records...)
	be.PutUint32(b[8:], uint32(len(b)-12))
	if f.Change != nil {
		f.Change(b)
	}
	be.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	if f.Damage != nil {
		f.Damage(b)
	}
	return b
}

// Stamped gives the records of a batch a timestamp that clients that count in nanoseconds cannot write.
func Stamped(ms int64) func(batch []byte) {
	return func(batch []byte) {
		binary.BigEndian.PutUint64(batch[27:], uint64(ms))
		binary.BigEndian.PutUint64(batch[35:], uint64(ms))
	}
}

// ForgedRecord is a record without a key, at any offset in its batch, with the given number of headers of two bytes each.
func ForgedRecord(offset int, value []byte, headers int) []byte {
	body := binary.AppendVarint([]byte{0, 0}, int64(offset))
	body = binary.AppendVarint(body, -1)
	body = append(binary.AppendVarint(body, int64(len(value))), value...)
	body = binary.AppendVarint(body, int64(headers))
	body = append(body, bytes.Repeat([]byte{0, 1}, headers)...)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// ForgedRecords returns n records, numbered from 0.
func ForgedRecords(n int, value []byte) (all []byte) {
	for i := range n {
		all = append(all, ForgedRecord(i, value, 0)...)
	}
	return all
}

// Produce writes a batch as it is to partition 0 of a topic, and returns the broker's error code.
func (b *Broker) Produce(t testing.TB, topic string, batch []byte) int16 {
	t.Helper()
	client, ctx, done := b.kgo(t)
	defer done()
	meta := kmsg.NewPtrMetadataRequest()
	name := kmsg.NewMetadataRequestTopic()
	name.Topic = kmsg.StringPtr(topic)
	meta.Topics = append(meta.Topics, name)
	known, err := meta.RequestWith(ctx, client)
	if err != nil || len(known.Topics) != 1 || len(known.Topics[0].Partitions) == 0 {
		t.Fatalf("metadata of %s: %+v, %v", topic, known, err)
	}
	parts := known.Topics[0].Partitions
	first := slices.IndexFunc(parts, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == 0 })
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = batch
	top := kmsg.NewProduceRequestTopic()
	top.Topic, top.TopicID = topic, known.Topics[0].TopicID
	top.Partitions = append(top.Partitions, part)
	req.Topics = append(req.Topics, top)
	answer, err := client.Broker(int(parts[first].Leader)).Request(ctx, req)
	if err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
	return answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
}
