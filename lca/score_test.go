package lca_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// The fast path gives y and −log p of the formulas in float64, to float32 and within 1e-5, also for
// rows far from the data and for an offset that float32 could not subtract.
func TestScorer(t *testing.T) {
	const d, n = 7, 600
	for name, offset := range map[string]float64{"centred": 0, "offset of 1e4": 1e4} {
		for kind, metric := range map[lca.Kind]lca.Metric{lca.KindLCA: lca.MetricFull, lca.KindLCAGauss: lca.MetricFull, lca.KindLCAGaussRed: lca.MetricDiagonal} {
			t.Run(name+"/"+kind.String(), func(t *testing.T) {
				x, _ := toy("five", n, d-2, 3)
				for i := range x.RawMatrix().Data {
					x.RawMatrix().Data[i] += offset
				}
				c := lca.DefaultConfig()
				c.Kind, c.Metric, c.Preset, c.MaxIter = kind, metric, lca.PresetDensity, 5
				if kind == lca.KindLCA {
					c.Kernel = lca.KernelStudent
				}
				m, err := lca.Fit(context.Background(), x, c)
				if err != nil {
					t.Fatal(err)
				}
				q, _ := toy("five", 200, d-2, 4)
				for i := range q.RawMatrix().Data {
					q.RawMatrix().Data[i] = q.RawMatrix().Data[i]*math.Exp2(float64(i/d%8)) + offset
				}
				s := m.NewScorer()
				y, score := make([]float32, 200*d), make([]float32, 200)
				s.Score(y, score, q.RawMatrix().Data, 200)
				want := m.LogDensity(nil, q)
				for i, w := range want {
					if e := math.Abs(float64(score[i])+w) / math.Abs(w); e > 1e-5 {
						t.Fatalf("row %d: score %v, −log p %v: %g off", i, score[i], -w, e)
					}
				}
				var white mat.Dense
				m.Whiten(&white, q)
				for i, v := range y {
					if w := white.RawMatrix().Data[i]; math.Abs(float64(v)-w) > 1e-6*(1+math.Abs(w)) {
						t.Fatalf("y[%d] is %v, want %v", i, v, w)
					}
				}
				if a := testing.AllocsPerRun(5, func() { s.Score(y, score, q.RawMatrix().Data, 200) }); a != 0 {
					t.Errorf("%v allocations per call", a)
				}
				narrow, wide := make([]float32, 200*d), make([]float64, 200*d)
				for i, v := range q.RawMatrix().Data {
					narrow[i] = float32(v)
					wide[i] = float64(narrow[i])
				}
				y2, score2 := make([]float32, 200*d), make([]float32, 200)
				s.Score(y, score, wide, 200)
				s.Score32(y2, score2, narrow, 200)
				if !slices.Equal(y, y2) || !slices.Equal(score, score2) {
					t.Error("rows of float32 have other bits than the same rows of float64")
				}
				if a := testing.AllocsPerRun(5, func() { s.Score32(y, score, narrow, 200) }); a != 0 {
					t.Errorf("%v allocations per call of Score32", a)
				}
			})
		}
	}
}

// A small model scores without allocating, as a large one does.
func TestSmallScorerAllocatesNothing(t *testing.T) {
	const d = 7
	x, _ := toy("five", 250, d-2, 3)
	m := fit(t, x, densityConfig(lca.KindLCAGauss))
	s, score := m.NewScorer(), make([]float32, 250)
	for _, rows := range []int{250, 1} {
		if a := testing.AllocsPerRun(5, func() { s.Score(nil, score, x.RawMatrix().Data, rows) }); a != 0 {
			t.Errorf("%v allocations per call of %d rows", a, rows)
		}
	}
}
