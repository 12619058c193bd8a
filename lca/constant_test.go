package lca_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestConstantColumnMoves holds that the first move of a column that was constant is the clearest anomaly there is, in all scores and in Why, whatever
// its level, and that rounding is no move.
func TestConstantColumnMoves(t *testing.T) {
	const rows, dim = 400, 4
	for _, c := range []struct {
		level  float64
		moved  []float64
		stands []float64 // what is no move
	}{
		{3.3, []float64{300, 3.4, 3.301, 0, -3.3, 1e30}, []float64{3.3, float64(float32(3.3)), 3.3 + 1e-9}},
		{20, []float64{20.1, 19.9, 20.01}, []float64{20}},                                  // quantised to one level
		{0, []float64{1, -1, 1e-9, 1e6, 1e300}, []float64{0, math.Copysign(0, -1), 1e-17}}, // a flag, a counter, a dead sensor
		{1, []float64{0, 2}, []float64{1}},
		{-9999, []float64{0, 21.5}, []float64{-9999}},
		{1e-9, []float64{2e-9, 0, 1}, []float64{1e-9, float64(float32(1e-9))}},
		{1.7e15, []float64{1.8e15, 0, 1.7e15 + 1e12}, []float64{1.7e15 + 3, float64(float32(1.7e15))}},
	} {
		for _, preset := range []lca.Preset{lca.PresetMetric, lca.PresetDensity} {
			t.Run(fmt.Sprint(c.level, preset), func(t *testing.T) {
				r := rand.New(rand.NewPCG(4, 8))
				draw := func(x []float64, level float64) {
					for k := range dim {
						if x[k] = r.NormFloat64(); k == 2 {
							x[k] = level
						}
					}
				}
				x := mat.NewDense(rows, dim, nil)
				for i := range rows {
					draw(x.RawRowView(i), c.level)
				}
				config := lca.DefaultConfig()
				config.Preset = preset
				m := fit(t, x, config)
				m.ScoreNeighbours(lca.Admissible{})
				s, worst := m.NewScorer(), math.Inf(-1)
				scored := func(level float64) (score float64, first int) {
					row, out, gains := make([]float64, dim), make([]float32, 1), make([]lca.Gain, 2)
					draw(row, level)
					if !s.Score(nil, out, row, 1) {
						t.Fatalf("the score of a row at %v is %v", level, out)
					}
					nearly(t, "LogDensity", -m.LogDensity(nil, mat.NewDense(1, dim, row))[0], float64(out[0]), 1e-5*math.Abs(float64(out[0]))+1e-4)
					s.Why(gains, row, 1)
					return float64(out[0]), gains[0].Column
				}
				for range 300 {
					score, _ := scored(c.level)
					worst = max(worst, score)
				}
				for _, level := range c.moved {
					for range 5 {
						if score, first := scored(level); score < worst+100 || first != 2 || m.Scores.P(score) != lca.LeastP {
							t.Errorf("at %v the score is %.1f, the highest of others %.1f; column %d comes first; p %v", level, score, worst, first, m.Scores.P(score))
						}
					}
				}
				row, at, want := x.RawRowView(0), make([]float32, 1), make([]float32, 1)
				row[2] = m.Mean[2]
				s.Score(nil, want, row, 1)
				for _, level := range c.stands {
					row[2] = level
					if s.Score(nil, at, row, 1); at[0] != want[0] {
						t.Errorf("at %v the score is %v, at the level %v", level, at[0], want[0])
					}
				}
			})
		}
	}
}

// TestConstantColumnIsNotANumber holds that a score says so where a constant column is beyond all numbers.
func TestConstantColumnIsNotANumber(t *testing.T) {
	m := oneNeighbour(2, 0)
	m.BL.SetRow(1, []float64{0, 0})
	m.BG.SetRow(1, []float64{0})
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		if score := []float32{0}; m.NewScorer().Score(nil, score, []float64{1, v, 3}, 1) {
			t.Errorf("with %v the score is %v", v, score)
		}
	}
}
