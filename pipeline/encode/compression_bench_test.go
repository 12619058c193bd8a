package encode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/minibatch"
)

// What each codec makes of our outputs, and at which price: whitened rows are noise, but the schema that
// each message repeats is not. What compression auto does rests on this.
func BenchmarkCompression(b *testing.B) {
	for _, m := range []struct {
		format Format
		rows   int
	}{{FormatArrow, 1}, {FormatArrow, 10}, {FormatArrow, 100}, {FormatArrow, 1000}, {FormatJSON, 1}, {FormatJSON, 100}} {
		batch := recordbatch.Append(nil, outputs(b, m.format, m.rows, 1<<20), recordbatch.NoProducer())
		var c recordbatch.Compressor
		for _, to := range []recordbatch.Codec{recordbatch.LZ4, recordbatch.Zstd, recordbatch.ZstdQuick} {
			b.Run(fmt.Sprintf("%s/rows=%d/%s", m.format, m.rows, to), func(b *testing.B) {
				b.SetBytes(int64(len(batch)))
				var out []byte
				for b.Loop() {
					var err error
					if out, err = c.Compress(append(out[:0], batch...), 0, to); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(out))/float64(len(batch)), "ratio")
			})
		}
	}
}

// outputs are messages of the given number of rows of eight float64 features, whitened.
func outputs(b *testing.B, format Format, rows, size int) (recs []recordbatch.Record) {
	const k = 8
	var fields []arrow.Field
	for j := range k {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("feature_%d", j), Type: arrow.PrimitiveTypes.Float64})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	config := OutputConfig{Score: true, Passthrough: true}
	o, texts := NewOutput(config), NewJSONOutput(config)
	for n := 0; n < size; {
		build := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		y, score := make([]float32, rows*k), make([]float32, rows)
		for i := range y {
			v := rng.NormFloat64()
			y[i] = float32(v)
			build.Field(i % k).(*array.Float64Builder).Append(float64(int(100*v)) / 100)
		}
		w := &Whitened{K: k, Y: y, Score: score, Invalid: make([]minibatch.Reason, rows)}
		rec := build.NewRecord()
		value, err := o.Append(nil, rec, w)
		if format == FormatJSON {
			value, err = texts.Convert(nil, rec, w, true)
		}
		if err != nil {
			b.Fatal(err)
		}
		recs, n = append(recs, recordbatch.Record{Value: value}), n+len(value)
	}
	return recs
}
