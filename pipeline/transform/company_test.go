package transform

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// numbersOf fills a column: number j of row i is replaced where it is bad, and row i null where nulls are wanted.
func numbersOf(b array.Builder, r *rand.Rand, rows int, bad float64, nulls bool) {
	for i := range rows {
		if nulls && i%7 == 3 {
			b.AppendNull()
			continue
		}
		v := r.NormFloat64()
		if bad != 0 && i == rows/2 {
			v = bad
		}
		appendNumber(b, r, v)
	}
}

func appendNumber(b array.Builder, r *rand.Rand, v float64) {
	switch b := b.(type) {
	case *array.Float32Builder:
		b.Append(float32(v))
	case *array.Float64Builder:
		b.Append(v)
	case *array.Int16Builder:
		b.Append(int16(r.IntN(1000)))
	case *array.FixedSizeListBuilder:
		b.Append(true)
		appendList(b.ValueBuilder(), r, v, fixtures.ListDim)
	case *array.ListBuilder:
		b.Append(true)
		appendList(b.ValueBuilder(), r, v, fixtures.ListDim-r.IntN(20)/19)
	}
}

func appendList(b array.Builder, r *rand.Rand, v float64, n int) {
	for j := range n {
		if j == 5 {
			appendNumber(b, r, v)
		} else {
			appendNumber(b, r, r.NormFloat64())
		}
	}
}

// company are the kinds of columns that features come in, and two that have no features or no place for outputs.
var company = [][]arrow.Field{
	{{Name: "x", Type: arrow.FixedSizeListOf(fixtures.ListDim, arrow.PrimitiveTypes.Float32)}},
	{{Name: "x", Type: arrow.FixedSizeListOf(fixtures.ListDim, arrow.PrimitiveTypes.Float32)}, {Name: "key", Type: arrow.PrimitiveTypes.Int16}},
	{{Name: "x", Type: arrow.FixedSizeListOf(fixtures.ListDim, arrow.PrimitiveTypes.Float32), Nullable: true}},
	{{Name: "x", Type: arrow.FixedSizeListOf(fixtures.ListDim, arrow.PrimitiveTypes.Float64)}},
	{{Name: "x", Type: arrow.ListOf(arrow.PrimitiveTypes.Float64), Nullable: true}},
	eight(arrow.PrimitiveTypes.Float32),
	eight(arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Float64),
	{{Name: "y", Type: arrow.PrimitiveTypes.Float32}},
	{{Name: "x", Type: arrow.FixedSizeListOf(fixtures.ListDim, arrow.PrimitiveTypes.Float32)}, {Name: "lca", Type: arrow.PrimitiveTypes.Float32}},
}

func eight(types ...arrow.DataType) (fields []arrow.Field) {
	for j := range fixtures.ListDim {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("x[%d]", j), Type: types[j%len(types)]})
	}
	return fields
}

// companyValues are messages of all kinds, every second one a list of float32; among them tombstones, bytes that are
// nothing, and messages without rows.
func companyValues(t *testing.T, r *rand.Rand, messages int) (values [][]byte) {
	for range messages {
		rows, bad := []int{1, 1, 2, 5, 40, 300, 700, 2500, 20_000}[r.IntN(9)], 0.0
		switch r.IntN(16) {
		case 0:
			values = append(values, nil)
			continue
		case 1:
			values = append(values, []byte("nothing"))
			continue
		case 2:
			rows = 0
		case 3, 4:
			bad = []float64{math.NaN(), math.Inf(-1), math.MaxFloat32, 1e60}[r.IntN(4)]
		}
		fields := company[0]
		if r.IntN(2) == 0 {
			fields = company[r.IntN(len(company))]
		}
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		for i, f := range fields {
			numbersOf(b.Field(i), r, rows, bad, f.Nullable)
		}
		values = append(values, fixtures.StreamOf(t, b))
		b.Release()
	}
	return values
}

// outputsOf whitens messages in batches of at most n, and returns what is put, and what is counted.
func outputsOf(t *testing.T, tr *Transform, values [][]byte, batch int) (out []sink.Message, counts string) {
	d := fixtures.NewDecoder(t, format.Config{})
	for range 2 { // the second time its layouts are known
		var inputs []source.Message
		for i, v := range values {
			m := fixtures.Decoded(fixtures.Events, int64(i), sink.Message{Key: []byte{byte(i)}, Value: v, Time: time.UnixMilli(int64(i))})
			if m.Record != nil {
				m.Record, _ = d.Decode(t.Context(), v, "")
			}
			inputs = append(inputs, m)
		}
		for part := range slices.Chunk(inputs, batch) {
			work, err := tr.Do(t.Context(), source.Batch{Messages: part})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range work.Messages {
				out = append(out, fixtures.Stored(m))
			}
			tr.Kept()
		}
	}
	return out, fmt.Sprint(tr.Stats.TransformRows.Load(), tr.Stats.ImputedRows.Load(), tr.Stats.Tables().Rejected, tr.Stats.Tables().Passed)
}

// What a message becomes depends on it and on the model alone, to the byte: messages of all kinds give the same outputs
// and the same counts in one batch, where neighbours are whitened together, and each in a batch of its own.
func TestOutputsDoNotDependOnTheirCompany(t *testing.T) {
	for i := range 16 {
		if testing.Short() && !slices.Contains([]int{0, 3, 5, 7, 10, 12, 15}, i) { // each value of a setting is among these
			continue
		}
		r := rand.New(rand.NewPCG(7, uint64(i)))
		values := companyValues(t, r, 60)
		stage := func() *Transform {
			tr := listTransform(t, []reject.OnInvalid{reject.NullRow, reject.RejectRow, reject.ImputeRow}[i%3], fixtures.ListDim-i/2%2)
			tr.Output = encode.OutputConfig{Format: encode.Format(i % 3), Score: i%3 > 0, P: i%2 > 0, Why: max(0, i%7-3), Imputed: i%3 == 2, Passthrough: i%5 > 0, Layout: encode.Layout(i / 4 % 2)}
			tr.DeadLetter.MaxRejects = reject.Window // however many
			if i >= 12 {
				tr.Follow, tr.UntilModel = &models.Follow{ModelID: "m"}, []UntilModel{PassThrough, Drop}[i%2]
			}
			return tr
		}
		alone, counted := outputsOf(t, stage(), values, 1)
		for _, batch := range []int{1 + r.IntN(10), len(values)} {
			together, counts := outputsOf(t, stage(), values, batch)
			if len(together) != len(alone) || counts != counted {
				t.Fatalf("variant %d: %d messages in batches of %d, %d alone; counted %s, alone %s", i, len(together), batch, len(alone), counts, counted)
			}
			for k := range alone {
				if !fixtures.Same(alone[k], together[k]) {
					t.Errorf("variant %d: message %d, from offset %s, is another in batches of %d", i, k, fixtures.Header(alone[k], "lca-source-offset"), batch)
				}
			}
		}
	}
}

// A policy that stops does so at the same message with the same words, whatever comes behind it in the batch.
func TestStopsDoNotDependOnTheirCompany(t *testing.T) {
	for i := range 8 {
		values := companyValues(t, rand.New(rand.NewPCG(8, uint64(i))), 60)
		stop := func(batch int) (stopped string) {
			tr := listTransform(t, []reject.OnInvalid{reject.StopAtRow, reject.RejectRow}[i%2], fixtures.ListDim)
			tr.DeadLetter.Window, tr.DeadLetter.MaxRejects = 40, 100-90*(i%2)
			for part := range slices.Chunk(batchOfAny(values), batch) {
				if _, err := tr.Do(t.Context(), source.Batch{Messages: part}); err != nil {
					return err.Error()
				}
				tr.Kept()
			}
			return ""
		}
		alone, together := stop(1), stop(len(values))
		if alone != together || !strings.Contains(alone, "fix the producer") {
			t.Errorf("%d: %q, alone %q", i, together, alone)
		}
	}
}

func batchOfAny(values [][]byte) (inputs []source.Message) {
	for i, v := range values {
		inputs = append(inputs, fixtures.Decoded(fixtures.Events, int64(i), sink.Message{Value: v}))
	}
	return inputs
}
