package format

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

// Numbers come out of each compression as they went in, whether it makes them smaller or not: libraries decode into memory that they guess
// the size of.
func TestParquetCodecsKeepNumbers(t *testing.T) {
	type row struct {
		X float64
		N *float64
		S string
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for name, codec := range map[string]compress.Codec{
		"none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "brotli": &parquet.Brotli, "zstd": &parquet.Zstd, "lz4": &parquet.Lz4Raw,
	} {
		for _, version := range []int{1, 2} {
			for _, kinds := range []int{3, 1 << 30} { // distinct values: what compresses well, and what does not
				rows := make([]row, 5000)
				for i := range rows {
					x := rng.NormFloat64()
					if kinds == 3 {
						x = float64(i % 3)
					}
					rows[i] = row{X: x, S: string(rune('a' + i%kinds%26))}
					if i%5 > 0 {
						rows[i].N = &rows[i].X
					}
				}
				var b bytes.Buffer
				w := parquet.NewGenericWriter[row](&b, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(8<<10))
				if _, err := w.Write(rows); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), name+".parquet")
				if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				f, err := OpenFile(path, FileConfig{MaxRows: len(rows)})
				if err != nil {
					t.Fatal(err)
				}
				rec, err := f.Read(0)
				if err != nil {
					t.Fatalf("%s, pages of version %d, %d values: %v", name, version, kinds, err)
				}
				x, n, s := rec.Column(0).(*array.Float64), rec.Column(1).(*array.Float64), rec.Column(2).(*array.String)
				for i, want := range rows {
					if x.Value(i) != want.X || n.IsNull(i) != (want.N == nil) || n.IsValid(i) && n.Value(i) != want.X || s.Value(i) != want.S {
						t.Fatalf("%s, pages of version %d, %d values: row %d is %g %v %s, want %v", name, version, kinds, i, x.Value(i), n.IsValid(i), s.Value(i), want)
					}
				}
				rec.Release()
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
