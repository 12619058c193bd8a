package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source/format"
)

func open(t *testing.T, maxRows int, names ...string) *Files {
	t.Helper()
	var paths []string
	for _, n := range names {
		paths = append(paths, filepath.Join("format/testdata/files", n))
	}
	f, err := openFiles(paths, format.FileConfig{MaxRows: maxRows})
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

// Any batch can be gone to, back and forth, with the dictionaries that belong there.
func TestFilesSeek(t *testing.T) {
	for _, name := range []string{"table.arrow", "table.arrows", "replaced.arrows", "zstd.parquet", "pages.parquet"} {
		t.Run(name, func(t *testing.T) {
			f := open(t, 2, name)
			part := Partition{Topic: name}
			var all []string
			for {
				b, err := f.Read(context.Background())
				if errors.Is(err, ErrEnd) {
					break
				}
				if err != nil || b.Messages[0].Err != nil {
					t.Fatal(err, b.Messages[0].Err)
				}
				all = append(all, fmt.Sprint(b.Messages[0].Record))
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
				if diff := cmp.Diff(all[i], fmt.Sprint(b.Messages[0].Record)); diff != "" {
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

// The identity of a row of a file is its number, however the file is cut and wherever one begins.
func TestFilesIdentity(t *testing.T) {
	for _, maxRows := range []int{1, 2, 3, maxFileRows} {
		f := open(t, maxRows, "table.arrow")
		want := 0
		for i := 0; ; i++ {
			b, err := f.Read(context.Background())
			if errors.Is(err, ErrEnd) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			m := &b.Messages[0]
			if topic, offset, first := m.Identity(); topic != "" || offset != 0 || first != want {
				t.Errorf("batch %d of at most %d rows is %q@%d from row %d, want row %d", i, maxRows, topic, offset, first, want)
			}
			again := open(t, maxRows, "table.arrow") // begins there, without having read what is before
			if err := again.Seek(context.Background(), Offsets{m.Partition: m.Offset}); err != nil {
				t.Fatal(err)
			}
			same, err := again.Read(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if _, _, first := same.Messages[0].Identity(); first != want {
				t.Errorf("batch %d after a seek begins at row %d, want %d", i, first, want)
			}
			want += int(m.Record.NumRows())
		}
		if want != int(f.Rows()) || want == 0 {
			t.Errorf("%d rows, want %d", want, f.Rows())
		}
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
	const table = "format/testdata/files/table.arrow"
	dir := t.TempDir()
	there := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("a,b\n1,2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name  string
		paths []string
		says  string
	}{
		{"none", nil, "no input files"},
		{"missing", []string{table, "none.arrow"}, "none.arrow: no such file"},
		{"an unknown type", []string{there("rows.xml")}, `".xml" are not read: convert to .arrow, .feather, .arrows, .parquet, .csv, .tsv, .csv.gz or .tsv.gz`},
		{"JSON in a file", []string{there("rows.jsonl")}, "write_table(pyarrow.json.read_json"},
		{"one twice", []string{table, table}, "twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := OpenFiles(c.paths, format.FileConfig{})
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

// A batch that cannot be decoded is a message with its code, and the next one is read.
func TestFilesGoOnAfterABadBatch(t *testing.T) {
	whole, err := os.ReadFile("format/testdata/files/table.arrows")
	if err != nil {
		t.Fatal(err)
	}
	path, bad := filepath.Join(t.TempDir(), "table.arrows"), 0
	for at := 0; at < len(whole); at += max(1, len(whole)/97) {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x55
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFiles([]string{path}, format.FileConfig{})
		if err != nil {
			continue // what cannot be told apart into batches
		}
		next := int64(0)
		for ; ; next++ {
			b, err := f.Read(context.Background())
			if errors.Is(err, ErrEnd) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			m := b.Messages[0]
			if (m.Record == nil) == (m.Err == nil) || m.Offset != next || b.Claim.Next[m.Partition] != next+1 {
				t.Fatalf("byte %d: offset %d of %d, next %v, record %v, error %v", at, m.Offset, next, b.Claim.Next, m.Record, m.Err)
			}
			if m.Err != nil {
				if bad++; m.Err.Code == "" || m.Err.Offset != next {
					t.Fatalf("byte %d: %v", at, m.Err)
				}
			}
			b.Release()
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if bad == 0 {
		t.Error("no batch was bad")
	}
}
