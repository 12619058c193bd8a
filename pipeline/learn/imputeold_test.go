package learn

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
)

// TestImputedRowsOfOld holds that models of every format ever written fill what is missing: with the mean of the feature under their own
// density, given the others.
func TestImputedRowsOfOld(t *testing.T) {
	for _, f := range []int{firstFormat, secondFormat, wireFormat} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			w := readWire(t, f)
			w.topics[fixtures.Out], w.topics[fixtures.Dead] = nil, nil
			loop := w.transformLoop(t, fixtures.Events, 3)
			tr := loop.Stage.(*transform.Transform)
			tr.OnInvalid = reject.ImputeRow
			if err := loop.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			var y *array.FixedSizeList
			for _, m := range w.topics[fixtures.Out] { // [{"a": 1, "b": null, "c": 3}, {"a": 4, "b": 5, "c": 60}]
				if rec := fixtures.ReadStream(t, m.Value); rec.NumRows() == 2 && rec.Column(1).NullN() == 1 {
					y = rec.Column(rec.Schema().FieldIndices("lca")[0]).(*array.FixedSizeList)
				}
			}
			if y == nil || y.NullN() > 0 || tr.Stats.ImputedRows.Load() != 1 {
				t.Fatalf("the row that lacks a feature became %v, and %d rows are counted", y, tr.Stats.ImputedRows.Load())
			}
			model := tr.Follow.Current().Model
			want, white := []float64{1, meanOf(model, []float64{1, 0, 3}, 1), 3}, new(mat.Dense)
			model.Whiten(white, mat.NewDense(1, 3, want))
			for k, v := range white.RawRowView(0) {
				if got := float64(y.ListValues().(*array.Float32).Value(k)); math.Abs(got-v) > 1e-3*(1+math.Abs(v)) {
					t.Errorf("coordinate %d is %v, want %v", k, got, v)
				}
			}
		})
	}
}

// meanOf returns the mean of a feature under the density of a model, given the other features of a row, by a sum over its values.
func meanOf(m *lca.Model, row []float64, feature int) float64 {
	const steps = 20001
	x := mat.NewDense(steps, len(row), nil)
	for i := range steps {
		x.SetRow(i, row)
		x.Set(i, feature, m.Mean[feature]+20*(float64(i)/(steps-1)-0.5)*math.Sqrt(m.CG.At(feature, feature)))
	}
	logs := m.LogDensity(nil, x)
	most := math.Inf(-1)
	for _, v := range logs {
		most = max(most, v)
	}
	var mean, sum float64
	for i, v := range logs {
		p := math.Exp(v - most)
		mean, sum = mean+p*x.At(i, feature), sum+p
	}
	return mean / sum
}
