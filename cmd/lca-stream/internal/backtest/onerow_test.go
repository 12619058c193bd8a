package backtest

import (
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/rowrecord"
	"github.com/lca-stream/lca-stream/minibatch"
)

// everyType is a record of three rows, the last of nulls, with a column of each type that a row shows.
func everyType(t *testing.T, mem memory.Allocator) arrow.Record {
	t.Helper()
	numbers := []arrow.DataType{
		arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Uint32, arrow.FixedWidthTypes.Timestamp_ms, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Boolean,
	}
	texts := []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.Binary}
	var fields []arrow.Field
	for _, typ := range append(numbers, texts...) {
		fields = append(fields, arrow.Field{Name: typ.Name(), Type: typ, Nullable: true})
	}
	b := array.NewRecordBuilder(mem, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, row := range []string{
		`{"float64":-0.1,"float32":1.5,"int64":-9007199254740993,"int32":-7,"uint64":18446744073709551615,"uint32":4294967295,"timestamp":"1969-12-31 23:59:59.999","duration":"-5ms","bool":true,"utf8":"é","binary":"AQI="}`,
		`{"float64":1e300,"float32":-3,"int64":4,"int32":5,"uint64":6,"uint32":7,"timestamp":"2026-01-31 12:00:00","duration":"8ms","bool":false,"utf8":"","binary":""}`,
		`{}`,
	} {
		if err := b.UnmarshalJSON([]byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	return b.NewRecord()
}

// What a row shows is what a record of it has, for each type; the features that are gathered of both are the same; and nothing of it stays behind.
func TestOneRowIsTheRow(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	rec := everyType(t, mem)
	defer rec.Release()
	for _, f := range rec.Schema().Fields() {
		if !rowrecord.Shows(f.Type) {
			t.Fatalf("%s is not shown", f.Type)
		}
	}
	var features []string
	for _, f := range rec.Schema().Fields()[:9] {
		features = append(features, f.Name)
	}
	plan, err := minibatch.ResolveRecord(rec, minibatch.ColumnsOf(features))
	if err != nil {
		t.Fatal(err)
	}
	for at := range rec.NumRows() {
		row, slice := newOneRow(rec, at), rec.NewSlice(at, at+1)
		var got, want minibatch.Rows
		if err := plan.Gather(&got, row); err != nil || row.made != nil {
			t.Fatalf("row %d: %v, or arrays were made", at, err)
		}
		if err := plan.Gather(&want, slice); err != nil {
			t.Fatal(err)
		}
		for k, v := range want.X {
			if math.Float64bits(got.X[k]) != math.Float64bits(v) || got.Invalid[0] != want.Invalid[0] {
				t.Errorf("row %d, %s: gathered %v (%v), want %v (%v)", at, features[k], got.X[k], got.Invalid[0], v, want.Invalid[0])
			}
		}
		text, bytes := row.Value(9), row.Value(10)
		if text.Valid != (at < 2) || bytes.Valid != (at < 2) || string(text.Text)+string(bytes.Text) != []string{"é\x01\x02", "", ""}[at] {
			t.Errorf("row %d: %q and %q", at, text.Text, bytes.Text)
		}
		if !array.RecordEqual(row, slice) {
			t.Errorf("row %d: %v, want %v", at, row.Columns(), slice.Columns())
		}
		slice.Release()
		row.Release()
	}
}
