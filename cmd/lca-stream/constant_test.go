package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/replay"
)

// writeSensors writes rows of sensors a to c and of d, which stays at its level, as float32 or float64.
func writeSensors(t *testing.T, path string, kind arrow.DataType, rows int, level func(row int) float64) {
	t.Helper()
	var fields []arrow.Field
	for _, name := range []string{"a", "b", "c", "d"} {
		fields = append(fields, arrow.Field{Name: name, Type: kind})
	}
	schema := arrow.NewSchema(fields, nil)
	b, r := array.NewRecordBuilder(memory.DefaultAllocator, schema), rand.New(rand.NewPCG(uint64(rows), 2))
	for i := range rows {
		for k, field := range b.Fields() {
			v := r.NormFloat64()
			if k == 3 {
				v = level(i)
			}
			switch field := field.(type) {
			case *array.Float32Builder:
				field.Append(float32(v))
			case *array.Float64Builder:
				field.Append(v)
			}
		}
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := cut(ipc.NewFileWriter(f, ipc.WithSchema(schema)))(b.NewRecord(), 500); err != nil {
		t.Fatal(err)
	}
}

// TestConstantSensor holds that replay names a column that has not moved, and that a row in which it moves is the clearest anomaly of a transform of files, whatever type
// its numbers come in: the highest scores, the least p, the column first in lca_why.
func TestConstantSensor(t *testing.T) {
	for _, preset := range []string{"metric", "density"} {
		for _, level := range []float64{3.3, 0} {
			t.Run(fmt.Sprint(preset, level), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				writeSensors(t, filepath.Join(dir, "train.arrow"), arrow.PrimitiveTypes.Float64, 3000, func(int) float64 { return level })
				moved := func(i int) bool { return i%20 == 0 }
				writeSensors(t, filepath.Join(dir, "test.arrow"), arrow.PrimitiveTypes.Float32, 1000, func(i int) float64 {
					if moved(i) {
						return level + 1
					}
					return level
				})
				made := mustRun[replay.Result](t, dir, "", "replay", "--input", "train.arrow", "-o", "m.arrows", "--set", "source.features=[a, b, c, d]", "--set", "lca.preset="+preset, "--json")
				if len(made.Constant) != 1 || made.Constant[0] != "d" || made.RowsPerFeature != 1000 || made.Wanted != 0 {
					t.Errorf("%+v", made)
				}
				mustRun[any](t, dir, "", "transform", "--model", "m.arrows", "--input", "test.arrow", "-o", "o.arrow", "--set", "transform.why=1")
				data, err := os.ReadFile(filepath.Join(dir, "o.arrow"))
				if err != nil {
					t.Fatal(err)
				}
				columns, _ := columnsOf(t, data)
				score, p, why := columns["lca_score"].(*array.Float32), columns["lca_p"].(*array.Float32), columns["lca_why"].(*array.List)
				first := why.ListValues().(*array.Struct).Field(0)
				highest := float32(0)
				for i := range score.Len() {
					if !moved(i) {
						highest = max(highest, score.Value(i))
					}
				}
				for i := range score.Len() {
					if moved(i) && (score.Value(i) < highest+100 || p.Value(i) > 1e-11 || first.ValueStr(i) != "d") {
						t.Fatalf("row %d scores %v, p %v, first %s; the others score %v at most", i, score.Value(i), p.Value(i), first.ValueStr(i), highest)
					}
				}
			})
		}
	}
}

// TestReplayOfFewRows holds that a replay makes a model of few rows, of all and of each key, says that it is young, and refuses what cannot be.
func TestReplayOfFewRows(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, rows int) {
		writeSensors(t, filepath.Join(dir, name), arrow.PrimitiveTypes.Float64, rows, func(i int) float64 { return float64(i % 2) })
	}
	write("few.arrow", 40)
	write("fewer.arrow", 5)
	write("first.arrow", 200) // the first model is of the last row
	for _, preset := range []string{"metric", "density"} {
		made := mustRun[replay.Result](t, dir, "", "replay", "--input", "few.arrow", "-o", preset+".arrows", "--set", "source.features=[a, b, c, d]", "--set", "lca.preset="+preset, "--json")
		if made.Rows != 40 || made.RowsPerFeature != 10 || made.Wanted < 80 || len(made.Constant) > 0 {
			t.Errorf("%+v", made)
		}
	}
	if made := mustRun[replay.Result](t, dir, "", "replay", "--input", "first.arrow", "-o", "first.arrows", "--set", "source.features=[a, b, c, d]", "--json"); made.NLL == nil || made.SingleNLL == nil {
		t.Errorf("figures of a set that ends with its first model: %+v", made)
	}
	each := mustRun[replay.KeyedSummary](t, dir, "", "replay", "--input", "few.arrow", "-o", "each", "--set", "source.features=[a, b, c]", "--set", "model.by=column:d", "--json")
	if each.Made != 2 || each.Models[0].Rows != 20 || each.Models[0].Wanted < 60 {
		t.Errorf("%+v", each)
	}
	if _, fault := lcaStream(t, dir, "", "replay", "--input", "fewer.arrow", "-o", "m", "--set", "source.features=[a, b, c, d]"); !strings.Contains(fault, "5 rows are too few to learn a metric of 4 features: the first takes 6") {
		t.Errorf("of 5 rows: %q", fault)
	}
}
