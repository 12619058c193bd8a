package transform

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"testing"
	"weak"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// largeRows is more than two slices of ListDim numbers, and not a multiple of one.
const largeRows = 2*reject.SliceNumbers/fixtures.ListDim + 1234

// largeRecord has a column x of lists; rows of each slice are null, NaN or far away.
func largeRecord(t testing.TB) arrow.Record {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(fixtures.ListDim, arrow.PrimitiveTypes.Float64), Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list, r := b.Field(0).(*array.FixedSizeListBuilder), rand.New(rand.NewPCG(5, 6))
	for i := range largeRows {
		list.Append(i%9999 != 7)
		for j := range fixtures.ListDim {
			v := r.NormFloat64()
			switch {
			case i%9999 == 8 && j == 3:
				v = math.NaN()
			case i%9999 == 9:
				v = 1e60
			}
			list.ValueBuilder().(*array.Float64Builder).Append(v)
		}
	}
	return b.NewRecord()
}

func messageOf(rec arrow.Record, offset int64) source.Message {
	return source.Message{Partition: fixtures.Events, Offset: offset, Value: []byte("large"), Record: rec}
}

// rowsOf reads what outputs hold, row after row.
func rowsOf(t *testing.T, messages []sink.Message) (rows []string) {
	t.Helper()
	for i := range messages {
		rec, err := fixtures.NewDecoder(t, format.Config{MaxBytes: 1 << 30}).Decode(t.Context(), messages[i].Whole(), "")
		if err != nil {
			t.Fatal(err)
		}
		lca, score, p, why := rec.Column(1).(*array.FixedSizeList), rec.Column(2).(*array.Float32), rec.Column(3).(*array.Float32), rec.Column(4).(*array.List)
		y := lca.ListValues().(*array.Float32).Float32Values()
		for i := range int(rec.NumRows()) {
			row := "null"
			if lca.IsValid(i) != score.IsValid(i) || lca.IsValid(i) != p.IsValid(i) || lca.IsValid(i) != why.IsValid(i) {
				t.Fatalf("row %d has coordinates, a score, a probability or gains, not all of them", i)
			}
			if lca.IsValid(i) {
				row = fmt.Sprintf("%x %x %x %s", y[i*fixtures.ListDim:(i+1)*fixtures.ListDim], score.Value(i), p.Value(i), why.ValueStr(i))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// A message of many rows is whitened to the numbers, to the bit, that its rows have in small messages, with the
// same counts.
func TestLargeMessagesAreWhitenedLikeSmallOnes(t *testing.T) {
	rec := largeRecord(t)
	large, small := listTransform(t, reject.NullRow, fixtures.ListDim), listTransform(t, reject.NullRow, fixtures.ListDim)
	large.Output.Why, small.Output.Why = 2, 2
	whole, err := large.Do(t.Context(), source.Batch{Messages: []source.Message{messageOf(rec, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	var b source.Batch
	for first := 0; first < largeRows; first += 1000 {
		b.Messages = append(b.Messages, messageOf(rec.NewSlice(int64(first), int64(min(first+1000, largeRows))), int64(first)))
	}
	parts, err := small.Do(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Messages) != 1 || len(whole.Messages[0].Rest) == 0 {
		t.Fatalf("%d messages; the first is copied to one piece", len(whole.Messages))
	}
	want, got := rowsOf(t, parts.Messages), rowsOf(t, whole.Messages)
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("row %d is %s, want %s", i, got[i], want[i])
		}
	}
	nulls := 0
	for _, row := range got {
		if row == "null" {
			nulls++
		}
	}
	if want := 3 * (largeRows/9999 + 1); nulls != want {
		t.Errorf("%d null rows, want %d", nulls, want)
	}
	large.counts.strange, small.counts.strange = nil, nil // they say where their rows were
	if want, got := fmt.Sprintf("%+v", small.counts), fmt.Sprintf("%+v", large.counts); want != got {
		t.Errorf("counts %s, want %s", got, want)
	}
}

// A bad row of the last slice rejects the whole message, which then counts for nothing else.
func TestLargeMessagesAreRejectedWhole(t *testing.T) {
	tr := listTransform(t, reject.RejectRow, fixtures.ListDim)
	work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{messageOf(largeRecord(t).NewSlice(10, 9999+8), 0), messageOf(largeRecord(t).NewSlice(10, largeRows), 1)}})
	if err != nil {
		t.Fatal(err)
	}
	if len(work.Messages) != 2 || work.Messages[1].Topic != "dead" || source.LastHeader(work.Messages[1].Headers, "lca-error-code") != reject.CodeRowInvalid {
		t.Errorf("%d messages, the last %v", len(work.Messages), work.Messages[len(work.Messages)-1])
	}
}

// int8Columns has int8 columns that share one buffer: it takes a megabyte, and whitens to much more.
func int8Columns(rows, columns int) arrow.Record {
	buffer := memory.NewBufferBytes(make([]byte, rows))
	var fields []arrow.Field
	var arrays []arrow.Array
	for j := range columns {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("x[%d]", j), Type: arrow.PrimitiveTypes.Int8})
		arrays = append(arrays, array.NewInt8Data(array.NewData(arrow.PrimitiveTypes.Int8, rows, []*memory.Buffer{nil, buffer}, nil, 0, 0)))
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), arrays, int64(rows))
}

// What a message whitens to is bounded, however little it is itself.
func TestOutputsAreBounded(t *testing.T) {
	for _, until := range []UntilModel{Hold, PassThrough} {
		tr := listTransform(t, reject.NullRow, fixtures.ListDim)
		if until == PassThrough {
			tr.Follow, tr.UntilModel = &models.Follow{ModelID: "m"}, until
		}
		work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{messageOf(int8Columns(encode.MostWhitened/4/(fixtures.ListDim+1)+1, fixtures.ListDim), 0)}})
		if err != nil {
			t.Fatal(err)
		}
		if code := source.LastHeader(work.Messages[0].Headers, "lca-error-code"); len(work.Messages) != 1 || code != reject.CodeOutputTooLarge {
			t.Errorf("%d messages, the first with error %q", len(work.Messages), code)
		}
	}
}

func allocatedBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Whitening takes the bytes of its result and a few MiB, in any number of rows, and nothing of it once it is kept.
func TestLargeMessagesTakeWhatTheyWhitenTo(t *testing.T) {
	const rows, result = 1 << 20, (fixtures.ListDim + 2) * 4 << 20
	tr := listTransform(t, reject.NullRow, fixtures.ListDim)
	prepared(t, tr).scorer.Score(nil, make([]float32, 1), make([]float64, fixtures.ListDim), 1)
	in := make([]byte, rows)
	column := array.NewInt8Data(array.NewData(arrow.PrimitiveTypes.Int8, rows, []*memory.Buffer{nil, memory.NewBufferBytes(in)}, nil, 0, 0))
	rec := int8Columns(rows, fixtures.ListDim)
	rec, err := rec.SetColumn(0, column)
	if err != nil {
		t.Fatal(err)
	}
	input := weak.Make(&in[0])
	before := allocatedBytes()
	work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{messageOf(rec, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	if took := allocatedBytes() - before; took > result+8<<20 {
		t.Errorf("%d MiB allocated for a result of %d", took>>20, result>>20)
	}
	output := weak.Make(&work.Messages[0].Rest[len(work.Messages[0].Rest)-2][0])
	in, rec, work = nil, nil, pipeline.Work{}
	tr.Kept()
	runtime.GC()
	if input.Value() != nil || output.Value() != nil {
		t.Error("the input or the output is held once it is put")
	}
	runtime.KeepAlive(tr)
}
