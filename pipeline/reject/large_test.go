package reject

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/minibatch"
)

// The slices of a record have its rows and identities, whatever its columns are.
func TestSlicesAreTheWhole(t *testing.T) {
	const rows = 2*SliceNumbers + 77
	bytes := make([]byte, rows)
	for i := range bytes {
		bytes[i] = byte(i % 101)
	}
	numbers := make([]float64, 101)
	for i := range numbers {
		numbers[i] = float64(i) / 3
	}
	numbers[5] = math.Inf(1)
	values := array.NewFloat64Data(array.NewData(arrow.PrimitiveTypes.Float64, 101, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Float64Traits.CastToBytes(numbers))}, nil, 0, 0))
	index := array.NewData(arrow.PrimitiveTypes.Int8, rows, []*memory.Buffer{nil, memory.NewBufferBytes(bytes)}, nil, 0, 0)
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Float64}
	for name, col := range map[string]arrow.Array{
		"int8":        array.NewInt8Data(index),
		"dictionary":  array.NewDictionaryArray(typ, array.NewInt8Data(index), values),
		"broken ones": array.NewDictionaryArray(typ, array.NewInt8Data(index), array.NewSlice(values, 0, 100)),
	} {
		rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "a", Type: col.DataType()}}, nil), []arrow.Array{col}, rows)
		var whole, part minibatch.Rows
		f, err := minibatch.ResolveRecord(rec, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		if want, got := f.Gather(&whole, rec), Readable(&f, &part, rec); want != nil || got != nil {
			if fmt.Sprint(want) != fmt.Sprint(got) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			continue
		}
		id := minibatch.NewRowIDs("t", 3)
		x, ids := whole.AppendValid(nil, nil, id, 9, 0)
		var gotX []float64
		var gotIDs []uint64
		parts := 0
		if err := EachSlice(&f, &part, rec, func(first int) error {
			parts++
			gotX, gotIDs = part.AppendValid(gotX, gotIDs, id, 9, first)
			return nil
		}); err != nil || parts != 3 {
			t.Fatalf("%s: %d slices, %v", name, parts, err)
		}
		if !slices.Equal(x, gotX) || !slices.Equal(ids, gotIDs) {
			t.Errorf("%s: the slices have other rows, or other identities", name)
		}
	}
}
