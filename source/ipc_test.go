package source

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What is accepted equals what pyarrow reads, for every type and layout that it writes.
func TestDecodeEqualsPyarrow(t *testing.T) {
	for name, s := range streams(t) {
		t.Run(name, func(t *testing.T) {
			d := NewDecoder(DecoderConfig{})
			for range 2 { // the second time through the schema cache
				rec, err := d.Decode(s.data(t), "")
				if s.Code != "" {
					var de *DecodeError
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
