package recordbatch

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"
)

// Append appends one uncompressed batch with recs to dst and returns the longer slice. It writes
// each byte once; when dst has Size(recs) bytes to spare it does not allocate. Record offsets are
// numbered from 0. It panics if recs is empty, because brokers refuse an empty batch.
func Append(dst []byte, recs []Record, p Producer) []byte {
	w := writer{bytes: dst, least: math.MaxInt}
	w.batch(recs, p)
	return w.bytes
}

// Cut is a part of a batch that was not copied into it.
type Cut struct {
	At    int    // Bytes belong before the byte with this index
	Bytes []byte // of a record's value
}

// CutBytes is how large a value is, or a piece of one, that takes longer to copy than to write on its own.
const CutBytes = 4 << 10

// AppendCut is Append without a copy of values, and pieces of values, of CutBytes bytes or more: it appends these to
// cuts, in their order. They must not change before the batch is written.
func AppendCut(dst []byte, cuts []Cut, recs []Record, p Producer) ([]byte, []Cut) {
	w := writer{bytes: dst, cuts: cuts, least: CutBytes}
	w.batch(recs, p)
	return w.bytes, w.cuts
}

// writer appends a batch to bytes.
type writer struct {
	bytes []byte
	cuts  []Cut
	least int // what has as many bytes is a cut
	apart int // bytes of the batch's cuts
	crc   uint32
	from  int // the bytes from here on are not in crc yet
}

func (w *writer) batch(recs []Record, p Producer) {
	if len(recs) == 0 {
		panic("recordbatch: Append of no records")
	}
	start := len(w.bytes)
	base, latest := recs[0].Timestamp, recs[0].Timestamp
	for i := range recs {
		latest = max(latest, recs[i].Timestamp)
	}
	w.bytes, w.from = appendHeader(w.bytes, len(recs), base, latest, p), start+atAttributes
	for i := range recs {
		r := &recs[i]
		w.bytes = appendFront(w.bytes, r, r.Timestamp-base, int64(i))
		w.value(r.Value)
		for _, piece := range r.Rest {
			w.value(piece)
		}
		w.bytes = appendHeaders(w.bytes, r)
		if len(w.bytes)-w.from >= checksumBytes { // they are in the cache now
			w.sum()
		}
	}
	w.sum()
	be := binary.BigEndian
	be.PutUint32(w.bytes[start+atCRC:], w.crc)
	be.PutUint32(w.bytes[start+atLength:], uint32(len(w.bytes)+w.apart-start-lengthStart))
}

func (w *writer) value(piece []byte) {
	if len(piece) < w.least {
		w.bytes = append(w.bytes, piece...)
		return
	}
	w.sum()
	w.crc = crc32.Update(w.crc, castagnoli(), piece)
	w.cuts, w.apart = append(w.cuts, Cut{len(w.bytes), piece}), w.apart+len(piece)
}

func (w *writer) sum() {
	w.crc = crc32.Update(w.crc, castagnoli(), w.bytes[w.from:])
	w.from = len(w.bytes)
}

// checksumBytes is how many bytes are summed at a time: half of a small L1 cache.
const checksumBytes = 16 << 10

// appendHeader appends all fields except the length and the checksum.
func appendHeader(dst []byte, count int, base, latest int64, p Producer) []byte {
	dst = append(dst, make([]byte, headerSize)...)
	b, be := dst[len(dst)-headerSize:], binary.BigEndian
	var attributes uint16
	if p.Transactional {
		attributes |= attrTransaction
	}
	be.PutUint32(b[atLeaderEpoch:], 0xffffffff)
	b[atMagic] = magicV2
	be.PutUint16(b[atAttributes:], attributes)
	be.PutUint32(b[atLastDelta:], uint32(count-1))
	be.PutUint64(b[atBaseTime:], uint64(base))
	be.PutUint64(b[atMaxTime:], uint64(latest))
	be.PutUint64(b[atProducerID:], uint64(p.ID))
	be.PutUint16(b[atProducerEpoch:], uint16(p.Epoch))
	be.PutUint32(b[atSequence:], uint32(p.Sequence))
	be.PutUint32(b[atCount:], uint32(count))
	return dst
}

// Size returns the number of bytes Append adds for recs. A broker compares it with the topic's
// max.message.bytes.
func Size(recs []Record) int {
	n := headerSize
	for i := range recs {
		body := recordSize(&recs[i], recs[i].Timestamp-recs[0].Timestamp, int64(i))
		n += varintSize(int64(body)) + body
	}
	return n
}

// CutSize returns the number of bytes AppendCut adds for recs, without the cuts.
func CutSize(recs []Record) int {
	n := Size(recs)
	for i := range recs {
		n -= cutBytes(recs[i].Value)
		for _, piece := range recs[i].Rest {
			n -= cutBytes(piece)
		}
	}
	return n
}

func cutBytes(piece []byte) int {
	if len(piece) < CutBytes {
		return 0
	}
	return len(piece)
}

// RecordSize returns an upper bound of the bytes that r adds to a batch, at any position in it: for deciding whether
// it still fits, without encoding it.
func RecordSize(r *Record) int {
	const worstDeltas = binary.MaxVarintLen64 + binary.MaxVarintLen32
	body := recordSize(r, 0, 0) - 2 + worstDeltas
	return varintSize(int64(body)) + body
}

// appendFront appends what comes before the value, including the value's length.
func appendFront(dst []byte, r *Record, timeDelta, offsetDelta int64) []byte {
	dst = binary.AppendVarint(dst, int64(recordSize(r, timeDelta, offsetDelta)))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, timeDelta)
	dst = binary.AppendVarint(dst, offsetDelta)
	dst = appendBytes(dst, r.Key)
	if r.Value == nil && len(r.Rest) == 0 {
		return binary.AppendVarint(dst, -1)
	}
	return binary.AppendVarint(dst, int64(valueLength(r)))
}

// appendHeaders appends what comes after the value.
func appendHeaders(dst []byte, r *Record) []byte {
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

// recordSize is the length of the record after its own length field.
func recordSize(r *Record, timeDelta, offsetDelta int64) int {
	n := 1 + varintSize(timeDelta) + varintSize(offsetDelta) + bytesSize(r.Key) + valueSize(r) + varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		n += varintSize(int64(len(h.Key))) + len(h.Key) + bytesSize(h.Value)
	}
	return n
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

func valueLength(r *Record) int {
	n := len(r.Value)
	for _, piece := range r.Rest {
		n += len(piece)
	}
	return n
}

func valueSize(r *Record) int {
	if len(r.Rest) == 0 {
		return bytesSize(r.Value)
	}
	n := valueLength(r)
	return varintSize(int64(n)) + n
}

func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

func varintSize(v int64) int {
	zigzag := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}
