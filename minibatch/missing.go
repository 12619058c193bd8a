package minibatch

import (
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

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
