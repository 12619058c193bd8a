package format

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// What is accepted equals what pyarrow reads, for every type and layout that it writes.
func TestDecodeEqualsPyarrow(t *testing.T) {
	for name, s := range streams(t) {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, Config{})
			for range 2 { // the second time through the schema cache
				rec, err := d.Decode(t.Context(), s.data(t), "")
				if s.Code != "" {
					var de *Error
					if !errors.As(err, &de) || de.Code != s.Code {
						t.Fatalf("got %v, want %s", err, s.Code)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if rec.NumRows() != s.Rows || int(rec.NumCols()) != len(s.Columns) {
					t.Fatalf("%d rows, %d columns; want %d, %d", rec.NumRows(), rec.NumCols(), s.Rows, len(s.Columns))
				}
				for i, got := range dumpRecord(rec) {
					if want := s.Columns[i]; rec.ColumnName(i) != want.Name || !cmp.Equal(got, want.Values, cmpopts.EquateEmpty()) {
						t.Errorf("column %q: %s", want.Name, cmp.Diff(want.Values, got))
					}
				}
				rec.Release()
			}
		})
	}
}

// A stream that ends after its schema is a record of no rows, of every type; and what comes of it
// can be written again, as pass-through columns are.
func TestDecodeSchemaOnly(t *testing.T) {
	for name, s := range streams(t) {
		if s.Code != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rec, err := newDecoder(t, Config{}).Decode(t.Context(), ipcguard.First(s.data(t)), "")
			if err != nil {
				t.Fatal(err)
			}
			if rec.NumRows() != 0 || int(rec.NumCols()) != len(s.Columns) {
				t.Errorf("%d rows, %d columns", rec.NumRows(), rec.NumCols())
			}
			encode(t, rec)
		})
	}
}

// Records come out of the Arrow writer as they went in, so the arrays that the loader makes are
// what the library expects.
func TestDecodedRecordsCanBeWritten(t *testing.T) {
	for name, s := range streams(t) {
		if s.Code != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, Config{})
			rec, err := d.Decode(t.Context(), s.data(t), "")
			if err != nil {
				t.Fatal(err)
			}
			again, err := d.Decode(t.Context(), encode(t, rec), "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(dumpRecord(rec), dumpRecord(again)); diff != "" {
				t.Error(diff)
			}
			if !rec.Schema().Equal(again.Schema()) || !rec.Schema().Metadata().Equal(again.Schema().Metadata()) {
				t.Errorf("schema %s became %s", rec.Schema(), again.Schema())
			}
		})
	}
}

// One Decoder serves several goroutines.
func TestDecodeConcurrently(t *testing.T) {
	d := newDecoder(t, Config{})
	all := streams(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for name, s := range all {
				rec, err := d.Decode(t.Context(), s.data(t), "")
				if (err == nil) != (s.Code == "") {
					t.Errorf("%s: %v", name, err)
				}
				if err == nil && rec.NumRows() != s.Rows {
					t.Errorf("%s: %d rows", name, rec.NumRows())
				}
			}
		})
	}
	wg.Wait()
}

func encode(t *testing.T, rec arrow.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(rec.Schema()))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
