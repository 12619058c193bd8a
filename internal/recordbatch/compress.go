package recordbatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is the compression of a batch's records.
type Codec = codec

// The codecs that are written. Decoders read all that Kafka has.
const (
	None = codecNone
	LZ4  = codecLZ4
	Zstd = codecZstd
)

// zstdWindow is how far back zstd looks. More would help only batches of one large message, and every reader of the
// batch needs as much memory.
const zstdWindow = 1 << 20

// Compressor compresses batches. It is safe for concurrent use. It keeps as many encoders as were in use at the same
// time, until a garbage collection. The zero value is ready.
type Compressor struct{ lz4, zstd, quick sync.Pool }

// Compress compresses the one batch that Append has written at b[at:], in place. A batch that would not get smaller
// stays as it is, so that compression never makes a batch too large for its topic.
func (c *Compressor) Compress(b []byte, at int, to Codec) ([]byte, error) {
	if to == codecNone {
		return b, nil
	}
	records := b[at+headerSize:]
	packed, err := c.Encode(nil, records, to)
	if err != nil {
		return b, err
	}
	if len(packed) >= len(records) {
		return b, nil
	}
	b = append(b[:at+headerSize], packed...)
	sealed(b[at:], to)
	return b, nil
}

// Encode appends src, compressed, to dst.
func (c *Compressor) Encode(dst, src []byte, to Codec) ([]byte, error) {
	switch to {
	case codecLZ4:
		w := pooled(&c.lz4, newLZ4)
		defer c.lz4.Put(w)
		out := bytes.NewBuffer(dst)
		w.Reset(out)
		if _, err := w.Write(src); err != nil {
			return dst, err
		}
		err := w.Close()
		return out.Bytes(), err
	case codecZstd:
		w := pooled(&c.zstd, newZstd)
		defer c.zstd.Put(w)
		return w.EncodeAll(src, dst), nil
	case ZstdQuick:
		z := pooled(&c.quick, func() *quickZstd { return new(quickZstd) })
		defer c.quick.Put(z)
		return z.append(dst, src), nil
	}
	return dst, fmt.Errorf("%w: %s", ErrUnsupported, to)
}

func pooled[T any](p *sync.Pool, make func() T) T {
	if w, ok := p.Get().(T); ok {
		return w
	}
	return make()
}

func newLZ4() *lz4.Writer {
	w := lz4.NewWriter(nil)
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)); err != nil {
		panic(err) // the options are constants
	}
	return w
}

func newZstd() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow))
	if err != nil {
		panic(err) // the options are constants
	}
	return w
}

// Pack appends one batch with recs, compressed by zstd, without encoding all of it first, because large messages may compress
// to a thousandth. It returns false and an unchanged dst if the batch would not get smaller.
func (c *Compressor) Pack(dst []byte, recs []Record, p Producer) ([]byte, bool) {
	start := len(dst)
	base, latest := recs[0].Timestamp, recs[0].Timestamp
	for i := range recs {
		latest = max(latest, recs[i].Timestamp)
	}
	out := &limited{bytes: appendHeader(dst, len(recs), base, latest, p)}
	out.most = len(dst) + Size(recs) - 1
	if err := c.encodeRecords(out, recs); err != nil {
		return dst, false
	}
	sealed(out.bytes[start:], codecZstd)
	return out.bytes, true
}

// PackedSize returns how many bytes Pack appends, or Append if that is fewer.
func (c *Compressor) PackedSize(recs []Record) int {
	plain := Size(recs)
	var out counter
	if err := c.encodeRecords(&out, recs); err != nil {
		return plain
	}
	return min(plain, headerSize+int(out))
}

// sealed sets the codec, the length and the checksum of a batch.
func sealed(batch []byte, to Codec) {
	be := binary.BigEndian
	be.PutUint16(batch[atAttributes:], be.Uint16(batch[atAttributes:])&^codecMask|uint16(to)&codecMask)
	be.PutUint32(batch[atLength:], uint32(len(batch)-lengthStart))
	be.PutUint32(batch[atCRC:], crc32.Checksum(batch[atAttributes:], castagnoli()))
}

// encodeRecords writes recs to w, compressed. The frame says the size of its content, and readers allocate that once: librdkafka would otherwise try
// three times as much again and again, and gives up beyond the 100 MB of its receive.message.max.bytes, though the content may be half as large.
func (c *Compressor) encodeRecords(w io.Writer, recs []Record) error {
	e := pooled(&c.zstd, newZstd)
	defer c.zstd.Put(e)
	e.ResetContentSize(w, int64(Size(recs)-headerSize))
	defer e.Reset(nil)
	var b []byte
	for i := range recs {
		r := &recs[i]
		b = appendFront(b[:0], r, r.Timestamp-recs[0].Timestamp, int64(i))
		for _, piece := range append([][]byte{b, r.Value}, r.Rest...) {
			if _, err := e.Write(piece); err != nil {
				return err
			}
		}
		if _, err := e.Write(appendHeaders(nil, r)); err != nil {
			return err
		}
	}
	return e.Close()
}

// limited is bytes up to a limit.
type limited struct {
	bytes []byte
	most  int
}

// Write appends bytes.
func (l *limited) Write(b []byte) (int, error) {
	if len(l.bytes)+len(b) > l.most {
		return 0, io.ErrShortWrite
	}
	l.bytes = append(l.bytes, b...)
	return len(b), nil
}

// counter counts bytes.
type counter int

// Write takes none of them.
func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
