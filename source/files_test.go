package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rowsOf reads files to their end and dumps their columns by name.
func rowsOf(t *testing.T, f *Files) map[string][]string {
	t.Helper()
	cols := map[string][]string{}
	for {
		b, err := f.Read(context.Background())
		if errors.Is(err, ErrEnd) {
			return cols
		}
		if err != nil {
			t.Fatal(err)
		}
		m := b.Messages[0]
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		if next := b.Claim.Next[m.Partition]; next != m.Offset+1 {
			t.Errorf("offset %d, next %d", m.Offset, next)
		}
		for i, values := range dumpRecord(m.Record) {
			name := m.Record.ColumnName(i)
			cols[name] = append(cols[name], values...)
		}
		b.Release()
	}
}

func open(t *testing.T, maxRows int, names ...string) *Files {
	t.Helper()
	var paths []string
	for _, n := range names {
		paths = append(paths, filepath.Join("testdata/files", n))
	}
	f, err := openFiles(paths, maxRows)
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
	want := rowsOf(t, open(t, maxFileRows, "table.arrow"))
	if len(want) != 21 || len(want["full"]) != 250 {
		t.Fatalf("table.arrow: %d columns of %d rows", len(want), len(want["full"]))
	}
	for _, name := range []string{
		"table.arrows", "zstd.arrow", "none.parquet", "snappy.parquet", "zstd.parquet", "lz4.parquet", "gzip.parquet",
		"brotli.parquet", "split.parquet", "delta.parquet", "pages.parquet", "decimal.parquet",
	} {
		t.Run(name, func(t *testing.T) {
			for _, maxRows := range []int{maxFileRows, 33, 1} {
				f := open(t, maxRows, name)
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
				if got["decimal"] != nil {
					t.Error("decimals are said to be left out")
				}
			}
		})
	}
}

// Any batch can be gone to, back and forth, with the dictionaries that belong there.
func TestFilesSeek(t *testing.T) {
	for _, name := range []string{"table.arrow", "table.arrows", "replaced.arrows", "zstd.parquet", "pages.parquet"} {
		t.Run(name, func(t *testing.T) {
			f := open(t, 2, name)
			part := Partition{Topic: name}
			var all [][][]string
			for {
				b, err := f.Read(context.Background())
				if errors.Is(err, ErrEnd) {
					break
				}
				if err != nil || b.Messages[0].Err != nil {
					t.Fatal(err, b.Messages[0].Err)
				}
				all = append(all, dumpRecord(b.Messages[0].Record))
			}
			for k := range len(all) {
				i := k * 7 % len(all)
				if err := f.Seek(context.Background(), Offsets{part: int64(i)}); err != nil {
					t.Fatal(err)
				}
				b, err := f.Read(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(all[i], dumpRecord(b.Messages[0].Record)); diff != "" {
					t.Fatalf("batch %d: %s", i, diff)
				}
			}
			for _, bad := range []Offsets{{part: int64(len(all) + 1)}, {part: -1}, {Partition{Topic: "other"}: 0}} {
				if f.Seek(context.Background(), bad) == nil {
					t.Errorf("seek to %v succeeded", bad)
				}
			}
		})
	}
}

func TestFilesOneAfterTheOther(t *testing.T) {
	f := open(t, maxFileRows, "replaced.arrows", "table.arrow")
	if f.Rows() != 259 {
		t.Errorf("%d rows", f.Rows())
	}
	var topics []string
	for {
		b, err := f.Read(context.Background())
		if err != nil {
			break
		}
		topics = append(topics, b.Messages[0].Partition.String())
		if b.Claim.Group != "" {
			t.Error("a file claims nothing")
		}
	}
	if diff := cmp.Diff([]string{"replaced.arrows/0", "replaced.arrows/0", "replaced.arrows/0", "table.arrow/1", "table.arrow/1", "table.arrow/1"}, topics); diff != "" {
		t.Error(diff)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOpenFilesRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	arrow, parquet, stream := read(t, "table.arrow"), read(t, "zstd.parquet"), read(t, "table.arrows")
	for _, c := range []struct {
		name  string
		paths []string
		says  string
	}{
		{"none", nil, "no input files"},
		{"missing", []string{filepath.Join(dir, "none.arrow")}, "no such file"},
		{"an unknown type", []string{write("a.csv", []byte("a,b\n"))}, `".csv" are not read`},
		{"one twice", []string{"testdata/files/table.arrow", "testdata/files/table.arrow"}, "twice"},
		{"an empty file", []string{write("empty.arrow", nil)}, "0 bytes"},
		{"text", []string{write("text.arrow", []byte("hello, this is no Arrow"))}, "metadata of"},
		{"a file cut short", []string{write("cut.arrow", arrow[:len(arrow)-100])}, "not written to its end"},
		{"a stream cut short", []string{write("cut.arrows", stream[:len(stream)-100])}, "are left"},
		{"a Parquet file cut short", []string{write("cut.parquet", parquet[:len(parquet)-100])}, "parquet_invalid"},
		{"a Parquet file that is none", []string{write("none.parquet", []byte("PAR1PAR1"))}, "parquet_invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := OpenFiles(c.paths)
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

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/files", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A file with a flipped byte is refused, or some of its batches are, or it is read; it ends, and
// never with more rows than the index announced.
func TestFilesWithFlippedBytes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"replaced.arrows", "table.arrow", "zstd.arrow", "zstd.parquet", "delta.parquet"} {
		t.Run(name, func(t *testing.T) {
			whole := read(t, name)
			path := filepath.Join(dir, name)
			step := max(1, len(whole)/97) // a few seconds in all
			for at := 0; at < len(whole); at += step {
				b := append([]byte(nil), whole...)
				b[at] ^= 0x55
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				f, err := OpenFiles([]string{path})
				if err != nil {
					continue
				}
				for {
					batch, err := f.Read(context.Background())
					if err != nil {
						break
					}
					if m := batch.Messages[0]; m.Record != nil {
						dumpRecord(m.Record)
					} else if m.Err == nil || m.Err.Code == "" {
						t.Fatalf("byte %d: neither record nor error", at)
					}
				}
				_ = f.Close()
			}
		})
	}
}
