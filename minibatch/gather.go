package minibatch

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/flatipc"
	"github.com/lca-stream/lca-stream/internal/rowrecord"
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
	last := 0
	for i := range p.columns {
		at, ok := p.columns[i].Top()
		if !ok {
			return
		}
		last = max(last, at)
	}
	first := make([]int, last+1)
	for i := range last { // Fields copies them all, and a survey asks for one column after the other
		first[i+1] = first[i] + flatipc.Count(p.schema.Field(i).Type)
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

// findShown notes the columns of the features, if a rowrecord.Record shows their numbers.
func (p *plan) findShown() {
	shown := make([]int, len(p.columns))
	for j := range p.columns {
		at, ok := p.columns[j].Top()
		if !ok || !rowrecord.IsNumber(p.columns[j].Type) {
			return
		}
		shown[j] = at
	}
	p.shown = shown
}

// gatherShown is Gather for a rowrecord.Record with features that it shows; done is false for all others.
func gatherShown(dst *Rows, rec arrow.Record, p *plan) (done bool) {
	r, ok := rec.(rowrecord.Record)
	if !ok || p.shown == nil {
		return false
	}
	for j, at := range p.shown {
		switch v := r.Value(at); {
		case v.Valid:
			dst.X[j] = v.Number(p.columns[j].Type.ID())
		default:
			dst.Invalid[0], dst.X[j] = ReasonNull, math.NaN()
		}
	}
	sumRows(dst.sums, dst.X, dst.Dim)
	return true
}

// Missing returns how many features of a row are missing, which X then has as NaN: none unless KeepMissing is set.
func (r *Rows) Missing(row int) int {
	if reason := r.Invalid[row]; !r.KeepMissing || reason != ReasonNull && reason != ReasonNaN && reason != ReasonText {
		return 0
	}
	n := 0
	for _, v := range r.X[row*r.Dim : (row+1)*r.Dim] {
		if v != v {
			n++
		}
	}
	return n
}

// Unusable returns the names of the features that are no finite number in a row of a record. It is for messages: it
// reads the row once more.
func (f *Features) Unusable(rec arrow.Record, row int) (names []string) {
	one := rec.NewSlice(int64(row), int64(row)+1)
	defer one.Release()
	r := Rows{KeepMissing: true}
	if err := f.gather(&r, one); err != nil {
		return nil
	}
	for k, v := range r.X[:r.Dim] {
		if v-v != 0 {
			names = append(names, f.Names[k])
		}
	}
	return names
}

// clearNulls writes NaN over what lies under the nulls of column j, if missing features are kept.
func (r *Rows) clearNulls(j int, col arrow.Array) {
	if !r.KeepMissing {
		return
	}
	all := col.DataType().ID() == arrow.NULL
	if !all && !hasNulls(col) {
		return
	}
	for i := range r.N {
		if all || isNull(col, i) {
			r.X[i*r.Dim+j] = math.NaN()
		}
	}
}

// clearElements is clearNulls for row i, whose features are the elements of a list from start on; without values, for all of them.
func (r *Rows) clearElements(i int, values arrow.Array, start int) {
	if !r.KeepMissing {
		return
	}
	for k := range r.Dim {
		if values == nil || isNull(values, start+k) {
			r.X[i*r.Dim+k] = math.NaN()
		}
	}
}

func hasInf(row []float64) bool {
	return slices.ContainsFunc(row, func(v float64) bool { return math.IsInf(v, 0) })
}

// Finite reports whether no number is NaN or infinite. Only those have an exponent of all ones, and adding one to
// such an exponent carries into the sign bit. So two numbers can be checked at a time.
func Finite(v []float32) bool {
	const exponents, ones, signs = 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000
	var carry uint64
	b, ne := arrow.Float32Traits.CastToBytes(v), binary.NativeEndian
	for len(b) >= 32 {
		carry |= (ne.Uint64(b)&exponents + ones) | (ne.Uint64(b[8:])&exponents + ones) |
			(ne.Uint64(b[16:])&exponents + ones) | (ne.Uint64(b[24:])&exponents + ones)
		b = b[32:]
	}
	for _, x := range v[len(v)-len(b)/4:] {
		carry |= (uint64(math.Float32bits(x))&exponents + ones) & (signs >> 32)
	}
	return carry&signs == 0
}
