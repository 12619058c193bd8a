package pipeline

import (
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/minibatch"
)

// whyItem is an entry of lca_why: a feature, and how many nats the score of the row would fall by if that feature had its
// best other value.
var whyItem = arrow.StructOf(
	arrow.Field{Name: "feature", Type: arrow.BinaryTypes.String},
	arrow.Field{Name: "nats", Type: arrow.PrimitiveTypes.Float32},
)

var whyType = arrow.ListOfNonNullable(whyItem)

// whyColumn is memory for the column lca_why, which the next message uses again.
type whyColumn struct {
	lists []int32 // where the entries of each row begin, and the end of the last
	names []int32 // where the name of each entry begins, and the end of the last
	text  []byte  // all names
	nats  []float32
}

// of makes the column of n rows. Rows that are null have no entries.
func (c *whyColumn) of(w *Whitened, n int, valid *memory.Buffer, nulls int) arrow.Array {
	c.lists, c.names, c.text, c.nats = slices.Grow(c.lists[:0], n+1), slices.Grow(c.names[:0], len(w.Why)+1), c.text[:0], slices.Grow(c.nats[:0], len(w.Why))
	each := 0
	if n > 0 {
		each = len(w.Why) / n
	}
	for i := range n {
		c.lists = append(c.lists, int32(len(c.nats)))
		if each == 0 || w.Invalid[i] != minibatch.ReasonNone {
			continue
		}
		for _, gain := range w.Why[i*each : (i+1)*each] {
			c.names = append(c.names, int32(len(c.text)))
			c.text = append(c.text, w.Features[gain.Column]...)
			c.nats = append(c.nats, float32(min(gain.Nats, math.MaxFloat32)))
		}
	}
	c.lists, c.names = append(c.lists, int32(len(c.nats))), append(c.names, int32(len(c.text)))
	m := len(c.nats)
	features := array.NewData(arrow.BinaryTypes.String, m, []*memory.Buffer{nil, integers(c.names), memory.NewBufferBytes(c.text)}, nil, 0, 0)
	items := array.NewData(whyItem, m, []*memory.Buffer{nil}, []arrow.ArrayData{features, floats(nil, c.nats, 0)}, 0, 0)
	return array.NewListData(array.NewData(whyType, n, []*memory.Buffer{valid, integers(c.lists)}, []arrow.ArrayData{items}, nulls, 0))
}

// integers is a buffer of values without a copy.
func integers(values []int32) *memory.Buffer {
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(values))
}
