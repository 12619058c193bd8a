package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// transformed is the model of emFiles' rows, and all of them as one table.
func transformed(t *testing.T, dir string) {
	t.Helper()
	mustRun[any](t, dir, "", "replay", "--algorithm", "lca-gauss", "--input", "a.arrow", "--input", "b.arrows", "-o", "m.arrows", "--set", "source.features=[a, b]")
}

// columnsOf reads an Arrow stream or file, with the chunks of a column joined.
func columnsOf(t *testing.T, data []byte) (columns map[string]arrow.Array, names []string) {
	t.Helper()
	var records []arrow.Record
	add := func(rec arrow.Record) { rec.Retain(); records = append(records, rec) }
	var schema *arrow.Schema
	if bytes.HasPrefix(data, []byte("ARROW1")) {
		f, err := ipc.NewFileReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		schema = f.Schema()
		for i := range f.NumRecords() {
			rec, err := f.Record(i)
			if err != nil {
				t.Fatal(err)
			}
			add(rec)
		}
	} else {
		r, err := ipc.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for schema = r.Schema(); r.Next(); {
			add(r.Record())
		}
		if err := r.Err(); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	columns = map[string]arrow.Array{}
	for i, field := range schema.Fields() {
		var parts []arrow.Array
		for _, rec := range records {
			parts = append(parts, rec.Column(i))
		}
		names = append(names, field.Name)
		columns[field.Name] = array.NewSlice(array.MakeArrayOfNull(memory.DefaultAllocator, field.Type, 0), 0, 0)
		if parts != nil {
			joined, err := array.Concatenate(parts, memory.DefaultAllocator)
			if err != nil {
				t.Fatal(err)
			}
			columns[field.Name] = joined
		}
	}
	return columns, names
}

// TestTransformFilesOfSeries holds that rows of files are scored with those before them of the same series, over several files.
func TestTransformFilesOfSeries(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(3, 5))
	both, one, halves := "", "", [2]string{}
	for i := range 1200 {
		row := fmt.Sprintf("m%d,%v,%v\n", i%2, r.NormFloat64()+3*float64(i%2), r.NormFloat64())
		both += row
		halves[i/600] += row
		if i%2 == 0 {
			one += row
		}
	}
	for name, text := range map[string]string{"both": both, "first": halves[0], "second": halves[1], "m0": one} {
		if err := os.WriteFile(filepath.Join(dir, name+".csv"), []byte("machine,a,b\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustRun[any](t, dir, "", "replay", "--input", "both.csv", "-o", "m.arrows", "--set", "source.features=[a, b]")
	scores := func(series string, inputs ...string) (all []float32) {
		t.Helper()
		args := []string{"transform", "--model", "m.arrows", "--set", "transform.series=" + series, "-o", "-"}
		for _, in := range inputs {
			args = append(args, "--input", in+".csv")
		}
		out, fault := lcaStream(t, dir, "", args...)
		if fault != "" {
			t.Fatal(fault)
		}
		columns, _ := columnsOf(t, out)
		if n := columns["lca_recent_p"].NullN(); n > 0 {
			t.Errorf("%s: %d rows have no lca_recent_p", series, n)
		}
		return columns["lca_recent_score"].(*array.Float32).Float32Values()
	}
	of := func(all []float32) (own []float32) {
		for i := 0; i < len(all); i += 2 {
			own = append(own, all[i])
		}
		return own
	}
	byMachine, alone := scores("column:machine", "both"), scores("auto", "m0")
	if !slices.Equal(of(byMachine), alone) || slices.Equal(of(scores("auto", "both")), alone) {
		t.Error("what one machine did is in the scores of another, or no series is what transform.series says")
	}
	if !slices.Equal(byMachine, scores("column:machine", "first", "second")) {
		t.Error("two files give other scores than one of their rows")
	}
	for _, args := range [][]string{{"transform", "--model", "m.arrows", "-o", "-"}, {"replay", "--set", "source.features=[a, b]", "-o", "no.arrows"}} {
		args = append(args, "--set", "transform.series=column:machin", "--input", "m0.csv")
		if _, fault := lcaStream(t, dir, "", args...); !strings.Contains(fault, `m0.csv has no column "machin", which transform.series names`) {
			t.Error(args, fault)
		}
	}
	if _, fault := lcaStream(t, dir, "", "backtest", "m0.csv", "--set", "transform.series=column:machin"); !strings.Contains(fault, `transform.series: there are 0 columns "machin"`) {
		t.Error(fault)
	}
	learnt := func(series string) string {
		got := mustRun[struct{ Fingerprint string }](t, dir, "", "replay", "--input", "both.csv", "--json", "--force", "-o", "other.arrows", "--set", "source.features=[a, b]", "--set", "transform.series="+series)
		return got.Fingerprint
	}
	if learnt("column:machine") == learnt("auto") {
		t.Error("a replay learns no series of transform.series")
	}
}

// TestTransformFiles holds that all columns and rows of all inputs come out in order, with the same values whatever the formats are.
func TestTransformFiles(t *testing.T) {
	dir := emFiles(t)
	transformed(t, dir)
	transform := func(stdin string, args ...string) []byte {
		t.Helper()
		out, fault := lcaStream(t, dir, stdin, append([]string{"transform", "--model", "m.arrows", "--set", "transform.why=1"}, args...)...)
		if fault != "" {
			t.Fatal(args, fault)
		}
		if output := args[len(args)-1]; output != "-" {
			data, err := os.ReadFile(filepath.Join(dir, output))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		return out
	}
	want, names := columnsOf(t, transform("", "--input", "a.arrow", "--input", "b.arrows", "-o", "-"))
	if got := strings.Join(names, " "); got != "id a b lca lca_score lca_p lca_recent_score lca_recent_p lca_why" {
		t.Fatalf("columns %s", got)
	}
	y := want["lca"].(*array.FixedSizeList)
	if y.Len() != 902 || y.NullN() != 2 || !y.IsNull(77) || !y.IsNull(577) || want["a"].NullN() != 2 {
		t.Errorf("%d rows, %d of them null", y.Len(), y.NullN())
	}
	for name, got := range map[string][]byte{
		"a file":              transform("", "--input", "a.arrow", "--input", "b.arrows", "-o", "w.arrow"),
		"a stream":            transform("", "--input", "a.arrow", "--input", "b.arrows", "-o", "w.arrows"),
		"the stream whitened": transform("w.arrows", "--set", "transform.column=again", "--input", "-", "-o", "-"),
	} {
		columns, _ := columnsOf(t, got)
		for column, values := range want {
			same := columns[column]
			if name == "the stream whitened" && column != "id" && column != "a" && column != "b" {
				same = columns[strings.Replace(column, "lca", "again", 1)]
			}
			if same == nil || !array.Equal(values, same) {
				t.Errorf("%s: column %s differs", name, column)
			}
		}
	}
	transform("", "--input", "a.arrow", "--input", "b.arrows", "-o", "w.parquet")
	parquet, _ := columnsOf(t, transform("", "--set", "transform.column=again", "--input", "w.parquet", "-o", "-"))
	for column, values := range want {
		for _, name := range []string{column, strings.Replace(column, "lca", "again", 1)} {
			if parquet[name] == nil || parquet[name].String() != values.String() { // it has lists of any length only
				t.Errorf("Parquet: column %s is not %s", name, column)
			}
		}
	}
	// What was there is overwritten with --force alone, and a file without rows has the columns.
	if _, fault := lcaStream(t, dir, "", "transform", "--model", "m.arrows", "--input", "a.arrow", "-o", "w.arrow"); !strings.Contains(fault, "w.arrow exists already") {
		t.Error(fault)
	}
	empty := writeRecord(t, filepath.Join(dir, "none.arrows"), 0)
	for _, output := range []string{"w.arrow", "w.arrows"} {
		columns, names := columnsOf(t, transform("", "--force", "--input", empty, "-o", output))
		if len(names) != 9 || columns["lca"].Len() != 0 {
			t.Errorf("%s: columns %v", output, names)
		}
	}
}

// writeRecord writes a stream of rows with the columns of emFiles, and returns its name.
func writeRecord(t *testing.T, path string, rows int) string {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float32}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for range rows {
		b.Field(0).(*array.StringBuilder).Append("x")
		b.Field(1).(*array.Float64Builder).Append(1)
		b.Field(2).(*array.Float32Builder).Append(2)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := ipc.NewWriter(f, ipc.WithSchema(schema))
	if rows > 0 {
		err = w.Write(b.NewRecord())
	}
	if err := errors.Join(err, w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(path)
}

// TestTransformFilesRefuses holds that what would lose rows gives no file, with a reason and the exit code 2, or 1 for the command line.
func TestTransformFilesRefuses(t *testing.T) {
	dir := emFiles(t)
	transformed(t, dir)
	data, err := os.ReadFile(filepath.Join(dir, "b.arrows"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cut.arrows"), data[:len(data)-5000], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"transform", "--model", "m.arrows", "-o", "w.arrow", "--input"}
	mustRun[any](t, dir, "", "transform", "--model", "m.arrows", "--input", "a.arrow", "-o", "done.arrow")
	for name, c := range map[string]struct {
		stdin string
		args  []string
		says  string
	}{
		"a cut file":           {"", append(files, "a.arrow", "--input", "cut.arrows"), "exit status 2: lca-stream: cut.arrows"},
		"a cut stream":         {"cut.arrows", append(files, "-"), "exit status 2: lca-stream: standard input, after"},
		"no such file":         {"", append(files, "none.arrow"), "none.arrow: no such file"},
		"no such feature":      {"", append(files, "m.arrows"), "exit status 2"},
		"other columns":        {"", append(files, "a.arrow", "--input", "done.arrow"), `done.arrow: it has one more column, "lca": all inputs need the columns of the first, a.arrow`},
		"a column of ours":     {"", append(files, "done.arrow"), `done.arrow: the input already has a column "lca": set transform.column`},
		"a row to stop at":     {"", append(files, "a.arrow", "--set", "source.on_invalid=stop"), "exit status 2: lca-stream: a.arrow"},
		"twice":                {"", append(files, "a.arrow", "--input", "a.arrow"), "exit status 1"},
		"over its input":       {"", []string{"transform", "--model", "m.arrows", "--force", "--input", "a.arrow", "-o", "./a.arrow"}, "exit status 1: lca-stream: --output ./a.arrow is a.arrow, which is read"},
		"over its model":       {"", []string{"transform", "--model", "m.arrows", "--force", "--input", "a.arrow", "-o", "m.arrows"}, "exit status 1"},
		"an unknown extension": {"", []string{"transform", "--model", "m.arrows", "--input", "a.arrow", "-o", "w.csv"}, `extension ".csv"`},
		"no model":             {"", []string{"transform", "--input", "a.arrow", "-o", "w.arrow"}, "exit status 1: lca-stream: which model?"},
		"no input":             {"", []string{"transform", "--model", "m.arrows", "-o", "w.arrow"}, "exit status 1"},
		"no output":            {"", []string{"transform", "--model", "m.arrows", "--input", "a.arrow"}, "exit status 1"},
		"a version of a file":  {"", append(files, "a.arrow", "--version", "3"), "exit status 1"},
		"a setting that is no": {"", append(files, "a.arrow", "--set", "transform.wy=3"), `did you mean`},
	} {
		_, fault := lcaStream(t, dir, c.stdin, c.args...)
		if !strings.Contains(fault, c.says) {
			t.Errorf("%s: %q does not say %q", name, fault, c.says)
		}
		if _, err := os.Stat(filepath.Join(dir, "w.arrow")); err == nil {
			t.Errorf("%s: there is a file", name)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".lca-stream-*")); err != nil || left != nil {
		t.Error("temporary files are left:", left, err)
	}
}

// TestEachRowIsCountedOnce holds that a row whose coordinates are beyond float32, so that it is null, is not among those that were whitened.
func TestEachRowIsCountedOnce(t *testing.T) {
	dir := emFiles(t)
	transformed(t, dir)
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float32}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	b.Field(0).(*array.Float64Builder).AppendValues([]float64{50, 1e100, math.NaN(), 51}, nil)
	b.Field(1).(*array.Float32Builder).AppendValues([]float32{1, 1, 1, 1}, nil)
	var rows bytes.Buffer
	w := ipc.NewWriter(&rows, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(b.NewRecord()), w.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("lca-stream", "transform", "--model", "m.arrows", "--input", "-", "-o", "w.arrow")
	cmd.Dir, cmd.Stdin = dir, &rows
	said, err := cmd.CombinedOutput()
	if want := ", 2 not (inf: 1, nan: 1), in "; err != nil || !strings.HasPrefix(string(said), "2 rows whitened") || !strings.Contains(string(said), want) {
		t.Errorf("%s (%v), want 2 rows%s", said, err, want)
	}
}
