package minibatch

import (
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestGatherFloat32IsGather holds that GatherFloat32 reads what Gather reads, and for the same reasons does not: slices of 1–20 columns with nulls, NaN,
// infinities and numbers whose sum overflows.
func TestGatherFloat32IsGather(t *testing.T) {
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, math.MaxFloat32, -math.MaxFloat32, float32(math.Copysign(0, -1))}
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(r, "rows")
		var columns []arrow.Array
		for range rapid.IntRange(1, 20).Draw(r, "columns") {
			b := array.NewFloat32Builder(memory.DefaultAllocator)
			strange := rapid.IntRange(0, 3).Draw(r, "strange") == 0
			for i := range n {
				switch k := rapid.Uint8().Draw(r, "value"); {
				case strange && k < 7:
					b.Append(odd[k])
				case strange && k == 7:
					b.AppendNull()
				default:
					b.Append(float32(i) + float32(k)/7)
				}
			}
			columns = append(columns, b.NewArray())
		}
		rec, f := recordOf(columns)
		rec = rec.NewSlice(int64(rapid.IntRange(0, n).Draw(r, "first")), int64(n))
		n = int(rec.NumRows())
		from := rapid.IntRange(0, n).Draw(r, "from")
		compareNarrow(r, f, rec, from, rapid.IntRange(from, n).Draw(r, "to"))
	})
}

// compareNarrow compares both, over a part of a record.
func compareNarrow(t rapid.TB, f Features, whole arrow.Record, from, to int) {
	t.Helper()
	rec := whole.NewSlice(int64(from), int64(to))
	var wide, narrow Rows
	if err := f.Gather(&wide, rec); err != nil {
		t.Fatal(err)
	}
	x, ok := f.GatherFloat32(&narrow, whole, from, to)
	if !ok {
		t.Fatal("columns of float32 are not gathered")
	}
	if diff := cmp.Diff(wide.Invalid, narrow.Invalid); diff != "" {
		t.Fatalf("reasons: %s", diff)
	}
	if narrow.Bad != wide.Bad || narrow.N != wide.N || narrow.Dim != wide.Dim {
		t.Fatalf("%d rows of %d, %d bad; want %d of %d, %d", narrow.N, narrow.Dim, narrow.Bad, wide.N, wide.Dim, wide.Bad)
	}
	id := NewRowIDs("events", 3)
	want, ids := wide.AppendValid(nil, nil, id, 9, 5)
	got := []float64(nil)
	for from, to := range narrow.Runs() {
		for _, v := range x[from*narrow.Dim : to*narrow.Dim] {
			got = append(got, float64(v))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("rows: %s", diff)
	}
	if diff := cmp.Diff(ids, narrow.AppendIDs(nil, id, 9, 5)); diff != "" {
		t.Fatalf("identities: %s", diff)
	}
}

// TestGatherFloat32 holds what it takes, and what it leaves to Gather.
func TestGatherFloat32(t *testing.T) {
	lists := func(values string) arrow.Record { return record(t, column{"v", fixed(2, f32), values}) }
	two := Features{Names: []string{"v[0]", "v[1]"}}
	three := lists(`[[1,2],[3,4],[5,6]]`)
	compareNarrow(t, two, three, 0, 3)
	compareNarrow(t, two, three, 1, 2)
	compareNarrow(t, two, three.NewSlice(1, 3), 1, 2)
	inf := lists(`[[1,2],[3,4]]`)
	arrow.GetData[float32](inf.Column(0).(*array.FixedSizeList).ListValues().Data().Buffers()[1].Bytes())[3] = float32(math.Inf(1))
	for name, c := range map[string]struct {
		rec arrow.Record
		f   Features
	}{
		"a null list":        {lists(`[[1,2],null]`), two},
		"a null element":     {lists(`[[1,2],[3,null]]`), two},
		"an infinite number": {inf, two},
		"lists of any width": {record(t, column{"v", arrow.ListOf(f32), `[[1,2]]`}), two},
		"float64":            {record(t, column{"a", f64, `[1,2]`}), Features{Names: []string{"a"}}},
		"mixed":              {record(t, column{"a", f32, `[1,2]`}, column{"b", i32, `[1,2]`}), Features{Names: []string{"a", "b"}}},
		"no such column":     {record(t, column{"a", f32, `[1,2]`}), Features{Names: []string{"b"}}},
	} {
		if _, ok := c.f.GatherFloat32(new(Rows), c.rec, 0, int(c.rec.NumRows())); ok {
			t.Errorf("%s is taken", name)
		}
	}
	kept := Rows{KeepMissing: true}
	if _, ok := two.GatherFloat32(&kept, lists(`[[1,2]]`), 0, 1); ok {
		t.Error("missing features are not kept")
	}
}
