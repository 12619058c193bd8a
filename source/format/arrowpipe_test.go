package format

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pipeRows(r io.Reader, maxRows int) (map[string][]string, error) {
	p, err := OpenPipe(r, FileConfig{MaxRows: maxRows})
	if err != nil {
		return nil, err
	}
	return rowsOfPipe(p)
}

func rowsOfPipe(p *Pipe) (map[string][]string, error) {
	cols := map[string][]string{}
	for {
		rec, err := p.Read()
		if errors.Is(err, io.EOF) {
			return cols, nil
		}
		if err != nil {
			return nil, err
		}
		for c, values := range dumpRecord(rec) {
			name := rec.ColumnName(c)
			cols[name] = append(cols[name], values...)
		}
		rec.Release()
	}
}

// TestPipe holds that a stream reads the same from a pipe as from a file, and that one which breaks off anywhere is refused.
func TestPipe(t *testing.T) {
	paths, err := filepath.Glob("testdata/files/*.arrows")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := rowsOf(t, openFile(t, everyRow, name))
		for _, most := range []int{7, everyRow} {
			got, err := pipeRows(slowly(data), most)
			if err != nil {
				t.Fatal(name, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %d rows at a time: %s", name, most, diff)
			}
		}
		for n := 0; n < len(data); n += 1 + n/50 {
			var fault *Error
			if _, err := pipeRows(bytes.NewReader(data[:n]), everyRow); !errors.As(err, &fault) {
				t.Fatalf("%s: %d of %d bytes: %v", name, n, len(data), err)
			}
		}
	}
}

// slowly gives a few bytes at a time, as a pipe may.
func slowly(data []byte) io.Reader { return few{bytes.NewReader(data)} }

type few struct{ r io.Reader }

func (f few) Read(b []byte) (int, error) { return f.r.Read(b[:min(len(b), 3)]) }

func TestPipeRefuses(t *testing.T) {
	file, err := os.ReadFile("testdata/files/table.arrow")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := os.ReadFile("testdata/files/table.arrows")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"a file":      {file, "Arrow file"},
		"two streams": {append(slices.Clone(stream), stream...), "there is more after the end of the stream"},
		"nothing":     {nil, "without its mark"},
		"text":        {[]byte(`{"a": 1}` + strings.Repeat(" ", 100)), "no Arrow stream"},
	} {
		if _, err := pipeRows(bytes.NewReader(c.data), 10); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
