package minibatch

import (
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestKeepMissing: a row without some features keeps the others, except next to an infinity.
func TestKeepMissing(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(-1)
	const null, notANumber, infinite, width = ReasonNull, ReasonNaN, ReasonInf, ReasonWidth
	columns := func(a ...arrow.Array) func() (arrow.Record, Features) {
		return func() (arrow.Record, Features) { return recordOf(a) }
	}
	list := func(typ arrow.DataType, values string) func() (arrow.Record, Features) {
		return func() (arrow.Record, Features) {
			return record(t, column{"v", typ, values}), Features{Names: []string{"v[0]", "v[1]"}}
		}
	}
	floats := func(values []float64, valid []bool) arrow.Array {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		b.AppendValues(values, valid)
		return b.NewArray()
	}
	for _, c := range []struct {
		name    string
		of      func() (arrow.Record, Features)
		want    []float64
		reasons []Reason
		missing []int
	}{
		{"columns", columns(floats([]float64{1, inf, 3, 4, 5}, []bool{true, false, true, true, true}), floats([]float64{6, 7, nan, inf, 10}, nil)),
			[]float64{1, 6, nan, 7, 3, nan, 0, 0, 5, 10}, []Reason{0, null, notANumber, infinite, 0}, []int{0, 1, 1, 0, 0}},
		{"null next to an infinity", columns(floats([]float64{1, 1}, []bool{false, false}), floats([]float64{inf, 2}, nil)),
			[]float64{0, 0, nan, 2}, []Reason{infinite, null}, []int{0, 1}},
		{"NaN next to an infinity", columns(floats([]float64{nan, inf}, nil), floats([]float64{inf, nan}, nil)), []float64{0, 0, 0, 0}, []Reason{infinite, infinite}, []int{0, 0}},
		{"nothing there", columns(floats([]float64{1}, []bool{false}), floats([]float64{nan}, nil)), []float64{nan, nan}, []Reason{null}, []int{2}},
		{"a column of type null", columns(record(t, column{"c", arrow.Null, `[null,null]`}).Column(0), floats([]float64{1, 2}, nil)),
			[]float64{nan, 1, nan, 2}, []Reason{null, null}, []int{1, 1}},
		{"dictionary", columns(dictionary(t, `[1.5, null, -2]`, 2, -1, 1)), []float64{-2, nan, nan}, []Reason{0, null, null}, []int{0, 1, 1}},
		{"lists", list(arrow.ListOf(f64), `[[1,2],[3],null,[4,null],[5,6]]`),
			[]float64{1, 2, 0, 0, nan, nan, 4, nan, 5, 6}, []Reason{0, width, null, null, 0}, []int{0, 0, 2, 1, 0}},
		{"fixed lists", list(fixed(2, f32), `[[null,2],null,[3,4]]`), []float64{nan, 2, nan, nan, 3, 4}, []Reason{null, null, 0}, []int{1, 2, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, f := c.of()
			// What a former record left must not show.
			rows := Rows{KeepMissing: true, X: []float64{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}}
			if err := f.Gather(&rows, rec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, rows.X, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("values: %s", diff)
			}
			if diff := cmp.Diff(c.reasons, rows.Invalid); diff != "" {
				t.Errorf("reasons: %s", diff)
			}
			for i, want := range c.missing {
				if got := rows.Missing(i); got != want {
					t.Errorf("row %d misses %d features, want %d", i, got, want)
				}
			}
			rows.KeepMissing = false
			if err := f.Gather(&rows, rec); err != nil {
				t.Fatal(err)
			}
			for i, reason := range rows.Invalid {
				if (reason == ReasonNone) != (c.reasons[i] == ReasonNone) || rows.Missing(i) != 0 {
					t.Errorf("row %d is %v with %d missing, where nothing is kept", i, reason, rows.Missing(i))
				}
			}
		})
	}
}
