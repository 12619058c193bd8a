package encode

import (
	"bytes"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
)

// A message in pieces is the message that Append makes, byte for byte, with columns of every width, so
// that there is padding of every length; and pieces are not made where they cannot be.
func TestPiecesAreTheMessage(t *testing.T) {
	const n, k = 1003, 3
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Int8},
		{Name: "c", Type: arrow.PrimitiveTypes.Uint16}, {Name: "d", Type: arrow.PrimitiveTypes.Float32},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Float64Builder).Append(float64(i))
		b.Field(1).(*array.Int8Builder).Append(int8(i))
		b.Field(2).(*array.Uint16Builder).Append(uint16(i))
		b.Field(3).(*array.Float32Builder).Append(float32(i) / 3)
	}
	rec := b.NewRecord()
	defer rec.Release()
	w := &Whitened{K: k, Y: make([]float32, n*k), Score: make([]float32, n), P: make([]float32, n), Why: make([]lca.Gain, n), Features: []string{"a"}, Invalid: make([]minibatch.Reason, n)}
	for i := range w.Y {
		w.Y[i] = float32(i) / 7
	}
	for _, config := range []OutputConfig{{Passthrough: true, Score: true, P: true}, {Passthrough: true}, {Score: true}, {P: true}, {Layout: LayoutColumns}, {Why: 1}} {
		o := NewOutput(config)
		if _, ok := o.Pieces(nil, rec, w); ok {
			t.Fatalf("%+v: pieces of a layout that is not known", config)
		}
		want, err := o.Append(nil, rec, w)
		if err != nil {
			t.Fatal(err)
		}
		all, ok := o.Pieces([][]byte{[]byte("before")}, rec, w)
		if ok != (config.Layout == LayoutVector && config.Why == 0) {
			t.Fatalf("%+v: pieces: %v", config, ok)
		}
		if ok && !bytes.Equal(bytes.Join(all[1:], nil), want) {
			t.Errorf("%+v: the pieces make another message", config)
		}
		bad := *w
		bad.Invalid = make([]minibatch.Reason, n)
		bad.Invalid[n/2] = minibatch.ReasonNaN
		if _, ok := o.Pieces(nil, rec, &bad); ok {
			t.Errorf("%+v: pieces of a message with a null", config)
		}
	}
}
