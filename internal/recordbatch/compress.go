package recordbatch

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is the compression of a batch's records.
type Codec = codec

// The codecs of Kafka.
const (
	None   = codecNone
	Gzip   = codecGzip
	Snappy = codecSnappy
	LZ4    = codecLZ4
	Zstd   = codecZstd
)

// zstdWindow is how far back zstd looks. More would help only batches of one large message, and every reader of the
// batch needs as much memory.
const zstdWindow = 1 << 20

// Compressor compresses batches. It is safe for concurrent use. It keeps as many encoders as were in use at the same
// time, until a garbage collection. The zero value is ready.
type Compressor struct{ gzip, lz4, zstd, quick sync.Pool }

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
	case codecGzip:
		w := pooled(&c.gzip, func() *gzip.Writer { return gzip.NewWriter(nil) })
		defer c.gzip.Put(w)
		return stream(dst, src, w)
	case codecSnappy: // one bare block, which brokers and clients read as well as Java's frames
		return append(dst, snappy.Encode(nil, src)...), nil
	case codecLZ4:
		w := pooled(&c.lz4, newLZ4)
		defer c.lz4.Put(w)
		return stream(dst, src, w)
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

// resetter is implemented by encoders that write to a stream.
type resetter interface {
	io.WriteCloser
	Reset(io.Writer)
}

func stream(dst, src []byte, w resetter) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w.Reset(out)
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	if err := w.Close(); err != nil {
		return dst, err
	}
	return out.Bytes(), nil
}
