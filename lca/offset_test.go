package lca_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestOffsetCostsNothing holds that rows far from 0, as seconds since 1970 are, get the scores that they would have near
// 0. float64 holds them to 2e-7, a ten millionth of their standard deviation; float32 would to 128.
func TestOffsetCostsNothing(t *testing.T) {
	const n, fresh, d, offset = 500, 200, 4, 1.7e9
	five, _ := toy("five", n+fresh, d-2, 9)
	moved := mat.DenseCopyOf(five)
	moved.Apply(func(_, _ int, v float64) float64 { return v + offset }, moved)
	scores := func(x *mat.Dense) []float32 {
		m := fit(t, mat.DenseCopyOf(x.Slice(0, n, 0, d)), densityConfig(lca.KindLCAGauss))
		score := make([]float32, fresh)
		m.NewScorer().Score(nil, score, mat.DenseCopyOf(x.Slice(n, n+fresh, 0, d)).RawMatrix().Data, fresh)
		return score
	}
	want, got := scores(five), scores(moved)
	for i := range want {
		if off := math.Abs(float64(got[i] - want[i])); !(off < 1e-4) {
			t.Fatalf("row %d: score %v, near 0 it is %v", i, got[i], want[i])
		}
	}
}
