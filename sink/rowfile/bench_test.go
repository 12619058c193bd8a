package rowfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/source/format"
)

// BenchmarkFiles writes and reads rows of 64 float32.
func BenchmarkFiles(b *testing.B) {
	const rows, d = 1 << 16, 64
	r := rand.New(rand.NewPCG(1, 1))
	fields, columns := make([]arrow.Field, d), make([]arrow.Array, d)
	for k := range d {
		builder := array.NewFloat32Builder(memory.DefaultAllocator)
		for range rows {
			builder.Append(float32(r.NormFloat64()))
		}
		fields[k], columns[k] = arrow.Field{Name: fmt.Sprint("x", k), Type: arrow.PrimitiveTypes.Float32}, builder.NewArray()
	}
	rec := array.NewRecord(arrow.NewSchema(fields, nil), columns, rows)
	value := message(b, rec)
	for _, ext := range []string{".arrow", ".parquet"} {
		path := filepath.Join(b.TempDir(), "rows"+ext)
		b.Run("write"+ext, func(b *testing.B) {
			for b.Loop() {
				f, err := os.Create(path)
				if err != nil {
					b.Fatal(err)
				}
				w, err := New(extensions[ext], f, rec.Schema(), false)
				if err != nil {
					b.Fatal(err)
				}
				if err := errors.Join(w.Write(value), w.Close(), f.Close()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
		})
		b.Run("read"+ext, func(b *testing.B) {
			for b.Loop() {
				f, err := format.OpenFile(path, format.FileConfig{MaxRows: rows})
				if err != nil {
					b.Fatal(err)
				}
				for i := range f.Batches() {
					rec, err := f.Read(i)
					if err != nil {
						b.Fatal(err)
					}
					rec.Release()
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
