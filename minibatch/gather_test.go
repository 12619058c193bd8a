package minibatch

import (
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestGatherReasons(t *testing.T) {
	nan := float32(math.NaN())
	floats := func(values ...float32) arrow.Array {
		b := array.NewFloat32Builder(memory.DefaultAllocator)
		b.AppendValues(values, nil)
		return b.NewArray()
	}
	withNulls := func(values []float32, valid []bool) arrow.Array {
		b := array.NewFloat32Builder(memory.DefaultAllocator)
		b.AppendValues(values, valid)
		return b.NewArray()
	}
	json := func(typ arrow.DataType, values string) arrow.Array {
		return record(t, column{"c", typ, values}).Column(0)
	}
	inf := float32(math.Inf(1))
	top := array.NewUint64Builder(memory.DefaultAllocator)
	top.Append(math.MaxUint64)
	largest := top.NewArray()
	huge := array.NewFloat64Builder(memory.DefaultAllocator)
	huge.AppendValues([]float64{1e308, 1e308, math.Inf(-1), -1e308}, nil)
	hugeColumn := huge.NewArray()
	for _, c := range []struct {
		name    string
		columns []arrow.Array
		want    []float64
		reasons []Reason
	}{
		{"good rows", []arrow.Array{floats(1, 2), floats(3, 4)}, []float64{1, 3, 2, 4}, []Reason{0, 0}},
		{"each reason", []arrow.Array{withNulls([]float32{1, 2, 3, 4}, []bool{true, false, true, true}), floats(5, 6, nan, -inf)},
			[]float64{1, 5, 0, 0, 0, 0, 0, 0}, []Reason{ReasonNone, ReasonNull, ReasonNaN, ReasonInf}},
		{"null before NaN before Inf", []arrow.Array{withNulls([]float32{1, inf}, []bool{false, true}), floats(nan, 2), floats(inf, nan)},
			[]float64{0, 0, 0, 0, 0, 0}, []Reason{ReasonNull, ReasonNaN}},
		// The bytes under a null are garbage and may well be NaN.
		{"NaN under a null", []arrow.Array{withNulls([]float32{nan, 1}, []bool{false, true})}, []float64{0, 1}, []Reason{ReasonNull, ReasonNone}},
		{"opposite infinities", []arrow.Array{floats(inf), floats(-inf)}, []float64{0, 0}, []Reason{ReasonInf}},
		// A sum that overflows must not condemn finite values.
		{"huge values are finite", []arrow.Array{hugeColumn, hugeColumn}, []float64{1e308, 1e308, 1e308, 1e308, 0, 0, -1e308, -1e308}, []Reason{0, 0, ReasonInf, 0}},
		{"integers beyond 2⁵³ round", []arrow.Array{json(i64, `[9007199254740993]`)}, []float64{9007199254740992}, []Reason{0}},
		{"uint64", []arrow.Array{largest}, []float64{1 << 64}, []Reason{0}},
		{"a column of type null", []arrow.Array{json(arrow.Null, `[null,null]`), floats(1, 2)}, []float64{0, 0, 0, 0}, []Reason{ReasonNull, ReasonNull}},
		{"dictionary with null index and null entry", []arrow.Array{dictionary(t, `[1.5, null, -2]`, 2, 0, -1, 1)}, []float64{-2, 1.5, 0, 0}, []Reason{0, 0, ReasonNull, ReasonNull}},
		{"sliced dictionary", []arrow.Array{array.NewSlice(dictionary(t, `[1.5, -2]`, 1, 0, 1), 1, 3)}, []float64{1.5, -2}, []Reason{0, 0}},
		{"no rows", []arrow.Array{floats()}, []float64{}, []Reason{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, f := recordOf(c.columns)
			var rows Rows
			if err := f.Gather(&rows, rec); err != nil {
				t.Fatal(err)
			}
			checkRows(t, &rows, c.want, c.reasons)
		})
	}
}

func recordOf(columns []arrow.Array) (arrow.Record, Features) {
	var f Features
	var fields []arrow.Field
	for j, col := range columns {
		f.Names = append(f.Names, fmt.Sprintf("c%d", j))
		fields = append(fields, arrow.Field{Name: f.Names[j], Type: col.DataType(), Nullable: true})
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), columns, int64(columns[0].Len())), f
}

func checkRows(t *testing.T, rows *Rows, want []float64, reasons []Reason) {
	t.Helper()
	bad := 0
	for _, r := range reasons {
		if r != ReasonNone {
			bad++
		}
	}
	if diff := cmp.Diff(want, rows.X, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("values: %s", diff)
	}
	if diff := cmp.Diff(reasons, rows.Invalid, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reasons: %s", diff)
	}
	if rows.Bad != bad || rows.N != len(reasons) {
		t.Errorf("N %d, Bad %d; want %d, %d", rows.N, rows.Bad, len(reasons), bad)
	}
}

func TestGatherLists(t *testing.T) {
	for _, c := range []struct {
		name    string
		typ     arrow.DataType
		values  string
		slice   [2]int64
		want    []float64
		reasons []Reason
	}{
		{"fixed", fixed(2, f32), `[[1,2],[3,4]]`, [2]int64{0, 2}, []float64{1, 2, 3, 4}, []Reason{0, 0}},
		{"fixed, sliced, with null list and null element", fixed(2, f32), `[[9,9],[1,2],null,[3,null],[5,6],[7,8],[9,9]]`, [2]int64{1, 6},
			[]float64{1, 2, 0, 0, 0, 0, 5, 6, 7, 8}, []Reason{0, ReasonNull, ReasonNull, 0, 0}},
		{"list, ragged rows", arrow.ListOf(f64), `[[1,2],[3],[],[4,5,6],[7,8],null,[9,10]]`, [2]int64{0, 7},
			[]float64{1, 2, 0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 9, 10}, []Reason{0, ReasonWidth, ReasonWidth, ReasonWidth, 0, ReasonNull, 0}},
		{"large list, sliced", arrow.LargeListOf(i32), `[[9,9],[1,2],[3,null],[5,6]]`, [2]int64{1, 4}, []float64{1, 2, 0, 0, 5, 6}, []Reason{0, ReasonNull, 0}},
		{"float16 elements", fixed(2, f16), `[[0.5,2]]`, [2]int64{0, 1}, []float64{0.5, 2}, []Reason{0}},
		{"all null", fixed(2, f32), `[null,null]`, [2]int64{0, 2}, []float64{0, 0, 0, 0}, []Reason{ReasonNull, ReasonNull}},
		{"no rows", fixed(2, f32), `[[1,2]]`, [2]int64{1, 1}, []float64{}, []Reason{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Features{Names: []string{"v[0]", "v[1]"}}
			rec := record(t, column{"v", c.typ, c.values}).NewSlice(c.slice[0], c.slice[1])
			var rows Rows
			if err := f.Gather(&rows, rec); err != nil {
				t.Fatal(err)
			}
			checkRows(t, &rows, c.want, c.reasons)
		})
	}
}

// TestGatherBrokenIndices: an index beyond the dictionary is refused, not read.
func TestGatherBrokenIndices(t *testing.T) {
	good := dictionary(t, `[1.5, 2.5, 3.5]`, 0, 2).Data()
	short := dictionary(t, `[1.5]`, 0).(*array.Dictionary).Dictionary().Data()
	broken := array.NewDictionaryData(array.NewDataWithDictionary(good.DataType(), good.Len(), good.Buffers(), 0, 0, short.(*array.Data)))
	rec, f := recordOf([]arrow.Array{broken})
	err := f.Gather(new(Rows), rec)
	checkFeatureError(t, err, CodeCorrupt, "dictionary")
}

// TestGatherAgainstCellByCell compares with the plainest reading there is: one cell at a time,
// through records of 1–20 columns of all types, with nulls, sliced anywhere.
func TestGatherAgainstCellByCell(t *testing.T) {
	types := []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, i32, i64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		f16, f32, f64,
	}
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(r, "rows")
		var columns []arrow.Array
		var typ arrow.DataType
		for j := range rapid.IntRange(1, 20).Draw(r, "columns") {
			// Runs of one type, so that groups of eight come up as well as shorter ones.
			if j == 0 || rapid.IntRange(0, 9).Draw(r, "change") == 0 {
				typ = rapid.SampledFrom(types).Draw(r, "type")
			}
			columns = append(columns, drawColumn(r, typ, n))
		}
		from := rapid.IntRange(0, n).Draw(r, "from")
		rec, f := recordOf(columns)
		rec = rec.NewSlice(int64(from), int64(rapid.IntRange(from, n).Draw(r, "to")))
		var rows Rows
		if err := f.Gather(&rows, rec); err != nil {
			r.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			want := make([]float64, len(columns))
			for j := range columns {
				want[j] = cell(rec.Column(j), i)
			}
			bad := rows.Invalid[i] != ReasonNone
			if bad != hasNaN(want) {
				r.Fatalf("row %d: reason %s for %v", i, rows.Invalid[i], want)
			}
			if got := rows.X[i*len(want) : (i+1)*len(want)]; !bad && !cmp.Equal(got, want) {
				r.Fatalf("row %d: %v, want %v", i, got, want)
			}
		}
	})
}

func hasNaN(row []float64) bool {
	for _, v := range row {
		if math.IsNaN(v) {
			return true
		}
	}
	return false
}

func drawColumn(r *rapid.T, typ arrow.DataType, n int) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, typ)
	nulls := rapid.Bool().Draw(r, "nulls")
	for range n {
		k := rapid.Uint8Max(100).Draw(r, "value")
		if nulls && k%7 == 0 {
			b.AppendNull()
			continue
		}
		if err := b.AppendValueFromString(fmt.Sprint(k)); err != nil {
			r.Fatal(err)
		}
	}
	return b.NewArray()
}

// cell reads one value; a null is NaN.
func cell(col arrow.Array, i int) float64 {
	if col.IsNull(i) {
		return math.NaN()
	}
	switch c := col.(type) {
	case *array.Float16:
		return float64(float16.Num(c.Value(i)).Float32())
	default:
		var v float64
		if _, err := fmt.Sscan(col.ValueStr(i), &v); err != nil {
			panic(err)
		}
		return v
	}
}

// TestGatherKeepsItsMemory: in a running stream a record costs no allocation.
func TestGatherKeepsItsMemory(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  arrow.Record
	}{
		{"columns", record(t, column{"a", f32, `[1,2]`}, column{"b", f32, `[1,null]`})},
		{"list", record(t, column{"v", fixed(2, f32), `[[1,2],[3,null]]`})},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ResolveRecord(c.rec, nil)
			if err != nil {
				t.Fatal(err)
			}
			var rows Rows
			allocs := testing.AllocsPerRun(100, func() {
				if err := f.Gather(&rows, c.rec); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations per record, want none", allocs)
			}
		})
	}
}

func BenchmarkGather(b *testing.B) {
	const n, d = 1000, 64
	values := make([]float32, n*d)
	for i := range values {
		values[i] = float32(i%97) / 7
	}
	floats := array.NewFloat32Builder(memory.DefaultAllocator)
	floats.AppendValues(values, nil)
	flat := floats.NewArray()
	var columns []arrow.Array
	for j := range d {
		columns = append(columns, array.NewSlice(flat, int64(j*n), int64(j*n+n)))
	}
	wide, wideFeatures := recordOf(columns)
	typ := arrow.FixedSizeListOf(d, f32)
	list := array.MakeFromData(array.NewData(typ, n, []*memory.Buffer{nil}, []arrow.ArrayData{flat.Data()}, 0, 0))
	lists := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "v", Type: typ}}, nil), []arrow.Array{list}, n)
	listFeatures, err := ResolveRecord(lists, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		rec  arrow.Record
		f    Features
	}{{"1000x64columns", wide, wideFeatures}, {"1000xlist64", lists, listFeatures}} {
		b.Run(c.name, func(b *testing.B) {
			var rows Rows
			b.SetBytes(n * d * 4)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.f.Gather(&rows, c.rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
