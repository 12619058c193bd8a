package rowfile

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source/format"
)

// Arrow files hold the rows of the messages, of every type, for our reader and for Arrow's, however a message is cut into pieces, and also
// when there are no rows.
func TestArrowFile(t *testing.T) {
	for _, name := range []string{"table.arrow", "nested.arrow"} {
		path := filepath.Join("../../source/format/testdata/files", name)
		columns, want := contents(t, path)
		for _, beyond := range []int{0, 1, 8, 100} { // bytes of the first piece behind the schema
			for _, maxRows := range []int{1 << 20, 70} {
				in, err := format.OpenFile(path, format.FileConfig{MaxRows: maxRows})
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				w, err := New(ArrowFile, &out, in.Schema(), false)
				if err != nil {
					t.Fatal(err)
				}
				batches := in.Batches()
				for i := range batches {
					rec, err := in.Read(i)
					if err != nil {
						t.Fatal(err)
					}
					b := message(t, rec)
					n := prefixBytes + int(binary.LittleEndian.Uint32(b[4:])) + beyond
					if err := w.Write(b[:n], b[n:]); err != nil {
						t.Fatal(err)
					}
					rec.Release()
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				to := filepath.Join(t.TempDir(), "out.arrow")
				if err := os.WriteFile(to, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				gotColumns, got := contents(t, to)
				if diff := cmp.Diff(columns, gotColumns); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, batches of %d rows: %s", name, maxRows, diff)
				}
				r, err := ipc.NewFileReader(bytes.NewReader(out.Bytes()))
				if err != nil {
					t.Fatal(err)
				}
				if r.NumRecords() != batches || !r.Schema().Equal(in.Schema()) {
					t.Errorf("%s: %d batches, want %d, of %v", name, r.NumRecords(), batches, r.Schema())
				}
				for i := range r.NumRecords() {
					if _, err := r.Record(i); err != nil {
						t.Errorf("%s: batch %d: %v", name, i, err)
					}
				}
				if err := in.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestArrowFileWithoutRows(t *testing.T) {
	in, err := format.OpenFile("../../source/format/testdata/files/nested.arrow", format.FileConfig{MaxRows: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // it was only read
	var out bytes.Buffer
	w, err := New(ArrowFile, &out, in.Schema(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewFileReader(bytes.NewReader(out.Bytes()))
	if err != nil || r.NumRecords() != 0 || !r.Schema().Equal(in.Schema()) {
		t.Errorf("%v, %v", r, err)
	}
}
