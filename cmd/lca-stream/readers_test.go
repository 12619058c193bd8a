package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source/format"
)

// hostileInput is the worst input that is known for a reader: small, and as much as it can be made to take.
type hostileInput struct {
	name  string // the first column of the table
	bytes []byte
	read  func([]byte) error // it may refuse
}

// TestReadersTakeWhatTheTableSays holds the table of docs/security.md: what each reader of others' bytes takes for the worst input that is known. A row has a case here,
// or names the test that holds it.
func TestReadersTakeWhatTheTableSays(t *testing.T) {
	rows := readersTable(t)
	for _, h := range hostileInputs(t) {
		row, ok := rows[h.name]
		if !ok {
			t.Errorf("%q has no row in docs/security.md", h.name)
			continue
		}
		delete(rows, h.name)
		before, began := allocatedBytes(), time.Now()
		err := h.read(h.bytes)
		took, lasted := allocatedBytes()-before, time.Since(began)
		most := row.fixed + row.times*uint64(len(h.bytes))
		t.Logf("%s: %d bytes took %d kB of at most %d, %d times as many, in %v: %.100v", h.name, len(h.bytes), took>>10, most>>10, took/uint64(len(h.bytes)), lasted, err)
		if took > most {
			t.Errorf("%s: %d bytes took %d, the table says at most %d", h.name, len(h.bytes), took, most)
		}
	}
	for name, row := range rows {
		if !strings.Contains(row.held, "`Test") && !strings.Contains(row.held, "`test_") {
			t.Errorf("%q has no case here, and names no test", name)
		}
	}
}

type readerRow struct {
	fixed, times uint64 // bytes in any case, and for each of the input
	held         string // by which test
}

// readersTable reads the table.
func readersTable(t *testing.T) map[string]readerRow {
	t.Helper()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| what is read |")
	if !ok {
		t.Fatal("docs/security.md has no table of readers")
	}
	fixed, times := regexp.MustCompile(`(\d+) MiB`), regexp.MustCompile(`(\d+) times`)
	number := func(re *regexp.Regexp, text string) uint64 {
		found := re.FindStringSubmatch(text)
		if found == nil {
			return 0
		}
		n, _ := strconv.ParseUint(found[1], 10, 64)
		return n
	}
	rows := map[string]readerRow{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 6 || strings.HasPrefix(cells[1], "---") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		rows[strings.TrimSpace(cells[1])] = readerRow{number(fixed, cells[3]) << 20, number(times, cells[3]), cells[5]}
	}
	if len(rows) < 10 {
		t.Fatalf("%d rows", len(rows))
	}
	return rows
}

func allocatedBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// oneSchema is a registry with a schema.
type oneSchema format.Schema

func (s *oneSchema) Schema(context.Context, int) (*format.Schema, error) {
	return (*format.Schema)(s), nil
}

// decodes reads a message.
func decodes(t *testing.T, s *format.Schema) func([]byte) error {
	t.Helper()
	c := format.Config{}
	if s != nil {
		c.Registry = (*oneSchema)(s)
	}
	d, err := format.NewDecoder(c)
	if err != nil {
		t.Fatal(err)
	}
	return func(b []byte) error {
		rec, err := d.Decode(t.Context(), b, "")
		if err == nil {
			rec.Columns()
		}
		return err
	}
}

// named1 is a value behind the prefix that names schema 1.
func named1(body []byte) []byte { return append([]byte{0, 0, 0, 0, 1}, body...) }

func hostileInputs(t *testing.T) []hostileInput {
	t.Helper()
	const megabyte = 1 << 20
	protobuf := `syntax = "proto3"; message R { double a = 1; repeated S s = 2; } message S {`
	for i := range 50 {
		protobuf += fmt.Sprintf(" double f%d = %d;", i, i+1)
	}
	empties := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nil), megabyte/4)
	var enum strings.Builder
	enum.WriteString(`syntax = "proto3"; message R { double a = 1; E e = 2; } enum E {`)
	for i := range 20_000 {
		fmt.Fprintf(&enum, "A%d = %d;", i, i)
	}
	enum.WriteString("}")
	var columns strings.Builder
	for i := range 100 {
		fmt.Fprintf(&columns, `"a%d":1,`, i)
	}
	fields := `{"type":"record","name":"R","fields":[{"name":"a","type":"double"}`
	for i := range 8000 {
		fields += fmt.Sprintf(`,{"name":"a%d","type":"int"}`, i)
	}
	compile := func(kind format.SchemaType) func([]byte) error {
		return func(b []byte) error {
			return decodes(t, &format.Schema{ID: 1, Type: kind, Text: string(b)})(named1([]byte{0}))
		}
	}
	avro := format.Schema{ID: 1, Type: format.SchemaAvro, Text: `{"type":"record","name":"R","fields":[{"name":"a","type":"double"},{"name":"n","type":{"type":"array","items":{"type":"record","name":"E","fields":[]}}}]}`}
	nothing := append(make([]byte, 8), 0xfe, 0xff, 0xff, 0xff, 0x0f, 0)
	crowded := checkpoint.Checkpoint{ModelID: "default", Features: make([]string, 30_000), Slots: snapshot.Slots{}}
	for i := range 10_000 {
		crowded.Slots[i] = snapshot.Chunks{Model: 1}
	}
	saved, err := crowded.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(extension string) func([]byte) error {
		return func(b []byte) error {
			path := filepath.Join(dir, "rows"+extension)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := format.OpenFile(path, format.FileConfig{MaxRows: 1 << 16, MaxBytes: app.LeastFileBatch})
			if err == nil {
				defer f.Close()
				_, err = f.Read(0)
			}
			return err
		}
	}
	return []hostileInput{
		{"a message of Arrow", arrowZeros(t, 60*megabyte, 8), decodes(t, nil)},
		{"a message of JSON", []byte(`[{` + strings.TrimSuffix(columns.String(), ",") + `}` + strings.Repeat(`,{}`, 80_000) + `]`), decodes(t, nil)},
		{"a message of Avro", named1(nothing), decodes(t, &avro)},
		{"a message of Protobuf", named1(append([]byte{0}, empties...)), decodes(t, &format.Schema{ID: 1, Type: format.SchemaProtobuf, Text: protobuf + "}"})},
		{"a schema of Protobuf", []byte(enum.String()), compile(format.SchemaProtobuf)},
		{"a schema of Avro", []byte(fields + "]}"), compile(format.SchemaAvro)},
		{"a schema of JSON", []byte(`{"type":"object","properties":{"a":{"type":"number"}},"x":[` + strings.Repeat("{},", megabyte/8) + `0]}`), compile(format.SchemaJSON)},
		{"a file of Parquet", parquetWords(t), file(".parquet")},
		{"a file of Arrow", arrowZeros(t, 256*megabyte, 8), file(".arrow")},
		{"a model file, `.arrows`", arrowZeros(t, 256*megabyte, 8), imports},
		{"a checkpoint", saved, func(b []byte) error { return new(checkpoint.Checkpoint).UnmarshalBinary(b) }},
	}
}

func imports(b []byte) error {
	_, err := snapshot.ReadFile(bytes.NewReader(b))
	return err
}

// arrowZeros is a file or message of float64 columns that take size bytes once they are decompressed.
func arrowZeros(t *testing.T, size, columns int) []byte {
	t.Helper()
	rows := size / 8 / columns
	zeros := array.NewFloat64Data(array.NewData(arrow.PrimitiveTypes.Float64, rows, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8*rows))}, nil, 0, 0))
	var fields []arrow.Field
	var all []arrow.Array
	for i := range columns {
		fields, all = append(fields, arrow.Field{Name: fmt.Sprint("a", i), Type: arrow.PrimitiveTypes.Float64}), append(all, zeros)
	}
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema(fields, nil)), ipc.WithZstd())
	if err := w.Write(array.NewRecord(arrow.NewSchema(fields, nil), all, int64(rows))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// parquetWords is a file with one long text in each row.
func parquetWords(t *testing.T) []byte {
	t.Helper()
	type row struct {
		A float64
		T string `parquet:"t,dict"`
	}
	rows := make([]row, 200)
	for i := range rows {
		rows[i].T = strings.Repeat("x", 500<<10)
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.Compression(&parquet.Zstd))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
