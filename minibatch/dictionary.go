package minibatch

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// widenDictionary looks values up. The index under a null is undefined and not read.
func widenDictionary(dst []float64, d *array.Dictionary, start int) bool {
	entries := d.Dictionary()
	table := make([]float64, entries.Len())
	if !widen(table, entries, 0) {
		return false
	}
	for i := range dst {
		if d.IsNull(start + i) {
			dst[i] = 0
			continue
		}
		k := d.GetValueIndex(start + i)
		if k < 0 || k >= len(table) {
			return false
		}
		dst[i] = table[k]
	}
	return true
}

// hasNulls reports whether isNull may return true for any value.
func hasNulls(col arrow.Array) bool {
	if d, ok := col.(*array.Dictionary); ok && d.Dictionary().NullN() > 0 {
		return true
	}
	return col.NullN() > 0
}

// isNull also follows a dictionary: a valid index may point to a null entry.
func isNull(col arrow.Array, i int) bool {
	if col.IsNull(i) {
		return true
	}
	d, ok := col.(*array.Dictionary)
	if !ok || d.Dictionary().NullN() == 0 {
		return false
	}
	k := d.GetValueIndex(i)
	return k >= 0 && k < d.Dictionary().Len() && d.Dictionary().IsNull(k)
}
