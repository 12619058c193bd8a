package minibatch

import (
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/nested"
)

// What an open schema does not name is null in all of its rows; the same record with a schema that is not open is
// refused.
func TestGatherOfAnOpenSchema(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name  string
		names []string
		rec   []column
		want  []float64 // NaN: missing
		lacks string    // the only column that is said to be lacking
	}{
		{"one of three", []string{"a", "b", "c"}, []column{{"c", f64, `[3,6]`}, {"a", f64, `[1,4]`}}, []float64{1, nan, 3, 4, nan, 6}, "b"},
		{"the first, where another column comes first", []string{"b", "a"}, []column{{"x", f64, `[9]`}, {"a", f64, `[1]`}}, []float64{nan, 1}, "b"},
		{"the only one", []string{"b"}, []column{{"x", f64, `[9]`}}, []float64{nan}, "b"},
		{"a list", []string{"v[0]", "v[1]"}, []column{{"x", f64, `[9,9]`}}, []float64{nan, nan, nan, nan}, "v"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain := record(t, c.rec...)
			open := array.NewRecord(nested.Open(plain.Schema().Fields()), plain.Columns(), plain.NumRows())
			f := Features{Names: c.names}
			rows := Rows{KeepMissing: true}
			if err := f.Gather(&rows, open); err != nil {
				t.Fatal(err)
			}
			same := func(a, b float64) bool { return a == b || a != a && b != b }
			if !slices.EqualFunc(rows.X, c.want, same) || rows.Bad != rows.N || slices.ContainsFunc(rows.Invalid, func(r Reason) bool { return r != ReasonNull }) {
				t.Errorf("rows %v, %v; want %v, all of them null", rows.X, rows.Invalid, c.want)
			}
			lacks := f.Lacks(open)
			if len(lacks) != 1 {
				t.Errorf("lacks %v, want %q", lacks, c.lacks)
			}
			checkFeatureError(t, lacks[c.lacks], CodeMissing, "")
			f = Features{Names: c.names}
			checkFeatureError(t, f.Gather(&rows, plain), CodeMissing, "")
		})
	}
}

// One absent column does not tell whether it is a list: the next record may.
func TestResolveOfAnOpenSchema(t *testing.T) {
	x := record(t, column{"x", f64, `[1]`})
	open := array.NewRecord(nested.Open(x.Schema().Fields()), x.Columns(), 1)
	_, err := ResolveRecord(open, []string{"v"})
	checkFeatureError(t, err, CodeMissing, "")
	f, err := ResolveRecord(open, []string{"x", "y"})
	if err != nil || !slices.Equal(f.Names, []string{"x", "y"}) {
		t.Errorf("features %v, %v", f.Names, err)
	}
}
