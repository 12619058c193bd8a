package pipeline

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// modelColumns is memory for the columns lca_model and lca_version, which the next message uses again.
type modelColumns struct {
	ends     []int32 // where the id of each row begins, and the end of the last
	text     []byte  // all ids
	versions []int64
	valid    []byte // validity bitmap of both
}

// append adds the columns of n rows. Rows without a model are null in both.
func (c *modelColumns) append(arrays []arrow.Array, models []Origin, n int) []arrow.Array {
	size := bitmapBytes(n)
	c.ends, c.text, c.versions, c.valid = slices.Grow(c.ends[:0], n+1), c.text[:0], slices.Grow(c.versions[:0], n)[:n], slices.Grow(c.valid[:0], size)[:size]
	clear(c.versions)
	clear(c.valid)
	nulls := n
	for i := range n {
		c.ends = append(c.ends, int32(len(c.text)))
		if models == nil || models[i].Version == 0 {
			continue
		}
		c.text = append(c.text, models[i].ID...)
		c.versions[i] = int64(models[i].Version)
		c.valid[i/8] |= 1 << (i % 8)
		nulls--
	}
	c.ends = append(c.ends, int32(len(c.text)))
	var valid *memory.Buffer
	if nulls > 0 {
		valid = memory.NewBufferBytes(c.valid)
	}
	ids := []*memory.Buffer{valid, integers(c.ends), memory.NewBufferBytes(c.text)}
	versions := []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(c.versions))}
	return append(arrays,
		array.NewStringData(array.NewData(arrow.BinaryTypes.String, n, ids, nil, nulls, 0)),
		array.NewInt64Data(array.NewData(arrow.PrimitiveTypes.Int64, n, versions, nil, nulls, 0)))
}
