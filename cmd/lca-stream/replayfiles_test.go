package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/replay"
)

// The same rows give the same model, whatever the file's name and format and however it is cut into batches.
func TestReplayOfTheSameRows(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 4000 { // more than the pool holds, so that the identities of the rows decide which stay
		b.Field(0).(*array.Float64Builder).Append(9*float64(rnd.IntN(2)) + rnd.NormFloat64())
		b.Field(1).(*array.Float64Builder).Append(rnd.NormFloat64())
	}
	rec := b.NewRecord()
	dir := t.TempDir()
	var first string
	for name, write := range map[string]func(*os.File) error{
		"rows.arrow":  func(f *os.File) error { return cut(ipc.NewFileWriter(f, ipc.WithSchema(schema)))(rec, 100) },
		"many.arrows": func(f *os.File) error { return cut(ipc.NewWriter(f, ipc.WithSchema(schema)), nil)(rec, 333) },
		"one.arrows":  func(f *os.File) error { return cut(ipc.NewWriter(f, ipc.WithSchema(schema)), nil)(rec, 4000) },
	} {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("lca-stream", "replay", "--input", path, "--output", path+".model.arrows", "--set", "lca.neighbours=500", "--json").Output()
		if err != nil {
			t.Fatal(name, err)
		}
		var got replay.Result
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = got.Fingerprint
		}
		if got.Fingerprint != first || got.Rows != 4000 {
			t.Errorf("%s: %d rows, fingerprint %s, want %s", name, got.Rows, got.Fingerprint, first)
		}
	}
}

// A fault in a file is set aside as in a stream, and printed. A sorted file is learnt whole, because it has no order.
func TestReplayOfAFaultyFile(t *testing.T) {
	const rows = 4000
	for name, c := range map[string]struct {
		side      func(r *rand.Rand, i int) int // of column a
		from, to  int                           // of the fault
		says, not string
	}{
		"a fault":       {func(r *rand.Rand, _ int) int { return r.IntN(2) }, 2000, 2150, " 200 rows of changes that did not last (lca.accept_after)\n", "the range ends"},
		"at the end":    {func(r *rand.Rand, _ int) int { return r.IntN(2) }, 3800, 4000, " 200 rows of a change that the range ends with (lca.accept_after)\n", "did not last"},
		"a sorted file": {func(_ *rand.Rand, i int) int { return 2 * i / rows }, 0, 0, "fingerprint", "change"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float64}}, nil)
			b, r := array.NewRecordBuilder(memory.DefaultAllocator, schema), rand.New(rand.NewPCG(3, 2))
			for i := range rows {
				wide := 1.0
				if i >= c.from && i < c.to {
					wide = 30
				}
				b.Field(0).(*array.Float64Builder).Append(9*float64(c.side(r, i)) + wide*r.NormFloat64())
				b.Field(1).(*array.Float64Builder).Append(wide * r.NormFloat64())
			}
			path := filepath.Join(t.TempDir(), "rows.arrow")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := cut(ipc.NewFileWriter(f, ipc.WithSchema(schema)))(b.NewRecord(), 500); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("lca-stream", "replay", "--input", path, "--output", path+".model.arrows", "--set", "lca.preset=density", "--set", "lca.neighbours=500").Output()
			if said := string(out); err != nil || !strings.Contains(said, c.says) || strings.Contains(said, c.not) {
				t.Errorf("%v: %s\nwant %q and not %q", err, said, c.says, c.not)
			}
		})
	}
}

// cut writes a record in batches of some rows.
func cut(w interface {
	Write(arrow.Record) error
	Close() error
}, err error) func(arrow.Record, int64) error {
	return func(rec arrow.Record, rows int64) error {
		for from := int64(0); err == nil && from < rec.NumRows(); from += rows {
			err = w.Write(rec.NewSlice(from, min(from+rows, rec.NumRows())))
		}
		if err != nil {
			return err
		}
		return w.Close()
	}
}
