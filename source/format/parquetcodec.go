package format

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unsafe"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// boundedCodec decompresses the pages of a column to the memory that is there, which has the size that the page's header announces, and measures what
// they hold before the library decodes it. The library's own codecs take as much memory as the bytes ask for. And its LZ4_RAW decodes into memory of
// its own where a page shrank to more than a third: parquet-go v0.32.0 then reads the memory that it had given to the codec, with whatever an
// earlier page has left there: other numbers than the file's, without an error.
type boundedCodec struct {
	compress.Codec
	guard *pageGuard
	*codecs
}

// decodes makes a column use the guard's codec. The library has no other way to choose one.
func (g *pageGuard) decodes(c *parquet.Column, shared *codecs) error {
	codec := c.Compression()
	if codec == nil || codec.CompressionCodec() == format.Uncompressed {
		return nil
	}
	field := reflect.ValueOf(c).Elem().FieldByName("compression")
	if !field.IsValid() || field.Type() != reflect.TypeFor[compress.Codec]() {
		return fmt.Errorf("it is compressed with %v, which is not read here: write it without compression", codec)
	}
	*(*compress.Codec)(unsafe.Pointer(field.UnsafeAddr())) = &boundedCodec{codec, g, shared}
	return nil
}

// Decode writes a page to dst.
func (c *boundedCodec) Decode(dst, src []byte) ([]byte, error) {
	n, err := c.fill(dst, src)
	if err != nil {
		return nil, err
	}
	return dst[:n], c.guard.decoded(dst[:n])
}

func (c *boundedCodec) fill(dst, src []byte) (int, error) {
	switch as := c.CompressionCodec(); as {
	case format.Lz4Raw:
		return lz4.UncompressBlock(src, dst)
	case format.Snappy:
		n, err := snappy.DecodedLen(src)
		if err != nil || n > len(dst) {
			return 0, errors.Join(err, errLength)
		}
		out, err := snappy.Decode(dst, src)
		return len(out), err
	case format.Zstd:
		return c.zstdInto(dst, src)
	case format.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return 0, err
		}
		return fillFrom(dst, r)
	case format.Brotli:
		return fillFrom(dst, brotli.NewReader(bytes.NewReader(src)))
	default:
		return 0, fmt.Errorf("it is compressed with %v, which is not read here: write it with zstd or snappy", as)
	}
}

// fillFrom reads all that there is, which must not be more than there is room for.
func fillFrom(dst []byte, r io.Reader) (n int, err error) {
	n, err = io.ReadFull(r, dst)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	if more, err := r.Read(make([]byte, 1)); more > 0 || !errors.Is(err, io.EOF) {
		return n, errors.Join(errLength, err)
	}
	return n, nil
}
