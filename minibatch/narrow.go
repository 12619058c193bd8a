package minibatch

import (
	"iter"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// narrowRows is how many rows are transposed at a time: few enough that they stay in the nearest cache until all columns are in.
const narrowRows = 2048

// GatherFloat32 is Gather for the rows from … to−1 of a record whose features are columns of float32 or finite lists of them, as most are: half of the
// bytes. x is N×Dim row-major, and valid until the next call or as long as the record; it must not be changed. ok is false for all other records, and
// where there is a fault: they take Gather. dst.X is not set.
func (f *Features) GatherFloat32(dst *Rows, rec arrow.Record, from, to int) (x []float32, ok bool) {
	p, err := f.planFor(rec.Schema())
	if err != nil || p.columns == nil || dst.KeepMissing {
		return nil, false
	}
	if p.list {
		return narrowList(dst, rec, p, from, to)
	}
	for _, c := range p.columns {
		if c.Type.ID() != arrow.FLOAT32 {
			return nil, false
		}
	}
	dst.resetNarrow(to-from, f.Dim())
	for j := range p.columns {
		col, err := p.columns[j].Column(rec)
		if err != nil {
			return nil, false
		}
		defer col.Release()
		markNullsFrom(from, dst.Invalid, col)
		dst.columns = append(dst.columns, raw[float32](col)[from:to])
	}
	dst.transpose()
	clear(dst.columns) // they are the record's
	dst.finishNarrow()
	return dst.narrow, true
}

// narrowList returns the numbers of a column of lists, as they lie in the record.
func narrowList(dst *Rows, rec arrow.Record, p *plan, from, to int) (x []float32, ok bool) {
	t, fixed := p.columns[0].Type.(*arrow.FixedSizeListType)
	if !fixed || t.Elem().ID() != arrow.FLOAT32 {
		return nil, false
	}
	col, err := p.columns[0].Column(rec)
	if err != nil {
		return nil, false
	}
	defer col.Release()
	lists, fixed := col.(*array.FixedSizeList)
	if !fixed || hasNulls(col) || hasNulls(lists.ListValues()) {
		return nil, false
	}
	d := int(t.Len())
	values := raw[float32](lists.ListValues())
	first, last := (lists.Data().Offset()+from)*d, (lists.Data().Offset()+to)*d
	if first == last || last > len(values) || !Finite(values[first:last]) {
		return nil, false
	}
	dst.resetNarrow(to-from, d)
	return values[first:last], true
}

// resetNarrow is reset for rows of float32.
func (r *Rows) resetNarrow(n, dim int) {
	r.N, r.Dim, r.Bad = n, dim, 0
	r.Invalid = resized(r.Invalid, n)
	clear(r.Invalid)
	r.columns = r.columns[:0]
}

func resized[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}

// transpose writes the columns to narrow, and the sum of each row to narrowSums.
func (r *Rows) transpose() {
	r.narrow, r.narrowSums = resized(r.narrow, r.N*r.Dim), resized(r.narrowSums, r.N)
	clear(r.narrowSums)
	for first := 0; first < r.N; first += narrowRows {
		last := min(first+narrowRows, r.N)
		x, sums := r.narrow[first*r.Dim:last*r.Dim], r.narrowSums[first:last]
		j := 0
		for ; j+packWidth <= r.Dim; j += packWidth {
			var c [packWidth][]float32
			for g := range c {
				c[g] = r.columns[j+g][first:last]
			}
			narrow8(x, r.Dim, j, &c, sums)
		}
		for ; j < r.Dim; j++ {
			for i, v := range r.columns[j][first:last] {
				x[i*r.Dim+j] = v
				sums[i] += v
			}
		}
	}
}

// narrow8 is pack8 for float32.
func narrow8(x []float32, d, j int, c *[packWidth][]float32, sums []float32) {
	n := len(sums)
	c0, c1, c2, c3 := c[0][:n], c[1][:n], c[2][:n], c[3][:n]
	c4, c5, c6, c7 := c[4][:n], c[5][:n], c[6][:n], c[7][:n]
	for i := range n {
		row := x[i*d+j:][:packWidth]
		v0, v1, v2, v3 := c0[i], c1[i], c2[i], c3[i]
		v4, v5, v6, v7 := c4[i], c5[i], c6[i], c7[i]
		row[0], row[1], row[2], row[3] = v0, v1, v2, v3
		row[4], row[5], row[6], row[7] = v4, v5, v6, v7
		sums[i] += ((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7))
	}
}

// finishNarrow is finish for rows of float32.
func (r *Rows) finishNarrow() {
	for i, s := range r.narrowSums {
		if r.Invalid[i] == ReasonNone && s-s != 0 {
			r.Invalid[i] = notFiniteFloat32(r.narrow[i*r.Dim : (i+1)*r.Dim])
		}
		if r.Invalid[i] != ReasonNone {
			r.Bad++
		}
	}
}

// Runs yields the runs of rows without a Reason: the first of them, and the one after the last.
func (r *Rows) Runs() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		from := 0
		for i, reason := range r.Invalid {
			if reason == ReasonNone {
				continue
			}
			if from < i && !yield(from, i) {
				return
			}
			from = i + 1
		}
		if from < len(r.Invalid) {
			yield(from, len(r.Invalid))
		}
	}
}

// AppendIDs appends the identities of the rows without a Reason to ids. first is as in AppendValid.
func (r *Rows) AppendIDs(ids []uint64, id RowIDs, offset int64, first int) []uint64 {
	record := combine(id.h1, uint64(offset))
	for i, reason := range r.Invalid {
		if reason == ReasonNone {
			ids = append(ids, combine(record, uint64(first+i)))
		}
	}
	return ids
}

func notFiniteFloat32(row []float32) Reason {
	reason := ReasonNone
	for _, v := range row {
		if v != v {
			return ReasonNaN
		}
		if math.IsInf(float64(v), 0) {
			reason = ReasonInf
		}
	}
	return reason
}
