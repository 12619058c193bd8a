package recordbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// What can be wrong with a batch. The errors of Decoder wrap one of these and name the offset.
var (
	ErrCorrupt     = errors.New("corrupt record batch")
	ErrTooLarge    = errors.New("record batch too large")
	ErrUnsupported = errors.New("unsupported record batch")
)

// Batch is the header of one batch; its records are still encoded.
type Batch struct {
	BaseOffset   int64
	LastOffset   int64 // of the batch as it was written: compaction may have removed the record, or all
	MaxTimestamp int64
	LeaderEpoch  int32 // of the leader that wrote it to the log; -1: the broker does not say
	Count        int   // records that are left
	Producer     Producer
	Control      bool // written by a broker to end a transaction: see Marker

	attributes uint16
	baseTime   int64
	payload    []byte
}

// Decoder takes a record set apart, batch by batch. It keeps decompressors between calls; use one
// in each goroutine.
type Decoder struct {
	maxBytes int
	rest     []byte
	codecs   codecs
}

// NewDecoder returns a decoder that gives up on a batch whose records are larger than maxBytes
// after decompression: a few kilobytes can decompress to gigabytes.
func NewDecoder(maxBytes int) *Decoder { return &Decoder{maxBytes: maxBytes} }

// Reset starts on a new record set. The decoder does not write to b.
func (d *Decoder) Reset(b []byte) { d.rest = b }

// Next reads the header of the next batch and verifies its checksum. It returns io.EOF at the end
// of the record set; a last batch that is cut off counts as the end, because brokers fill a
// response up to its limit (see Tail).
func (d *Decoder) Next(b *Batch) error {
	if len(d.rest) < atMagic+1 {
		return io.EOF
	}
	offset := int64(binary.BigEndian.Uint64(d.rest))
	if magic := d.rest[atMagic]; magic != magicV2 {
		return fmt.Errorf("recordbatch: batch at offset %d: %w: message format v%d, written before Kafka 0.11: copy the topic with a current producer", offset, ErrUnsupported, magic)
	}
	length := int64(int32(binary.BigEndian.Uint32(d.rest[atLength:])))
	if length < headerSize-lengthStart {
		return corrupt(offset, "its length is %d", length)
	}
	size := length + lengthStart
	if size > int64(len(d.rest)) {
		return io.EOF
	}
	raw := d.rest[:size]
	want := binary.BigEndian.Uint32(raw[atCRC:])
	if got := crc32.Checksum(raw[atAttributes:], castagnoli()); got != want {
		return corrupt(offset, "checksum %08x, its bytes have %08x", want, got)
	}
	b.parse(raw)
	if b.LastOffset < b.BaseOffset || b.Count < 0 {
		return corrupt(offset, "offsets %d to %d, %d records", b.BaseOffset, b.LastOffset, b.Count)
	}
	d.rest = d.rest[size:]
	return nil
}

// Left is how many bytes of the record set no batch has been read from: at its end, those of one that is cut off.
func (d *Decoder) Left() int { return len(d.rest) }

// Tail returns the header of the batch that is cut off at the end of the record set, and its whole
// size in bytes. It is false if there is none or too little of it. Nothing in it is verified.
func (d *Decoder) Tail() (b Batch, size int64, ok bool) {
	if len(d.rest) < headerSize || d.rest[atMagic] != magicV2 {
		return Batch{}, 0, false
	}
	b.parse(d.rest)
	return b, lengthStart + int64(int32(binary.BigEndian.Uint32(d.rest[atLength:]))), b.LastOffset >= b.BaseOffset
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
	b.payload = raw[headerSize:]
}

// Size is the number of bytes of the batch's records before decompression.
func (b *Batch) Size() int { return len(b.payload) }

// Records appends the records of b to dst. Keys and values point into the record set, or into one
// new buffer if the batch is compressed.
func (d *Decoder) Records(dst []Record, b *Batch) ([]Record, error) {
	payload, err := d.codecs.decompress(b.payload, codec(b.attributes&codecMask), d.maxBytes)
	if err != nil {
		return dst, fmt.Errorf("recordbatch: batch at offsets %d to %d: %w", b.BaseOffset, b.LastOffset, err)
	}
	if b.Count > len(payload)/minRecordSize {
		return dst, corrupt(b.BaseOffset, "%d records in %d bytes", b.Count, len(payload))
	}
	dst = slices.Grow(dst, min(b.Count, len(payload)/usualRecordSize))
	c := cursor{b: payload}
	previous := b.BaseOffset - 1
	for i := range b.Count {
		var r Record
		if !c.record(&r) {
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
	return dst, nil
}

// End says how a transaction ended.
type End int

// Kinds of control record. OtherControl is for those brokers keep for themselves.
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
	return fmt.Errorf("recordbatch: batch at offset %d: %w: %s", offset, ErrCorrupt, fmt.Sprintf(format, args...))
}

// minRecordSize is a record with null key and value: length, attributes, five varints of one byte.
const minRecordSize = 7

// usualRecordSize is what a record takes in memory beside its bytes. Room for records of that size and more is
// made at once, on the word of the batch's header; for smaller ones as they are found.
const usualRecordSize = 128

// cursor reads from the front of b; its methods return false when the bytes do not parse.
type cursor struct{ b []byte }

// record reads one record, with offset and timestamp relative to the batch.
func (c *cursor) record(r *Record) bool {
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
	return in.headers(r, int(headers)) && len(in.b) == 0
}

func (c *cursor) headers(r *Record, n int) bool {
	if n == 0 {
		return true
	}
	r.Headers = make([]Header, n)
	for i := range r.Headers {
		key, ok := c.bytes()
		if !ok || key == nil {
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
