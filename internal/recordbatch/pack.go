package recordbatch

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// Pack appends one compressed batch with recs, without encoding all of it first, because large messages may compress
// to a thousandth. It returns false and an unchanged dst if the batch would not get smaller.
func (c *Compressor) Pack(dst []byte, recs []Record, p Producer, to Codec) ([]byte, bool) {
	start := len(dst)
	base, latest := recs[0].Timestamp, recs[0].Timestamp
	for i := range recs {
		latest = max(latest, recs[i].Timestamp)
	}
	out := &limited{bytes: appendHeader(dst, len(recs), base, latest, p)}
	out.most = len(dst) + Size(recs) - 1
	if err := c.encodeRecords(out, recs, to); err != nil {
		return dst, false
	}
	sealed(out.bytes[start:], to)
	return out.bytes, true
}

// PackedSize returns how many bytes Pack appends, or Append if that is fewer.
func (c *Compressor) PackedSize(recs []Record, to Codec) int {
	plain := Size(recs)
	var out counter
	if err := c.encodeRecords(&out, recs, to); err != nil {
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

// encodeRecords writes recs to w, compressed.
func (c *Compressor) encodeRecords(w io.Writer, recs []Record, to Codec) error {
	switch to {
	case codecGzip:
		e := pooled(&c.gzip, func() *gzip.Writer { return gzip.NewWriter(nil) })
		defer c.gzip.Put(e)
		return writeRecords(e, w, recs)
	case codecLZ4:
		e := pooled(&c.lz4, newLZ4)
		defer c.lz4.Put(e)
		return writeRecords(e, w, recs)
	case codecZstd:
		e := pooled(&c.zstd, newZstd)
		defer c.zstd.Put(e)
		return writeRecords(sizedZstd{e, int64(Size(recs) - headerSize)}, w, recs)
	case codecSnappy: // a block needs all of it
		_, err := w.Write(snappy.Encode(nil, Append(nil, recs, NoProducer())[headerSize:]))
		return err
	}
	return ErrUnsupported
}

// sizedZstd writes the size of its content into the frame. Readers allocate that once. librdkafka would otherwise try three times as much again
// and again, and gives up beyond the 100 MB of its receive.message.max.bytes, though the content may be half as large.
type sizedZstd struct {
	*zstd.Encoder
	content int64
}

// Reset begins a frame, or only forgets w where that is nil.
func (z sizedZstd) Reset(w io.Writer) { z.ResetContentSize(w, z.content) }

func writeRecords(e resetter, w io.Writer, recs []Record) error {
	e.Reset(w)
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
