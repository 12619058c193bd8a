package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/em"
)

// TestEMOfRowsFarAway holds that rows with fill values, of either type of column, cost a refit nothing but these rows, and that whatever transform
// has as null is left out.
func TestEMOfRowsFarAway(t *testing.T) {
	dir := emFiles(t)
	mustRun[any](t, dir, "", "replay", "--algorithm", "lca-gauss", "--passes", "1", "--input", "a.arrow", "-o", "m.arrows", "--set", "source.features=[a, b]")
	mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "a.arrow", "-o", "clean.sums")
	want := mustRun[em.Maximized](t, dir, "", "em", "maximize", "--model", "m.arrows", "--input", "clean.sums", "-o", "clean.arrows", "--json")
	for i, far := range [][2]float64{{1e30, 0}, {math.MaxFloat64, 0}, {1e39, 0}, {0, -1e30}, {0, math.MaxFloat32}, {9.96921e36, 9.96921e36}, {math.Inf(1), 0}} {
		name := fmt.Sprintf("far%d.arrows", i)
		writeRow(t, filepath.Join(dir, name), far[0], float32(far[1]))
		for _, precision := range []string{"float64", "float32"} {
			mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--precision", precision, "--input", "a.arrow", "--input", name, "-o", "far.sums")
			got := mustRun[em.Maximized](t, dir, "", "em", "maximize", "--model", "m.arrows", "--input", "far.sums", "-o", "next.arrows", "--json")
			if got.Rows != want.Rows || got.Invalid != want.Invalid+1 || precision == "float64" && got.NLL != want.NLL {
				t.Errorf("%v, %s: %+v, without it %+v", far, precision, got, want)
			}
		}
	}
}

// writeRow writes one row.
func writeRow(t *testing.T, path string, a float64, b float32) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float32}}, nil)
	row := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	row.Field(0).(*array.Float64Builder).Append(a)
	row.Field(1).(*array.Float32Builder).Append(b)
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(cut(ipc.NewWriter(f, ipc.WithSchema(schema)), nil)(row.NewRecord(), 1), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
