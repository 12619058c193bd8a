package rowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source/format"
)

// message is a record as a message of an output topic.
func message(t testing.TB, rec arrow.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(rec.Schema()))
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// contents reads a file: the columns' names and types, and their values as text.
func contents(t *testing.T, path string) (columns []string, values map[string][]string) {
	t.Helper()
	f, err := format.OpenFile(path, format.FileConfig{MaxRows: 90})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for _, field := range f.Schema().Fields() {
		columns = append(columns, field.Name+" "+field.Type.String())
	}
	values = map[string][]string{}
	for i := range f.Batches() {
		rec, err := f.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		for c, col := range rec.Columns() {
			for k := range col.Len() {
				values[rec.ColumnName(c)] = append(values[rec.ColumnName(c)], col.ValueStr(k))
			}
		}
		rec.Release()
	}
	return columns, values
}

// written writes the batches of a file as Parquet, and returns where.
func written(t *testing.T, path string) string {
	t.Helper()
	in, err := format.OpenFile(path, format.FileConfig{MaxRows: 70})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // it was only read
	var out bytes.Buffer
	w, err := New(Parquet, &out, in.Schema(), false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in.Batches() {
		rec, err := in.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		b := message(t, rec)
		if err := w.Write(b[:9], b[9:]); err != nil {
			t.Fatal(err)
		}
		rec.Release()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "out.parquet")
	if err := os.WriteFile(to, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// Files of every type come back as they were, in the order of their columns. What Parquet has no type for is another type then.
func TestParquetRoundTrip(t *testing.T) {
	for _, name := range []string{"table.arrow", "nested.arrow"} {
		path := filepath.Join("../../source/format/testdata/files", name)
		columns, want := contents(t, path)
		gotColumns, got := contents(t, written(t, path))
		for i, c := range columns {
			switch {
			case strings.HasPrefix(c, "fsl "):
				columns[i] = "fsl list<item: float32, nullable>"
			case strings.HasPrefix(c, "dictionary "):
				columns[i] = "dictionary utf8"
			}
		}
		if diff := cmp.Diff(columns, gotColumns); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Units that Parquet has not become finer ones; views and large offsets are texts and bytes like others.
func TestParquetOtherTypes(t *testing.T) {
	for _, c := range []struct {
		dt       arrow.DataType
		in, want string
		column   string
	}{
		{&arrow.TimestampType{Unit: arrow.Second}, `[7, null]`, "[1970-01-01 00:00:07Z (null)]", "timestamp[ms]"},
		{arrow.FixedWidthTypes.Time32s, `["01:02:03"]`, "[01:02:03.000]", "time32[ms]"},
		{arrow.FixedWidthTypes.Date64, `["2026-01-02"]`, "[2026-01-02]", "date32"},
		{arrow.FixedWidthTypes.Duration_ms, `["5ms"]`, "[5]", "int64"},
		{arrow.BinaryTypes.LargeString, `["a", null, ""]`, "[a (null) ]", "utf8"},
		{arrow.BinaryTypes.StringView, `["a", null, ""]`, "[a (null) ]", "utf8"},
		{arrow.BinaryTypes.LargeBinary, `["/w=="]`, "[/w==]", "binary"},
		{arrow.LargeListOf(arrow.PrimitiveTypes.Int8), `[[1, null], null, []]`, "[[1,null] (null) []]", "list<item: int8, nullable>"},
	} {
		a, _, err := array.FromJSON(memory.DefaultAllocator, c.dt, strings.NewReader(c.in))
		if err != nil {
			t.Fatal(c.dt, err)
		}
		rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.dt, Nullable: true}}, nil), []arrow.Array{a}, int64(a.Len()))
		var out bytes.Buffer
		w, err := newParquetFile(&out, rec.Schema())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.write(rec); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "c.parquet")
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		columns, values := contents(t, path)
		if got := columns[0]; got != "c "+c.column {
			t.Errorf("%s: read back as %s, want %s", c.dt, got, c.column)
		}
		if got := strings.Join(values["c"], " "); "["+got+"]" != c.want {
			t.Errorf("%s: read back %s, want %s", c.dt, got, c.want)
		}
	}
}

// Seconds become milliseconds, and milliseconds of a date become days. What these do not hold is null and counted, wherever it stands, and never another time.
func TestParquetTimesThatDoNotFit(t *testing.T) {
	const most = math.MaxInt64
	seconds := arrow.FixedWidthTypes.Timestamp_s
	for _, c := range []struct {
		dt       arrow.DataType
		in, want string
		lost     int
	}{
		{seconds, fmt.Sprintf("[%d, %d, 9000000000000000, 9300000000000000, null, -1]", most, -most-1), "(null) (null) 285200616-07-24 16:00:00Z (null) (null) 1969-12-31 23:59:59Z", 3},
		{arrow.FixedWidthTypes.Time32s, "[2147483647, 86399]", "(null) 23:59:59.000", 1},
		{arrow.FixedWidthTypes.Date64, fmt.Sprintf("[%d, 86400000]", int64(most)), "(null) 1970-01-02", 1},
		{arrow.ListOf(seconds), fmt.Sprintf("[[1, %d, null], null, []]", most), `["1970-01-01 00:00:01",null,null] (null) []`, 1},
		{arrow.StructOf(arrow.Field{Name: "t", Type: seconds, Nullable: true}), fmt.Sprintf(`[{"t": %d}, {"t": 2}]`, most), `{"t":null} {"t":"1970-01-01 00:00:02"}`, 1},
	} {
		a := integers(t, c.dt, c.in)
		rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.dt, Nullable: true}}, nil), []arrow.Array{a}, int64(a.Len()))
		var out bytes.Buffer
		w, err := newParquetFile(&out, rec.Schema())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.write(rec), w.Close()); err != nil {
			t.Fatal(c.dt, err)
		}
		path := filepath.Join(t.TempDir(), "c.parquet")
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		_, values := contents(t, path)
		if got := strings.Join(values["c"], " "); got != c.want || w.Lost() != c.lost {
			t.Errorf("%s: read back %s, and %d are lost; want %s, and %d", c.dt, got, w.Lost(), c.want, c.lost)
		}
	}
	keys := arrow.MapOf(seconds, arrow.PrimitiveTypes.Int8)
	b := array.NewMapBuilder(memory.DefaultAllocator, seconds, arrow.PrimitiveTypes.Int8, false)
	b.Append(true)
	b.KeyBuilder().(*array.TimestampBuilder).Append(most)
	b.ItemBuilder().(*array.Int8Builder).Append(1)
	rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "keys", Type: keys}}, nil), []arrow.Array{b.NewArray()}, 1)
	w, err := newParquetFile(io.Discard, rec.Schema())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write(rec); err == nil || !strings.Contains(err.Error(), `"keys"`) || !strings.Contains(err.Error(), "write .arrow") {
		t.Errorf("a key that does not fit: %v", err)
	}
}

// integers makes an array of times of their numbers.
func integers(t *testing.T, dt arrow.DataType, text string) arrow.Array {
	t.Helper()
	plain := func(dt arrow.DataType) arrow.DataType {
		if dt.ID() == arrow.TIME32 {
			return arrow.PrimitiveTypes.Int32
		}
		return arrow.PrimitiveTypes.Int64
	}
	var numbers arrow.DataType
	switch dt := dt.(type) {
	case *arrow.ListType:
		numbers = arrow.ListOf(plain(dt.Elem()))
	case *arrow.StructType:
		numbers = arrow.StructOf(arrow.Field{Name: "t", Type: plain(dt.Field(0).Type), Nullable: true})
	default:
		numbers = plain(dt)
	}
	a, _, err := array.FromJSON(memory.DefaultAllocator, numbers, strings.NewReader(text))
	if err != nil {
		t.Fatal(dt, err)
	}
	data := a.Data()
	children := data.Children()
	for i := range children {
		inner := children[i]
		children[i] = array.NewData(dt.(arrow.NestedType).Fields()[i].Type, inner.Len(), inner.Buffers(), nil, inner.NullN(), 0)
	}
	return array.MakeFromData(array.NewData(dt, data.Len(), data.Buffers(), children, data.NullN(), 0))
}

// What cannot be written is refused before a row is, with the column's name and what to do.
func TestParquetRefuses(t *testing.T) {
	for _, dt := range []arrow.DataType{
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int8), arrow.FixedWidthTypes.MonthInterval, arrow.StructOf(),
		&arrow.Decimal128Type{Precision: 5, Scale: -2},
	} {
		_, err := New(Parquet, nil, arrow.NewSchema([]arrow.Field{{Name: "odd one", Type: dt}}, nil), false)
		if err == nil || !strings.Contains(err.Error(), `"odd one"`) || !strings.Contains(err.Error(), "write .arrow") {
			t.Errorf("%s: %v", dt, err)
		}
	}
}

// Row groups end at their bound, so that memory does not grow with the file.
func TestParquetRowGroups(t *testing.T) {
	rows := make([]float32, 1<<16)
	b := array.NewFloat32Builder(memory.DefaultAllocator)
	b.AppendValues(rows, nil)
	rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float32}}, nil), []arrow.Array{b.NewArray()}, int64(len(rows)))
	var out bytes.Buffer
	p, err := newParquetFile(&out, rec.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for range groupRows/len(rows) + 1 {
		if err := p.write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if p.rows != len(rows) || p.begun == 0 {
		t.Errorf("%d rows are held from byte %d on, after %d rows", p.rows, p.begun, groupRows+len(rows))
	}
}
