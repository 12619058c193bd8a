package format

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// forgedPage is a page of a file with one column that is never null.
type forgedPage struct {
	rows, plain int // as its header says
	as          format.Encoding
	body        []byte
	dictionary  []byte // the page before it
	words       int    // in it
}

// forgeParquet writes a file of one page.
func forgeParquet(t *testing.T, kind parquet.Kind, width int, codec format.CompressionCodec, p forgedPage) string {
	t.Helper()
	marshal := func(v any) []byte {
		b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	file := []byte("PAR1")
	meta := format.ColumnMetaData{Type: format.Type(kind), PathInSchema: []string{"a"}, Codec: codec, NumValues: int64(p.rows)}
	if p.dictionary != nil {
		meta.DictionaryPageOffset = 4
		h := format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(p.dictionary)), CompressedPageSize: int32(len(p.dictionary))}
		h.DictionaryPageHeader.Valid, h.DictionaryPageHeader.V = true, format.DictionaryPageHeader{NumValues: int32(p.words)}
		file = append(append(file, marshal(&h)...), p.dictionary...)
	}
	meta.DataPageOffset = int64(len(file))
	h := format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(p.plain), CompressedPageSize: int32(len(p.body))}
	h.DataPageHeader.Valid, h.DataPageHeader.V = true, format.DataPageHeader{NumValues: int32(p.rows), Encoding: p.as, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}
	file = append(append(file, marshal(&h)...), p.body...)
	meta.TotalCompressedSize, meta.TotalUncompressedSize = int64(len(file)-4), int64(len(file)-4)
	root, leaf := format.SchemaElement{Name: "root"}, format.SchemaElement{Name: "a"}
	root.NumChildren.Valid, root.NumChildren.V = true, 1
	leaf.Type.Valid, leaf.Type.V = true, format.Type(kind)
	if width > 0 {
		leaf.TypeLength.Valid, leaf.TypeLength.V = true, int32(width)
	}
	leaf.RepetitionType.Valid, leaf.RepetitionType.V = true, format.Required
	footer := marshal(&format.FileMetaData{Version: 1, Schema: []format.SchemaElement{root, leaf}, NumRows: int64(p.rows), RowGroups: []format.RowGroup{{
		Columns: []format.ColumnChunk{{MetaData: meta}}, NumRows: int64(p.rows), TotalByteSize: int64(len(file)),
	}}})
	return withFooter(t, file, footer)
}

func withFooter(t *testing.T, file, footer []byte) string {
	t.Helper()
	file = append(file, footer...)
	file = append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
	path := filepath.Join(t.TempDir(), "forged.parquet")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// varints are unsigned ones.
func varints(of ...uint64) (b []byte) {
	for _, v := range of {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// A file takes what a batch may take, whatever its pages, their codecs and its footer say, and is refused with its size where it would take more.
// (Each of these took gigabytes: 2.9 MB of a dictionary 10 GiB.)
func TestParquetTakesWhatABatchMay(t *testing.T) {
	const most = 16 << 20
	bomb := make([]byte, 256<<20)
	short := func(n int) []byte { return bomb[:n:n] }
	text := func(n int) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(n)), short(n)...) }
	var zipped, packed bytes.Buffer
	for w, of := range map[interface {
		Write([]byte) (int, error)
		Close() error
	}]*bytes.Buffer{gzip.NewWriter(&zipped): &zipped, brotli.NewWriterLevel(&packed, 1): &packed} {
		if _, err := w.Write(bomb); err != nil || w.Close() != nil || of.Len() == 0 {
			t.Fatal(err)
		}
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	runs := func(width byte, n uint64) []byte { return append([]byte{width}, append(varints(n<<1), 0, 0, 0, 0)...) }
	deltas := func(total uint64) []byte { return varints(1<<10, 4, total, 0) }
	// a prefix of a megabyte for each of 1000 texts: the first is 0, then one difference of a million
	prefixes := append(varints(1<<10, 1, 1000, 2<<20), append(varints(0), 0)...)
	prefixes = append(prefixes, append(varints(1<<10, 1, 1000, 0), append(varints(0), 0)...)...)
	for name, path := range map[string]string{
		"a dictionary's text":   forgeParquet(t, parquet.ByteArray, 0, format.Uncompressed, forgedPage{rows: 100_000, plain: 6, as: format.RLEDictionary, body: runs(1, 100_000), dictionary: text(1 << 20), words: 1}),
		"the size of a page":    forgeParquet(t, parquet.Double, 0, format.Zstd, forgedPage{rows: 10, plain: math.MaxInt32, body: z.EncodeAll(short(80), nil)}),
		"the values of a page":  forgeParquet(t, parquet.Double, 0, format.Uncompressed, forgedPage{rows: math.MaxInt32, plain: 6, as: format.RLEDictionary, body: runs(1, math.MaxInt32), dictionary: short(8), words: 1}),
		"runs":                  forgeParquet(t, parquet.Double, 0, format.Uncompressed, forgedPage{rows: 10, plain: 6, as: format.RLEDictionary, body: runs(1, math.MaxInt32), dictionary: short(8), words: 1}),
		"runs of no width":      forgeParquet(t, parquet.Double, 0, format.Uncompressed, forgedPage{rows: 10, plain: 6, as: format.RLEDictionary, body: runs(0, math.MaxInt32), dictionary: short(8), words: 1}),
		"runs of booleans":      forgeParquet(t, parquet.Boolean, 0, format.Uncompressed, forgedPage{rows: 10, plain: 9, as: format.RLE, body: append([]byte{6, 0, 0, 0}, runs(0, math.MaxInt32)[1:]...)}),
		"differences":           forgeParquet(t, parquet.Int64, 0, format.Uncompressed, forgedPage{rows: 10, plain: 9, as: format.DeltaBinaryPacked, body: deltas(math.MaxInt32)}),
		"lengths":               forgeParquet(t, parquet.ByteArray, 0, format.Uncompressed, forgedPage{rows: 10, plain: 9, as: format.DeltaLengthByteArray, body: deltas(math.MaxInt32)}),
		"prefixes":              forgeParquet(t, parquet.ByteArray, 0, format.Uncompressed, forgedPage{rows: 1000, plain: len(prefixes), as: format.DeltaByteArray, body: prefixes}),
		"zstd":                  forgeParquet(t, parquet.Double, 0, format.Zstd, forgedPage{rows: 10, plain: 80, body: z.EncodeAll(bomb, nil)}),
		"snappy":                forgeParquet(t, parquet.Double, 0, format.Snappy, forgedPage{rows: 10, plain: 80, body: snappy.Encode(nil, bomb[:64<<20])}),
		"gzip":                  forgeParquet(t, parquet.Double, 0, format.Gzip, forgedPage{rows: 10, plain: 80, body: zipped.Bytes()}),
		"brotli":                forgeParquet(t, parquet.Double, 0, format.Brotli, forgedPage{rows: 10, plain: 80, body: packed.Bytes()}),
		"a gigabyte a value":    forgeParquet(t, parquet.FixedLenByteArray, 1<<30, format.Uncompressed, forgedPage{rows: 10, plain: 9, body: short(9)}),
		"a list in the footer":  withFooter(t, []byte("PAR1"), append([]byte{0x15, 2, 0x19, 0xfc}, varints(math.MaxInt32)...)),
		"what its footer nests": withFooter(t, []byte("PAR1"), bytes.Repeat([]byte{0x1c}, 8<<20)),
	} {
		before := allocated()
		f, err := OpenFile(path, FileConfig{MaxRows: 1 << 16, MaxBytes: most})
		if err == nil {
			_, err = f.Read(0)
			_ = f.Close()
		}
		took := allocated() - before
		if err == nil || took > most {
			t.Errorf("%s: %v; %d MiB allocated", name, err, took>>20)
		}
	}
}

// Of a column that is not needed nothing is read.
func TestParquetReadsWhatIsNeeded(t *testing.T) {
	path := forgeParquet(t, parquet.ByteArray, 0, format.Uncompressed, forgedPage{rows: 100_000, plain: 6, as: format.RLEDictionary, body: []byte{1}, dictionary: []byte("no texts"), words: 1})
	f, err := OpenFile(path, FileConfig{MaxRows: 1 << 16, Need: func(f arrow.Field) bool { return !strings.HasPrefix(f.Name, "a") }})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := int64(0)
	for i := range f.Batches() {
		rec, err := f.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		rows += rec.NumRows()
		if rec.Column(0).NullN() != int(rec.NumRows()) || !rec.Schema().Equal(f.Schema()) {
			t.Errorf("batch %d has %v", i, rec.Column(0))
		}
	}
	if rows != 100_000 {
		t.Errorf("%d rows", rows)
	}
}

// Columns take memory without any value in them.
func TestParquetHasAsManyColumnsAsMemoryAllows(t *testing.T) {
	for columns, says := range map[int]string{4000: "", 5000: "5000 columns take about 78 MiB in memory, at most 64 are read"} {
		group := parquet.Group{}
		for i := range columns {
			group[fmt.Sprintf("c%d", i)] = parquet.Leaf(parquet.DoubleType)
		}
		path := filepath.Join(t.TempDir(), "wide.parquet")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := parquet.NewWriter(f, parquet.NewSchema("wide", group))
		row := make(parquet.Row, columns)
		for i := range row {
			row[i] = parquet.DoubleValue(1).Level(0, 0, i)
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		file, err := openParquetFile(path, FileConfig{MaxBytes: 64 << 20, MaxRows: 100})
		if says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%d columns: %v", columns, err)
		}
		if err == nil && file.close() != nil {
			t.Error("the file cannot be closed")
		}
	}
}
