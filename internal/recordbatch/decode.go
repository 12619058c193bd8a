package recordbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"unsafe"
)

// What can be wrong with a batch. The errors of Decoder wrap one of these and name the offset.
var (
	ErrChecksum    = errors.New("damaged record batch")     // its bytes are not those that were produced: fetching them again may help
	ErrCorrupt     = errors.New("corrupt record batch")     // its bytes are as they were produced, and contradict themselves
	ErrTooLarge    = errors.New("record batch too large")   // more bytes, records or headers than the limit
	ErrUnsupported = errors.New("unsupported record batch") // of a codec or a message format that is not read here
	ErrFraming     = errors.New("broken record set")        // where the next batch begins is lost too
)

// Batch is the header of one batch; its records are still encoded.
type Batch struct {
	BaseOffset   int64
	LastOffset   int64 // of the batch as it was written: compaction may have removed this record, or all of them
	MaxTimestamp int64
	LeaderEpoch  int32 // epoch of the leader that wrote it to the log; -1: the broker does not tell
	Count        int   // records that are left
	Producer     Producer
	Control      bool // written by a broker to end a transaction: see Marker

	attributes uint16
	baseTime   int64
	raw        []byte
	payload    []byte
}

// Decoder decodes a record set batch by batch. Use one in each goroutine.
type Decoder struct {
	maxBytes int
	rest     []byte
	codecs   *Codecs
	held     int
}

// NewDecoder returns a decoder that refuses a batch whose records are larger than maxBytes after decompression, or
// whose records and headers take more than that as Go values in addition to their bytes: a few kilobytes can
// decompress to gigabytes, and seven bytes can be a record. It takes its decompressors from c; nil: its own.
func NewDecoder(maxBytes int, c *Codecs) *Decoder {
	if c == nil {
		c = NewCodecs(1)
	}
	return &Decoder{maxBytes: maxBytes, codecs: c}
}

// Reset starts on a new record set. The decoder does not write to b.
func (d *Decoder) Reset(b []byte) { d.rest = b }

// Limit sets maxBytes for the batches from here on.
func (d *Decoder) Limit(maxBytes int) { d.maxBytes = maxBytes }

// Held returns the memory that the last call of Records allocated, in addition to the record set.
func (d *Decoder) Held() int { return d.held }

// Next reads the header of the next batch and verifies its checksum. It returns io.EOF at the end of the record set.
// A last batch that is cut off counts as the end, because brokers fill a response up to its limit (see Tail). After
// any other error except ErrFraming, b has the fields of an unreadable header, of which only Raw is reliable, and the
// next call goes on behind that batch.
func (d *Decoder) Next(b *Batch) error {
	if len(d.rest) < atMagic+1 {
		return io.EOF
	}
	offset := int64(binary.BigEndian.Uint64(d.rest))
	size, err := d.frame(offset)
	if err != nil {
		return err
	}
	if size > int64(len(d.rest)) {
		return io.EOF
	}
	raw := d.rest[:size]
	d.rest = d.rest[size:]
	if magic := raw[atMagic]; magic != magicV2 {
		*b = Batch{BaseOffset: offset, LastOffset: offset, LeaderEpoch: -1, Count: 1, raw: raw}
		return fmt.Errorf("recordbatch: batch at offset %d: %w: message format v%d, written before Kafka 0.11: copy the topic with a current producer", offset, ErrUnsupported, magic)
	}
	b.parse(raw)
	want := binary.BigEndian.Uint32(raw[atCRC:])
	if got := crc32.Checksum(raw[atAttributes:], castagnoli()); got != want {
		return faulty(offset, ErrChecksum, "checksum %08x, its bytes have %08x", want, got)
	}
	if b.LastOffset < b.BaseOffset || b.LastOffset == math.MaxInt64 || b.Count < 0 {
		return corrupt(offset, "offsets %d to %d, %d records", b.BaseOffset, b.LastOffset, b.Count)
	}
	return nil
}

// frame returns the size of the next batch. A message of a format before 2 has its offset, length and magic byte in
// the same places.
func (d *Decoder) frame(offset int64) (int64, error) {
	length, least := int64(int32(binary.BigEndian.Uint32(d.rest[atLength:]))), int64(headerSize-lengthStart)
	switch magic := d.rest[atMagic]; {
	case magic > magicV2:
		return 0, faulty(offset, ErrFraming, "message format v%d", magic)
	case magic < magicV2:
		least = atMagic + 1 - lengthStart
	}
	if length < least {
		return 0, faulty(offset, ErrFraming, "the length of the batch is %d", length)
	}
	return length + lengthStart, nil
}

// Following returns the offset of the next batch in the record set, if there is one.
func (d *Decoder) Following() (offset int64, ok bool) {
	if len(d.rest) < atMagic+1 || d.rest[atMagic] > magicV2 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(d.rest)), true
}

// Left returns how many bytes of the record set belong to no batch that was read. At the end they are those of a
// batch that is cut off.
func (d *Decoder) Left() int { return len(d.rest) }

// Tail returns the header of the batch that is cut off at the end of the record set, and its whole
// size in bytes. It is false if there is none or too little of it. Nothing in it is verified.
func (d *Decoder) Tail() (b Batch, size int64, ok bool) {
	if len(d.rest) < headerSize || d.rest[atMagic] > magicV2 {
		return Batch{}, 0, false
	}
	size = lengthStart + int64(int32(binary.BigEndian.Uint32(d.rest[atLength:])))
	if d.rest[atMagic] < magicV2 {
		offset := int64(binary.BigEndian.Uint64(d.rest))
		return Batch{BaseOffset: offset, LastOffset: offset, LeaderEpoch: -1, Count: 1}, size, true
	}
	b.parse(d.rest)
	return b, size, b.LastOffset >= b.BaseOffset
}

func (b *Batch) parse(raw []byte) {
	be := binary.BigEndian
	b.BaseOffset = int64(be.Uint64(raw))
	b.LastOffset = b.BaseOffset + int64(int32(be.Uint32(raw[atLastDelta:])))
	b.MaxTimestamp = int64(be.Uint64(raw[atMaxTime:]))
	b.LeaderEpoch = int32(be.Uint32(raw[atLeaderEpoch:]))
	b.Count = int(int32(be.Uint32(raw[atCount:])))
	b.attributes = be.Uint16(raw[atAttributes:])
	b.Control = b.attributes&attrControl != 0
	b.Producer = Producer{
		ID:            int64(be.Uint64(raw[atProducerID:])),
		Epoch:         int16(be.Uint16(raw[atProducerEpoch:])),
		Sequence:      int32(be.Uint32(raw[atSequence:])),
		Transactional: b.attributes&attrTransaction != 0,
	}
	b.baseTime = int64(be.Uint64(raw[atBaseTime:]))
	b.raw, b.payload = raw, raw[headerSize:]
}

// Raw returns the whole batch as the broker stores it. It is part of the record set.
func (b *Batch) Raw() []byte { return b.raw }

// Size returns the number of bytes of the batch's records before decompression.
func (b *Batch) Size() int { return len(b.payload) }

// Records appends the records of b to dst. Keys and values point into the record set, or into one
// new buffer if the batch is compressed.
func (d *Decoder) Records(dst []Record, b *Batch) ([]Record, error) {
	d.held = 0
	if room := d.maxBytes / RecordBytes; b.Count > room {
		return dst, faulty(b.BaseOffset, ErrTooLarge, "%d records, at most %d are taken from one batch", b.Count, room)
	}
	payload, err := d.codecs.decompress(b.payload, codec(b.attributes&codecMask), d.maxBytes)
	if err != nil {
		return dst, fmt.Errorf("recordbatch: batch at offsets %d to %d: %w", b.BaseOffset, b.LastOffset, err)
	}
	if b.Count > len(payload)/minRecordSize {
		return dst, corrupt(b.BaseOffset, "%d records in %d bytes", b.Count, len(payload))
	}
	dst = slices.Grow(dst, min(b.Count, len(payload)/usualRecordSize))
	most := d.maxBytes - b.Count*RecordBytes
	left := most
	c := cursor{b: payload}
	previous := b.BaseOffset - 1
	for i := range b.Count {
		var r Record
		if !c.record(&r, &left) {
			if left < 0 {
				return dst, faulty(b.BaseOffset, ErrTooLarge, "the headers of record %d of %d take more than %d bytes in memory", i+1, b.Count, d.maxBytes)
			}
			return dst, corrupt(b.BaseOffset, "record %d of %d does not parse", i+1, b.Count)
		}
		r.Offset += b.BaseOffset
		if r.Offset <= previous || r.Offset > b.LastOffset {
			return dst, corrupt(b.BaseOffset, "record %d of %d has offset %d", i+1, b.Count, r.Offset)
		}
		previous = r.Offset
		if b.attributes&attrLogAppend != 0 {
			r.Timestamp = b.MaxTimestamp
		} else {
			r.Timestamp += b.baseTime
		}
		dst = append(dst, r)
	}
	if len(c.b) != 0 {
		return dst, corrupt(b.BaseOffset, "%d bytes after its last record", len(c.b))
	}
	d.held = b.Count*RecordBytes + most - left
	if b.attributes&codecMask != 0 {
		d.held += len(payload)
	}
	return dst, nil
}

// End is how a transaction ended.
type End int

// Kinds of control records. OtherControl is for those that brokers keep for themselves.
const (
	OtherControl End = iota
	Aborted
	Committed
)

// Marker reads the record of a control batch. A control batch emptied by compaction is OtherControl.
func (d *Decoder) Marker(b *Batch) (End, error) {
	var space [1]Record
	recs, err := d.Records(space[:0], b)
	if err != nil {
		return OtherControl, err
	}
	if len(recs) == 0 {
		return OtherControl, nil
	}
	key := recs[0].Key // int16 version, int16 type; later versions may append
	if len(key) < 4 {
		return OtherControl, corrupt(b.BaseOffset, "control record with a key of %d bytes", len(key))
	}
	switch binary.BigEndian.Uint16(key[2:]) {
	case 0:
		return Aborted, nil
	case 1:
		return Committed, nil
	}
	return OtherControl, nil
}

func corrupt(offset int64, format string, args ...any) error {
	return faulty(offset, ErrCorrupt, format, args...)
}

func faulty(offset int64, kind error, format string, args ...any) error {
	return fmt.Errorf("recordbatch: batch at offset %d: %w: %s", offset, kind, fmt.Sprintf(format, args...))
}

// RecordBytes is the memory that a record takes in addition to the bytes it points to.
const RecordBytes = int(unsafe.Sizeof(Record{}))

const headerBytes = int(unsafe.Sizeof(Header{}))

// minRecordSize is a record with null key and value: length, attributes, five varints of one byte.
const minRecordSize = 7

// usualRecordSize is the typical memory of a record in addition to its bytes. If the records have at least this size,
// memory for all of them is allocated at once, from the count in the header; for smaller ones it is allocated as they
// are found.
const usualRecordSize = 128

// cursor reads from the front of b; its methods return false when the bytes do not parse.
type cursor struct{ b []byte }

// record reads one record, with offset and timestamp relative to the batch, and subtracts what its headers need from
// left. If they need more, left becomes negative and nothing is allocated for them.
func (c *cursor) record(r *Record, left *int) bool {
	size, ok := c.varint()
	if !ok || size < minRecordSize-1 || size > int64(len(c.b)) {
		return false
	}
	in := cursor{b: c.b[1:size]} // the attribute byte has no meaning yet
	c.b = c.b[size:]
	var headers int64
	if r.Timestamp, ok = in.varint(); !ok {
		return false
	}
	if r.Offset, ok = in.varint(); !ok {
		return false
	}
	if r.Key, ok = in.bytes(); !ok {
		return false
	}
	if r.Value, ok = in.bytes(); !ok {
		return false
	}
	if headers, ok = in.varint(); !ok || headers < 0 || headers > int64(len(in.b)/2) {
		return false
	}
	return in.headers(r, int(headers), left) && len(in.b) == 0
}

func (c *cursor) headers(r *Record, n int, left *int) bool {
	if n == 0 {
		return true
	}
	if *left -= n * headerBytes; *left < 0 {
		return false
	}
	r.Headers = make([]Header, n)
	for i := range r.Headers {
		key, ok := c.bytes()
		if !ok || key == nil {
			return false
		}
		if *left -= len(key); *left < 0 {
			return false
		}
		r.Headers[i].Key = string(key)
		if r.Headers[i].Value, ok = c.bytes(); !ok {
			return false
		}
	}
	return true
}

func (c *cursor) varint() (int64, bool) {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		return 0, false
	}
	c.b = c.b[n:]
	return v, true
}

// bytes reads a length and that many bytes; -1 is null.
func (c *cursor) bytes() ([]byte, bool) {
	n, ok := c.varint()
	if !ok || n < -1 || n > int64(len(c.b)) {
		return nil, false
	}
	if n < 0 {
		return nil, true
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b, true
}
