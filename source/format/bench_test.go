package format

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// floats is a message with the given number of rows: d float32 columns, or one list of d where list is set.
func floats(b *testing.B, rows, d int, list bool, opts ...ipc.Option) []byte {
	fields := make([]arrow.Field, d)
	for k := range fields {
		fields[k] = arrow.Field{Name: fmt.Sprintf("f%d", k), Type: arrow.PrimitiveTypes.Float32}
	}
	if list {
		fields = []arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(int32(d), arrow.PrimitiveTypes.Float32)}}
	}
	schema := arrow.NewSchema(fields, nil)
	rb := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for r := range rows {
		for k := range d {
			v := float32(r*d+k) / 7
			if !list {
				rb.Field(k).(*array.Float32Builder).Append(v)
				continue
			}
			lb := rb.Field(0).(*array.FixedSizeListBuilder)
			if k == 0 {
				lb.Append(true)
			}
			lb.ValueBuilder().(*array.Float32Builder).Append(v)
		}
	}
	rec := rb.NewRecord()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(opts, ipc.WithSchema(schema))...)
	if err := w.Write(rec); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkDecode compares the decoder with the Arrow library's own reader, which checks nothing.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name string
		in   []byte
	}{
		{"1000x64columns", floats(b, 1000, 64, false)},
		{"10x64columns", floats(b, 10, 64, false)},
		{"1x64columns", floats(b, 1, 64, false)},
		{"1000xlist256", floats(b, 1000, 256, true)},
		{"10xlist64", floats(b, 10, 64, true)},
		{"1xlist64", floats(b, 1, 64, true)},
		{"1000x64columns/lz4", floats(b, 1000, 64, false, ipc.WithLZ4())},
		{"1000x64columns/zstd", floats(b, 1000, 64, false, ipc.WithZstd())},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := newDecoder(b, Config{})
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			for b.Loop() {
				rec, err := d.Decode(b.Context(), c.in, "")
				if err != nil {
					b.Fatal(err)
				}
				rec.Release()
			}
		})
		b.Run(c.name+"/library", func(b *testing.B) {
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := ipc.NewReader(bytes.NewReader(c.in))
				if err != nil || !r.Next() {
					b.Fatal(err)
				}
				r.Release()
			}
		})
	}
}

// BenchmarkDecodeAvro reads values of one row: 64 numbers, alone or next to a text, of which all is needed or the numbers alone.
func BenchmarkDecodeAvro(b *testing.B) {
	numbers := make([]string, 64)
	row := map[string]any{"id": "device-17"}
	for i := range numbers {
		name := fmt.Sprintf("f%d", i)
		numbers[i], row[name] = name, float64(i)*1.37
	}
	fields := make([]string, len(numbers))
	for i, name := range numbers {
		fields[i] = field(name, `"double"`)
	}
	for _, c := range []struct {
		name   string
		schema string
		config Config
	}{
		{"64", record(fields...), Config{}},
		{"64andText", record(append([]string{field("id", `"string"`)}, fields...)...), Config{}},
		{"64of65", record(append([]string{field("id", `"string"`)}, fields...)...), Config{Columns: numbers, Only: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d, value, a := avroOf(b, c.config, c.schema), written(b, 7, c.schema, row), new(Arena)
			b.ReportAllocs()
			for b.Loop() {
				rec, _, err := d.DecodeIn(b.Context(), a, value, "")
				if err != nil {
					b.Fatal(err)
				}
				rec.Release()
			}
		})
	}
}
