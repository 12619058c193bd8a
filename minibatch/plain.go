package minibatch

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/flatipc"
)

// Float32 returns the rows of a record whose features are a list column of float32, as they lie in the
// message; they are the record's. It returns nil for records that are not so plain: they take Gather.
// Whether the numbers are finite is for the caller to find out.
func (f *Features) Float32(rec arrow.Record) []float32 {
	r, ok := rec.(flatipc.Record)
	if !ok {
		return nil
	}
	p, err := f.planFor(r.Schema())
	if err != nil || !p.plain || !p.list || p.types[0] != arrow.FLOAT32 {
		return nil
	}
	return arrow.GetData[float32](r.Buffer(p.buffers[0]))
}

// gatherPlain is Gather for a flatipc.Record with float32 or float64 features; done is
// false for all others.
func (f *Features) gatherPlain(dst *Rows, rec arrow.Record, p *plan) (done bool) {
	r, ok := rec.(flatipc.Record)
	if !ok || !p.plain {
		return false
	}
	dst.buffers = r.Buffers(dst.buffers[:0])
	defer clear(dst.buffers) // they are the message's, which may be large
	if p.list {
		values := dst.buffers[p.buffers[0]]
		if p.types[0] == arrow.FLOAT32 {
			numbers := arrow.GetData[float32](values)
			widenAll(dst.X, numbers)
			if Finite(numbers) {
				return true // the sums, which are 0, need not say so
			}
		} else {
			copy(dst.X, arrow.GetData[float64](values))
		}
		sumRows(dst.sums, dst.X, dst.Dim)
		return true
	}
	for j := 0; j < dst.Dim; {
		group := 1
		for group < packWidth && j+group < dst.Dim && p.types[j+group] == p.types[j] {
			group++
		}
		if p.types[j] == arrow.FLOAT32 {
			packPlain[float32](dst, j, group, p)
		} else {
			packPlain[float64](dst, j, group, p)
		}
		j += group
	}
	return true
}

func packPlain[T number](dst *Rows, j, group int, p *plan) {
	var c [packWidth][]T
	for g := range group {
		c[g] = arrow.GetData[T](dst.buffers[p.buffers[j+g]])
	}
	if group == packWidth {
		pack8(dst.X, dst.Dim, j, &c, dst.sums)
		return
	}
	for g := range group {
		pack1(dst.X, dst.Dim, j+g, c[g], dst.sums)
	}
}

// findBuffers notes where the features are among the buffers of a flatipc.Record.
func (p *plan) findBuffers() {
	first := make([]int, p.schema.NumFields()+1)
	for i, f := range p.schema.Fields() {
		first[i+1] = first[i] + flatipc.Count(f.Type)
	}
	for i := range p.columns {
		at, ok := p.columns[i].Top()
		if !ok {
			return
		}
		t, buffer := p.columns[i].Type, first[at]+1
		if list, ok := t.(*arrow.FixedSizeListType); ok && p.list {
			t, buffer = list.Elem(), buffer+1
		}
		if t.ID() != arrow.FLOAT32 && t.ID() != arrow.FLOAT64 {
			return
		}
		p.types, p.buffers = append(p.types, t.ID()), append(p.buffers, buffer)
	}
	p.plain = true
}
