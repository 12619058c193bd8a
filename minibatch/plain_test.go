package minibatch

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source/format"
)

// A decoder gives the second message of a layout as a plain record; its features are those that the
// arrays of the first way of decoding hold.
func TestGatherPlainIsGather(t *testing.T) {
	f32, f64, i32 := arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Int32
	many := func(n int, types ...arrow.DataType) (fields []arrow.Field) {
		for i := range n {
			fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: types[i%len(types)]})
		}
		return fields
	}
	lists := []arrow.Field{{Name: "id", Type: i32}, {Name: "v", Type: arrow.FixedSizeListOf(5, f32)}, {Name: "w", Type: arrow.FixedSizeListOf(2, f64)}}
	for _, c := range []struct {
		name    string
		fields  []arrow.Field
		columns []string
		plain   bool
	}{
		{"float32", many(19, f32), nil, true},
		{"float64", many(3, f64), nil, true},
		{"both", many(30, f32, f32, f32, f64), nil, true},
		{"some, in another order", many(12, f64, f32), []string{"c7", "c2", "c3", "c11"}, true},
		{"integers among them", many(9, f32, i32), nil, false},
		{"a list of float32", lists, []string{"v"}, true},
		{"a list of float64", lists, []string{"w"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := arrow.NewSchema(c.fields, nil)
			known := newDecoder(t)
			var got, want Rows
			for i := range 3 {
				value := plainMessage(t, schema, 7, i)
				rec, err := known.Decode(t.Context(), value, "")
				if err != nil {
					t.Fatal(err)
				}
				fresh, err := newDecoder(t).Decode(t.Context(), value, "")
				if err != nil {
					t.Fatal(err)
				}
				f, err := ResolveRecord(fresh, c.columns)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(f.Gather(&got, rec), f.Gather(&want, fresh)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.X, got.X); diff != "" || got.Bad != want.Bad || got.N != want.N {
					t.Errorf("message %d: %d bad rows of %d, want %d of %d; -want +got:\n%s", i, got.Bad, got.N, want.Bad, want.N, diff)
				}
				if usedPlain := len(got.buffers) > 0; usedPlain != (c.plain && i > 0) {
					t.Errorf("message %d: read from its buffers is %v", i, usedPlain)
				}
				got.buffers = nil
			}
		})
	}
}

// plainMessage has other numbers for each seed.
func plainMessage(t *testing.T, schema *arrow.Schema, rows, seed int) []byte {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	next := float64(seed)
	put := func(f array.Builder) {
		switch next++; f := f.(type) {
		case *array.Float32Builder:
			f.Append(float32(next / 3))
		case *array.Float64Builder:
			f.Append(next / 3)
		case *array.Int32Builder:
			f.Append(int32(next))
		}
	}
	for range rows {
		for _, f := range b.Fields() {
			list, ok := f.(*array.FixedSizeListBuilder)
			if !ok {
				put(f)
				continue
			}
			list.Append(true)
			for range list.Type().(*arrow.FixedSizeListType).Len() {
				put(list.ValueBuilder())
			}
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// newDecoder returns a decoder of any format.
func newDecoder(t *testing.T) *format.Decoder {
	t.Helper()
	d, err := format.NewDecoder(format.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
