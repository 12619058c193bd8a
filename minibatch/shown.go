package minibatch

import (
	"math"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/rowrecord"
)

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
