package minibatch

import (
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// Rows is a record as a matrix. Gather overwrites it and reuses its memory.
type Rows struct {
	N, Dim  int
	X       []float64 // N×Dim row-major; a row with a Reason is all zeros, unless it is kept
	Invalid []Reason  // one per row
	Bad     int       // number of rows with a Reason

	// KeepMissing keeps the rows that lack features but have no infinity: NaN stands in place of each null and NaN. A null list
	// lacks all of its features. It is for the caller to set.
	KeepMissing bool

	sums []float64 // one sum per row: not finite if one of its features is not

	// Of GatherFloat32: the rows, their sums, and the record's columns.
	narrow     []float32
	narrowSums []float32
	columns    [][]float32

	buffers [][]byte // buffers of a flatipc.Record
}

// Gather reads the features of a record into dst. It follows slices, offsets and dictionaries, and never reads the
// values under a null. If the record as a whole does not hold the features, the error is a *FeatureError and dst is
// undefined.
func (f *Features) Gather(dst *Rows, rec arrow.Record) error {
	if err := f.gather(dst, rec); err != nil {
		return err
	}
	dst.finish()
	return nil
}

// gather is Gather, but rows that are not finite have no Reason yet.
func (f *Features) gather(dst *Rows, rec arrow.Record) error {
	p, err := f.planFor(rec.Schema())
	if err != nil {
		return err
	}
	dst.reset(int(rec.NumRows()), f.Dim())
	switch {
	case p.columns == nil:
		dst.allNull()
		return nil
	case f.gatherPlain(dst, rec, p), gatherShown(dst, rec, p):
		return nil
	case p.list:
		return gatherList(dst, rec, p)
	}
	return gatherColumns(dst, rec, p)
}

// AppendValid appends the rows without a Reason to x, and their identities to ids. first is the index in its record
// of the first gathered row, for a slice of a record.
func (r *Rows) AppendValid(x []float64, ids []uint64, id RowIDs, offset int64, first int) ([]float64, []uint64) {
	for i, reason := range r.Invalid {
		if reason == ReasonNone {
			x = append(x, r.X[i*r.Dim:(i+1)*r.Dim]...)
			ids = append(ids, id.ID(offset, first+i))
		}
	}
	return x, ids
}

func (r *Rows) reset(n, dim int) {
	r.N, r.Dim, r.Bad = n, dim, 0
	r.X = slices.Grow(r.X[:0], n*dim)[:n*dim]
	r.Invalid = slices.Grow(r.Invalid[:0], n)[:n]
	r.sums = slices.Grow(r.sums[:0], n)[:n]
	clear(r.Invalid)
	clear(r.sums)
}

// finish finds the rows that are not finite, and zeroes all rows that have a Reason and are not kept. A row's sum is not
// finite if one of its terms is not. The converse fails only for sums that overflow, so the few rows with such a sum are
// checked term by term.
func (r *Rows) finish() {
	for i, s := range r.sums {
		row, reason := r.X[i*r.Dim:(i+1)*r.Dim], r.Invalid[i]
		if reason == ReasonNone && s-s != 0 {
			reason = notFinite(row)
		}
		if reason == ReasonNone {
			continue
		}
		if r.KeepMissing && reason != ReasonWidth && hasInf(row) {
			reason = ReasonInf
		}
		if !r.KeepMissing || reason == ReasonWidth || reason == ReasonInf {
			clear(row)
		}
		r.Invalid[i] = reason
		r.Bad++
	}
}

func notFinite(row []float64) Reason {
	reason := ReasonNone
	for _, v := range row {
		if math.IsNaN(v) {
			return ReasonNaN
		}
		if math.IsInf(v, 0) {
			reason = ReasonInf
		}
	}
	return reason
}

// gatherColumns transposes columns into rows, eight of one type at a time, because a row's eight values fill one
// cache line.
func gatherColumns(dst *Rows, rec arrow.Record, p *plan) error {
	for j := 0; j < len(p.columns); {
		first := p.columns[j].Type.ID()
		group := 1
		for group < packWidth && j+group < len(p.columns) && p.columns[j+group].Type.ID() == first {
			group++
		}
		if p.cells[first] {
			group = 1
			if err := gatherCells(dst, rec, p, j); err != nil {
				return err
			}
		} else if err := gatherGroup(dst, rec, p, j, group); err != nil {
			return err
		}
		j += group
	}
	return nil
}

// gatherGroup reads the columns from j on, which are of one type and at most packWidth.
func gatherGroup(dst *Rows, rec arrow.Record, p *plan, j, group int) error {
	var cols [packWidth]arrow.Array
	for g := range group {
		col, err := p.columns[j+g].Column(rec)
		if err != nil {
			return featureError(CodeCorrupt, p.names[j+g], "%v", err)
		}
		cols[g] = col
		markNulls(dst.Invalid, col)
	}
	if bad := packGroup(dst, j, cols[:group]); bad >= 0 {
		return featureError(CodeCorrupt, p.names[j+bad], "a dictionary index points outside its dictionary: the producer's encoder is broken")
	}
	for g, col := range cols[:group] {
		dst.clearNulls(j+g, col)
		col.Release()
	}
	return nil
}

// allNull makes every row one without a list.
func (r *Rows) allNull() {
	clear(r.X)
	for i := range r.N {
		r.Invalid[i] = ReasonNull
		r.clearElements(i, nil, 0)
	}
}

func markNulls(reasons []Reason, col arrow.Array) { markNullsFrom(0, reasons, col) }

// markNullsFrom is markNulls for the rows from first on.
func markNullsFrom(first int, reasons []Reason, col arrow.Array) {
	all := col.DataType().ID() == arrow.NULL
	if !all && !hasNulls(col) {
		return
	}
	for i := range reasons {
		if (all || isNull(col, first+i)) && reasons[i] != ReasonText {
			reasons[i] = ReasonNull
		}
	}
}

// gatherList reads a list column, whose lists are the rows.
func gatherList(dst *Rows, rec arrow.Record, p *plan) error {
	name := p.names[0]
	if len(p.cells) > 0 {
		return gatherListCells(dst, rec, p)
	}
	col, err := p.columns[0].Column(rec)
	if err != nil {
		return featureError(CodeCorrupt, name, "%v", err)
	}
	defer col.Release()
	lists, ok := col.(array.ListLike)
	if !ok {
		return featureError(CodeType, name, "is a %s although its schema says list", col.DataType())
	}
	markNulls(dst.Invalid, col)
	values, d := lists.ListValues(), int64(dst.Dim)
	elementNulls := hasNulls(values)
	for i := 0; i < dst.N; {
		if dst.Invalid[i] != ReasonNone {
			dst.clearElements(i, nil, 0)
			i++
			continue
		}
		start, end := lists.ValueOffsets(i)
		if start < 0 || end < start || end > int64(values.Len()) {
			return featureError(CodeCorrupt, name, "row %d points outside the list's values: the producer's encoder is broken", i)
		}
		if end-start != d {
			dst.Invalid[i] = ReasonWidth
			i++
			continue
		}
		n := runLength(lists, dst.Invalid[i:], i, end, d, int64(values.Len()))
		if !widen(dst.X[i*dst.Dim:(i+n)*dst.Dim], values, int(start)) {
			return featureError(CodeCorrupt, name, "a dictionary index points outside its dictionary: the producer's encoder is broken")
		}
		for r := i; r < i+n; r++ {
			if elementNulls && anyNull(values, int(start)+(r-i)*dst.Dim, dst.Dim) {
				dst.Invalid[r] = ReasonNull
				dst.clearElements(r, values, int(start)+(r-i)*dst.Dim)
			}
		}
		sumRows(dst.sums[i:i+n], dst.X[i*dst.Dim:(i+n)*dst.Dim], dst.Dim)
		i += n
	}
	return nil
}

// runLength counts the rows from i on whose d values directly follow those of the row before, so that they can be
// converted in one sweep. end is where row i ends.
func runLength(lists array.ListLike, reasons []Reason, i int, end, d, limit int64) int {
	n := 1
	for n < len(reasons) && reasons[n] == ReasonNone {
		s, e := lists.ValueOffsets(i + n)
		if s != end || e != end+d || e > limit {
			break
		}
		end = e
		n++
	}
	return n
}

func anyNull(values arrow.Array, start, n int) bool {
	for i := start; i < start+n; i++ {
		if isNull(values, i) {
			return true
		}
	}
	return false
}

func sumRows(sums, x []float64, d int) {
	for i := range sums {
		var s0, s1 float64
		row := x[i*d : (i+1)*d]
		for len(row) >= 4 {
			s0 += row[0] + row[1]
			s1 += row[2] + row[3]
			row = row[4:]
		}
		for _, v := range row {
			s0 += v
		}
		sums[i] = s0 + s1
	}
}
