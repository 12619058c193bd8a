package nested

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// take returns the values of an array at these places, −1 for null. Lists are taken with their values, so the
// array takes no more memory than what it is taken from, provided that no place comes twice.
func take(from arrow.Array, places []int) (arrow.Array, error) {
	if from.DataType().ID() == arrow.NULL {
		return array.NewNull(len(places)), nil
	}
	data, err := takeData(from, places)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

func takeData(from arrow.Array, places []int) (arrow.ArrayData, error) {
	n := len(places)
	bitmap := make([]byte, bitutil.BytesForBits(int64(n)))
	nulls := 0
	for i, at := range places {
		if at >= 0 && from.IsValid(at) {
			bitutil.SetBit(bitmap, i)
		} else {
			nulls++
		}
	}
	t := from.DataType()
	made := func(children []arrow.ArrayData, buffers ...[]byte) arrow.ArrayData {
		all := []*memory.Buffer{memory.NewBufferBytes(bitmap)}
		for _, b := range buffers {
			all = append(all, memory.NewBufferBytes(b))
		}
		return array.NewData(t, n, all, children, nulls, 0)
	}
	switch col := from.(type) {
	case *array.Boolean:
		return made(nil, takeBits(col, places)), nil
	case *array.Dictionary:
		indices := takeFixed(col.Data(), col.DataType().(*arrow.DictionaryType).IndexType.(arrow.FixedWidthDataType).Bytes(), places)
		buffers := []*memory.Buffer{memory.NewBufferBytes(bitmap), memory.NewBufferBytes(indices)}
		return array.NewDataWithDictionary(t, n, buffers, nulls, 0, col.Data().Dictionary().(*array.Data)), nil
	case *array.String:
		offsets, text := takeText(places, bitmap, func(i int) string { return col.Value(i) })
		return made(nil, offsets, text), nil
	case *array.Binary:
		offsets, text := takeText(places, bitmap, func(i int) []byte { return col.Value(i) })
		return made(nil, offsets, text), nil
	case *array.List, *array.LargeList, *array.FixedSizeList:
		return takeLists(col.(array.ListLike), places, bitmap, made)
	}
	if fixed, ok := t.(arrow.FixedWidthDataType); ok {
		return made(nil, takeFixed(from.Data(), fixed.Bytes(), places)), nil
	}
	return nil, fmt.Errorf("has type %s, which is not read within lists, maps and unions", t)
}

func takeFixed(data arrow.ArrayData, width int, places []int) []byte {
	out := make([]byte, len(places)*width)
	if data.Len() == 0 {
		return out
	}
	values := data.Buffers()[1].Bytes()[data.Offset()*width:]
	for i, at := range places {
		if at >= 0 {
			copy(out[i*width:(i+1)*width], values[at*width:])
		}
	}
	return out
}

func takeBits(col *array.Boolean, places []int) []byte {
	out := make([]byte, bitutil.BytesForBits(int64(len(places))))
	for i, at := range places {
		if at >= 0 && col.Value(at) {
			bitutil.SetBit(out, i)
		}
	}
	return out
}

func takeText[T string | []byte](places []int, bitmap []byte, value func(int) T) (offsets, text []byte) {
	ends := make([]int32, 1, len(places)+1)
	for i, at := range places {
		if bitutil.BitIsSet(bitmap, i) {
			text = append(text, value(at)...)
		}
		ends = append(ends, int32(len(text)))
	}
	return arrow.Int32Traits.CastToBytes(ends), text
}

// takeLists takes lists of whatever kind as the same kind.
func takeLists(lists array.ListLike, places []int, bitmap []byte, made func([]arrow.ArrayData, ...[]byte) arrow.ArrayData) (arrow.ArrayData, error) {
	values := lists.ListValues()
	var inner []int
	ends := make([]int64, 1, len(places)+1)
	size := 0
	if t, ok := lists.DataType().(*arrow.FixedSizeListType); ok {
		size = int(t.Len())
	}
	for i, at := range places {
		if bitutil.BitIsSet(bitmap, i) {
			start, end, ok := bounds(lists, at, values.Len())
			if !ok {
				return nil, outside(true)
			}
			for k := start; k < end; k++ {
				inner = append(inner, k)
			}
		} else {
			for range size {
				inner = append(inner, -1)
			}
		}
		ends = append(ends, int64(len(inner)))
	}
	items, err := take(values, inner)
	if err != nil {
		return nil, err
	}
	defer items.Release()
	children := []arrow.ArrayData{items.Data()}
	switch lists.DataType().ID() {
	case arrow.FIXED_SIZE_LIST:
		return made(children), nil
	case arrow.LARGE_LIST:
		return made(children, arrow.Int64Traits.CastToBytes(ends)), nil
	}
	short := make([]int32, len(ends))
	for i, end := range ends {
		short[i] = int32(end)
	}
	return made(children, arrow.Int32Traits.CastToBytes(short)), nil
}
