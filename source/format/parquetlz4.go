package format

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// lz4InPlace is the codec LZ4_RAW. The library's own decodes into memory of its own where a page shrank to more than a third, and
// parquet-go v0.32.0 then reads the memory that it had given to the codec, with whatever an earlier page has left there: other numbers
// than the file's, without an error. This one decodes to where it is told.
type lz4InPlace struct{ compress.Codec }

// Decode writes a page to dst, which has the size that its header announces: that of the newer pages with their levels, which are not
// compressed.
func (lz4InPlace) Decode(dst, src []byte) ([]byte, error) {
	n, err := lz4.UncompressBlock(src, dst)
	if err != nil {
		return nil, err
	}
	return dst[:n], nil
}

var errLZ4 = errors.New("it is compressed with LZ4, which is not read here: write it with zstd or snappy")

// decodeInPlace makes the columns of a file that are compressed with LZ4 use lz4InPlace. The library has no other way to choose a codec.
func decodeInPlace(c *parquet.Column) error {
	if codec := c.Compression(); codec != nil && codec.CompressionCodec() == format.Lz4Raw {
		field := reflect.ValueOf(c).Elem().FieldByName("compression")
		if !field.IsValid() || field.Type() != reflect.TypeFor[compress.Codec]() {
			return errLZ4
		}
		*(*compress.Codec)(unsafe.Pointer(field.UnsafeAddr())) = lz4InPlace{codec}
	}
	for _, inner := range c.Columns() {
		if err := decodeInPlace(inner); err != nil {
			return err
		}
	}
	return nil
}
