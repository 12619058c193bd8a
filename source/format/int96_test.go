package format

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/google/go-cmp/cmp"
)

// Times of the years 1 to 9999 are those that pyarrow reads as microseconds, at the top and within lists. What microseconds of 64 bits do not
// hold is null, and is told, as are nanoseconds that are left out.
func TestInt96(t *testing.T) {
	text, err := os.ReadFile("testdata/int96.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []*int64
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, maxRows := range []int{everyRow, 5, 1} {
		var told []string
		f, err := OpenFile("testdata/int96.parquet", FileConfig{MaxRows: maxRows, Changed: func(column, how string, n int) {
			told = append(told, fmt.Sprintf("%s: %d %s", column, n, how))
		}})
		if err != nil {
			t.Fatal(err)
		}
		var got, inList []*int64
		for i := range f.Batches() {
			rec, err := f.Read(i)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, microseconds(t, rec.Column(0))...)
			inList = append(inList, microseconds(t, rec.Column(1).(*array.List).ListValues())...)
			rec.Release()
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got) + cmp.Diff(want, inList); diff != "" {
			t.Errorf("max %d rows: %s", maxRows, diff)
		}
		wantTold := []string{"t: 1 " + nullTimes, "t: 2 " + shortTimes, "l.list.element: 1 " + nullTimes, "l.list.element: 2 " + shortTimes}
		if !slices.Equal(told, wantTold) {
			t.Errorf("told %q, want %q", told, wantTold)
		}
	}
}

func microseconds(t *testing.T, a arrow.Array) (all []*int64) {
	t.Helper()
	if unit := a.DataType().(*arrow.TimestampType).Unit; unit != arrow.Microsecond {
		t.Fatalf("times in %v", unit)
	}
	nulls := 0
	for i, v := range a.(*array.Timestamp).TimestampValues() {
		if a.IsNull(i) {
			all, nulls = append(all, nil), nulls+1
		} else {
			v := int64(v)
			all = append(all, &v)
		}
	}
	if nulls != a.NullN() {
		t.Errorf("%d nulls are announced, the bitmap has %d", a.NullN(), nulls)
	}
	return all
}
