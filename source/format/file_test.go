package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// everyRow is more rows than any of the files has.
const everyRow = 1 << 16

// rowsOf reads a file to its end and dumps its columns by name.
func rowsOf(t *testing.T, f *File) map[string][]string {
	t.Helper()
	cols := map[string][]string{}
	rows := int64(0)
	for i := range f.Batches() {
		rec, err := f.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		rows += rec.NumRows()
		for c, values := range dumpRecord(rec) {
			name := rec.ColumnName(c)
			cols[name] = append(cols[name], values...)
		}
		rec.Release()
	}
	if rows != f.Rows() {
		t.Errorf("%d rows, %d announced", rows, f.Rows())
	}
	return cols
}

func openFile(t *testing.T, maxRows int, name string) *File {
	t.Helper()
	f, err := OpenFile(filepath.Join("testdata/files", name), FileConfig{MaxRows: maxRows})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// Every format and encoding holds the same table.
func TestFilesHoldTheSameTable(t *testing.T) {
	want := rowsOf(t, openFile(t, everyRow, "table.arrow"))
	if len(want) != 21 || len(want["full"]) != 250 {
		t.Fatalf("table.arrow: %d columns of %d rows", len(want), len(want["full"]))
	}
	for _, name := range []string{
		"table.arrows", "zstd.arrow", "none.parquet", "snappy.parquet", "zstd.parquet", "lz4.parquet", "gzip.parquet",
		"brotli.parquet", "split.parquet", "delta.parquet", "pages.parquet", "decimal.parquet",
	} {
		t.Run(name, func(t *testing.T) {
			for _, maxRows := range []int{everyRow, 33, 1} {
				f := openFile(t, maxRows, name)
				if f.Rows() != 250 {
					t.Errorf("%d rows announced", f.Rows())
				}
				got := rowsOf(t, f)
				for col, values := range want {
					if col == "dictionary" && filepath.Ext(name) == ".parquet" {
						continue // not in these files
					}
					if diff := cmp.Diff(values, got[col]); diff != "" {
						t.Errorf("max %d rows, column %s: %s", maxRows, col, diff)
					}
				}
			}
		})
	}
}

// bare is an Arrow file whose schema at the beginning stands there without its length, as polars writes it.
func bare(t testing.TB, name string) []byte {
	t.Helper()
	b := read(t, name)
	const prefix = 8
	n := int(binary.LittleEndian.Uint32(b[ipcguard.FileHead+4:]))
	copy(b[ipcguard.FileHead:], b[ipcguard.FileHead+prefix:][:n])
	clear(b[ipcguard.FileHead+n:][:prefix])
	return b
}

func TestArrowFilesWithoutTheLengthOfTheirSchema(t *testing.T) {
	for _, name := range []string{"table.arrow", "zstd.arrow"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, bare(t, name), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, maxRows := range []int{everyRow, 33} {
			f, err := OpenFile(path, FileConfig{MaxRows: maxRows})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rowsOf(t, openFile(t, maxRows, name)), rowsOf(t, f)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Structs, lists of anything, maps and decimals are the same columns as in Arrow, wherever batches and pages end.
func TestParquetHoldsNestedColumns(t *testing.T) {
	texts := func(f *File) (columns []string, values map[string][]string) {
		values = map[string][]string{}
		for i := range f.Batches() {
			rec, err := f.Read(i)
			if err != nil {
				t.Fatal(err)
			}
			columns = nil
			for c, col := range rec.Columns() {
				columns = append(columns, rec.ColumnName(c)+" "+col.DataType().String())
				for k := range col.Len() {
					values[rec.ColumnName(c)] = append(values[rec.ColumnName(c)], col.ValueStr(k))
				}
			}
			rec.Release()
		}
		return columns, values
	}
	columns, want := texts(openFile(t, everyRow, "nested.arrow"))
	if len(want) != 12 || len(want["map"]) != 250 {
		t.Fatalf("nested.arrow: %d columns of %d rows", len(want), len(want["map"]))
	}
	for _, name := range []string{"nested.parquet", "nested1.parquet"} {
		if name == "nested1.parquet" { // which has INT96
			columns = slices.Clone(columns)
			columns[len(columns)-1] = "nanoseconds timestamp[us]"
			for i, text := range want["nanoseconds"] {
				if seconds, rest, ok := strings.Cut(text, "."); ok {
					want["nanoseconds"][i] = strings.TrimRight(seconds+"."+rest[:min(6, len(rest)-1)], ".0") + "Z"
				}
			}
		}
		for _, maxRows := range []int{everyRow, 33, 1} {
			gotColumns, got := texts(openFile(t, maxRows, name))
			if diff := cmp.Diff(columns, gotColumns); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, max %d rows: %s", name, maxRows, diff)
			}
		}
	}
}

// encrypted is a Parquet file that cannot be read without a key.
func encrypted(t *testing.T, footer bool) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquetgo.NewGenericWriter[struct{ A float64 }](&b, parquetgo.WithEncryption(&parquetgo.EncryptionConfig{FooterKey: make([]byte, 16), EncryptedFooter: footer}))
	if _, err := w.Write([]struct{ A float64 }{{1}, {2}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOpenFileRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	directory := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	arrow, parquet, stream := read(t, "table.arrow"), read(t, "zstd.parquet"), read(t, "table.arrows")
	for _, c := range []struct{ name, path, says string }{
		{"missing", filepath.Join(dir, "none.arrow"), "no such file"},
		{"a directory", t.TempDir(), `it is a directory: name each of its files`},
		{"an unknown type", write("a.xml", []byte("<a/>\n")), `".xml" are not read: convert to .arrow, .feather, .arrows, .parquet, .csv, .tsv, .csv.gz or .tsv.gz`},
		{"JSON, which is read from messages only", write("a.json", []byte("{}")), `".json" are not read`},
		{"a directory that is named as a file, as Spark writes them", directory("rows.parquet"), `it is a directory: name each of its files`},
		{"a device", os.DevNull, "it is no file"},
		{"an empty file", write("empty.arrow", nil), "the file is empty"},
		{"an empty stream", write("empty.arrows", nil), "the file is empty"},
		{"an empty Parquet file", write("empty.parquet", nil), "the file is empty"},
		{"Feather version 1", write("v1.feather", []byte("FEA1\x00\x00\x00\x00")), "this is Feather version 1, which is not read: rewrite it as version 2"},
		{"encrypted", write("footer.parquet", encrypted(t, true)), "encrypted files are not read: decrypt it first"},
		{"encrypted, with a plain footer", write("columns.parquet", encrypted(t, false)), "encrypted files are not read: decrypt it first"},
		{"Parquet by the name of Arrow", write("parquet.arrow", parquet), "this is a Parquet file: let its name end in .parquet"},
		{"Arrow by the name of Parquet", write("arrow.parquet", arrow), "this is an Arrow file: let its name end in .arrow"},
		{"a stream by the name of Parquet", write("stream.parquet", stream), "this is an Arrow stream: let its name end in .arrows"},
		{"two streams", write("two.arrows", append(slices.Clone(stream), stream...)), "there is more after the end of the stream"},
		{"a stream and a byte", write("more.arrows", append(append(slices.Clone(stream), make([]byte, 5000)...), 'x')), "there is more after the end of the stream"},
		{"text", write("text.arrow", []byte("hello, this is no Arrow")), "metadata of"},
		{"a file cut short", write("cut.arrow", arrow[:len(arrow)-100]), "not written to its end"},
		{"a stream cut short", write("cut.arrows", stream[:len(stream)-100]), "are left"},
		{"a stream cut short between two batches", write("unclosed.arrows", stream[:len(stream)-8]), "without its mark of the end"},
		{"a Parquet file cut short", write("cut.parquet", parquet[:len(parquet)-100]), "parquet_invalid"},
		{"a Parquet file that is none", write("none.parquet", []byte("PAR1PAR1")), "parquet_invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := OpenFile(c.path, FileConfig{MaxRows: everyRow})
			if err == nil {
				_ = f.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
}

// TestStreamsEndInTheirWays holds that zeros after the end are passed over, and that the four bytes that end streams of Arrow before 0.15 are read.
func TestStreamsEndInTheirWays(t *testing.T) {
	stream := read(t, "table.arrows")
	want := rowsOf(t, openFile(t, everyRow, "table.arrows"))
	for name, b := range map[string][]byte{
		"padded": append(slices.Clone(stream), make([]byte, 5000)...),
		"short":  append(slices.Clone(stream[:len(stream)-8]), 0, 0, 0, 0),
	} {
		path := filepath.Join(t.TempDir(), name+".arrows")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(path, FileConfig{MaxRows: everyRow})
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(want, rowsOf(t, f)); diff != "" {
			t.Errorf("%s, a file: %s", name, diff)
		}
		_ = f.Close()
		got, err := pipeRows(bytes.NewReader(b), everyRow)
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, a pipe: %s", name, diff)
		}
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/files", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A file with a flipped byte is refused, or some of its batches are, or it is read; an error is always one of
// the bytes, and never a panic.
func TestFilesWithFlippedBytes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"replaced.arrows", "table.arrow", "bare table.arrow", "zstd.arrow", "zstd.parquet", "delta.parquet", "nested.parquet"} {
		t.Run(name, func(t *testing.T) {
			name, isBare := strings.CutPrefix(name, "bare ")
			whole := read(t, name)
			if isBare {
				whole = bare(t, name)
			}
			path := filepath.Join(dir, name)
			step := max(1, len(whole)/97) // a few seconds in all
			for at := 0; at < len(whole); at += step {
				b := append([]byte(nil), whole...)
				b[at] ^= 0x55
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				f, err := OpenFile(path, FileConfig{MaxRows: everyRow})
				if err != nil {
					continue
				}
				for i := range f.Batches() {
					rec, err := f.Read(i)
					if err == nil {
						dumpRecord(rec)
						rec.Release()
					} else if e := (*Error)(nil); !errors.As(err, &e) || e.Code == "" {
						t.Fatalf("byte %d: %v is no error of the bytes", at, err)
					}
				}
				_ = f.Close()
			}
		})
	}
}
