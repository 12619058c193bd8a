package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// codecs decompresses the buffers of batches, each into exactly the bytes it announced. It starts
// no goroutines. The zero value is ready and may be used by several goroutines at once.
type codecs struct {
	lz4  sync.Pool // *lz4.Reader
	once sync.Once
	zstd *zstd.Decoder
	err  error
}

// errLength is a buffer that holds more than it says.
var errLength = errors.New("more bytes than it announces")

// decompress fills dst from src; it is an error if src holds less or more.
func (c *codecs) decompress(codec ipcguard.Codec, dst, src []byte) (err error) {
	if codec == ipcguard.Zstd {
		err = c.fromZstd(dst, src)
	} else {
		err = c.fromLZ4(dst, src)
	}
	if err != nil {
		return fmt.Errorf("decompressing %d bytes to %d: %w", len(src), len(dst), err)
	}
	return nil
}

func (c *codecs) fromLZ4(dst, src []byte) error {
	r, _ := c.lz4.Get().(*lz4.Reader)
	if r == nil {
		r = lz4.NewReader(nil)
	}
	defer c.lz4.Put(r)
	r.Reset(bytes.NewReader(src))
	if _, err := io.ReadFull(r, dst); err != nil {
		return err
	}
	var more [1]byte
	switch n, err := r.Read(more[:]); {
	case n > 0:
		return errLength
	case err != nil && !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

func (c *codecs) fromZstd(dst, src []byte) error {
	n, err := c.zstdInto(dst, src)
	if err == nil && n < len(dst) {
		err = fmt.Errorf("%d bytes, %w", n, io.ErrUnexpectedEOF)
	}
	return err
}

// zstdInto decompresses to dst, and returns the number of bytes.
func (c *codecs) zstdInto(dst, src []byte) (int, error) {
	c.once.Do(func() {
		c.zstd, c.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecodeAllCapLimit(true))
	})
	if c.err != nil {
		return 0, c.err
	}
	out, err := c.zstd.DecodeAll(src, dst[:0:len(dst)])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = errLength
	}
	return len(out), err
}

// grow is decompress for a size too large to be believed: memory grows with the bytes that come.
func (c *codecs) grow(codec ipcguard.Codec, src []byte, size int) ([]byte, error) {
	var r io.Reader = lz4.NewReader(bytes.NewReader(src))
	if codec == ipcguard.Zstd {
		z, err := zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, int64(size)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompressing %d bytes to %d: %w", len(src), size, err)
	case n > int64(size):
		return nil, errLength
	case n < int64(size):
		return nil, fmt.Errorf("%d bytes of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	return b.Bytes(), nil
}
