// Package recordbatch reads and writes Kafka's record batches, message format v2: the bytes inside
// Fetch and Produce requests, and on a broker's disk.
//
// We have our own codec because the exactly-once path needs what client libraries hide: a batch
// that carries a producer's id, epoch and sequence (without them there is no transaction), control
// batches (they end aborted transactions), the last offset of a batch that compaction has emptied
// (without it a reader never advances), and a checksum that is verified. kmsg.RecordBatch of franz-go is the header
// alone: it compares no checksum and leaves the records, and whether they fit, to its caller.
//
//	offset size field
//	     0    8 base offset            0 when produced; the broker fills it in
//	     8    4 batch length           bytes that follow this field
//	    12    4 leader epoch           -1 when produced; not under the checksum
//	    16    1 magic                  2
//	    17    4 CRC-32C                of everything from byte 21 on
//	    21    2 attributes             bits 0-2 codec, 3 log append time, 4 transactional, 5 control
//	    23    4 last offset delta      stays when compaction removes records
//	    27    8 base timestamp         ms; record timestamps are deltas to it
//	    35    8 max timestamp          ms
//	    43    8 producer id            -1: none
//	    51    2 producer epoch
//	    53    4 base sequence
//	    57    4 record count           may be 0 after compaction
//	    61      records, compressed as a whole if the codec says so
//
// A record is a varint length, then: one attribute byte (0), varint timestamp delta, varint offset
// delta, key and value (varint length, -1 is null, then bytes), varint header count, headers (key
// as a varint-length string, value like a record's value). Varints are zig-zag, as in protobuf.
//
// The format is defined by https://kafka.apache.org/documentation/#recordbatch.
package recordbatch

import "hash/crc32"

// Header is one header of a record. A nil Value is Kafka's null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a batch. A nil Key or Value is Kafka's null, which differs from empty.
type Record struct {
	Offset    int64 // ignored by Append: the broker numbers records
	Timestamp int64 // milliseconds since 1970
	Key       []byte
	Value     []byte
	Rest      [][]byte // where the value goes on, for Append: pieces are put together only there
	Headers   []Header
}

// Producer is the identity a broker checks a batch against: one producer may add to a partition
// only in the order of its sequence numbers, and only with its newest epoch.
type Producer struct {
	ID            int64
	Epoch         int16
	Sequence      int32 // of the first record of the batch
	Transactional bool
}

// NoProducer returns the identity of a batch that is neither idempotent nor transactional.
// (The zero Producer names producer 0, which exists.)
func NoProducer() Producer { return Producer{ID: -1, Epoch: -1, Sequence: -1} }

// NextSequence returns the sequence number that follows n records after seq; it wraps to 0 after
// the largest int32, as brokers expect.
func NextSequence(seq int32, n int) int32 {
	return int32((int64(seq) + int64(n)) & 0x7fffffff)
}

// Positions of the fields drawn above, from the start of the batch.
const (
	atLength        = 8
	atLeaderEpoch   = 12
	atMagic         = 16
	atCRC           = 17
	atAttributes    = 21
	atLastDelta     = 23
	atBaseTime      = 27
	atMaxTime       = 35
	atProducerID    = 43
	atProducerEpoch = 51
	atSequence      = 53
	atCount         = 57
	headerSize      = 61

	lengthStart = atLeaderEpoch // the length field counts from here
)

// Bits of the attributes field.
const (
	codecMask            = 0x07
	attrLogAppend        = 1 << 3
	attrTransaction      = 1 << 4
	attrControl          = 1 << 5
	magicV2         byte = 2
)

// castagnoli is a table lookup: hash/crc32 keeps this one and uses the CPU's CRC instruction.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
