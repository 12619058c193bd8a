//go:build unix

package episode_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

// BenchmarkCost is what the score of the last rows costs a transform, with its p, the account of causes and the episode, next to the score of the row over
// 3,000 neighbours: processor time, both in turn.
func BenchmarkCost(b *testing.B) {
	const neighbours, rows, turns = 3000, 100, 20
	for _, d := range []int{8, 64} {
		x := clusters(neighbours+rows*turns, d)
		l := recent.NewLearner(d)
		l.Learn(x[:neighbours*d], slices.Repeat([]*recent.Series{new(recent.Series)}, neighbours))
		e := l.Evaluator()
		height, young := e.Tail.Level(1. / 2000)
		level := episode.Level{Height: height, Usual: e.Scores.Quantile(0.99), Young: young}
		fresh := x[neighbours*d:]
		for _, preset := range []lca.Preset{lca.PresetDensity, lca.PresetMetric} {
			c := lca.DefaultConfig()
			c.MaxIter, c.Preset = 5, preset
			m, err := lca.Fit(context.Background(), mat.NewDense(neighbours, d, slices.Clone(x[:neighbours*d])), c)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("d=%d/%s", d, preset), func(b *testing.B) {
				row := m.NewScorer()
				row.Prepare(false)
				var series recent.Series
				var last recent.Scorer
				var open episode.Open
				var cause *recent.Cause
				all := slices.Repeat([]*recent.Series{&series}, rows)
				score, lasts := make([]float32, rows), make([]float64, rows)
				var rowTime, scoreTime, lastTime time.Duration
				for b.Loop() {
					start := testtools.ProcessorTime(b)
					for t := range turns {
						row.Score(nil, score, fresh[t*rows*d:][:rows*d], rows)
					}
					scored := testtools.ProcessorTime(b)
					for t := range turns {
						last.Score(e, lasts, fresh[t*rows*d:][:rows*d], all)
					}
					middle := testtools.ProcessorTime(b)
					for t := range turns {
						last.Score(e, lasts, fresh[t*rows*d:][:rows*d], all)
						for i, s := range lasts {
							open.Step(episode.Place{Offset: int64(i)}, s, e.P(s, last.Rows(i)), level)
							cause = last.Account(e, i, &series, open.Watch.Open, s, cause)
						}
					}
					rowTime, scoreTime, lastTime = rowTime+scored-start, scoreTime+middle-scored, lastTime+testtools.ProcessorTime(b)-middle
				}
				n := float64(b.N * rows * turns)
				b.ReportMetric(float64(m.Parzen()), "kernel-directions")
				b.ReportMetric(float64(rowTime)/n, "row-ns")
				b.ReportMetric(float64(scoreTime)/n, "score-ns")
				b.ReportMetric(float64(scoreTime)/float64(rowTime), "score/row")
				b.ReportMetric(float64(lastTime)/n, "last-ns")
				b.ReportMetric(float64(lastTime)/float64(rowTime), "last/row")
			})
		}
	}
}

// clusters returns rows in five clusters over half of the columns, each row near the one before.
func clusters(n, d int) []float64 {
	r := rand.New(rand.NewPCG(1, uint64(d)))
	centres, x, now := make([]float64, 5*d), make([]float64, n*d), make([]float64, d)
	for k := range centres {
		if k%d < d/2 {
			centres[k] = 4 * r.NormFloat64()
		}
	}
	for i := range n {
		of := r.IntN(5) * d
		for k := range now {
			now[k] += 0.1 * (r.NormFloat64()*4 - now[k])
			x[i*d+k] = centres[of+k] + now[k] + r.NormFloat64()
		}
	}
	return x
}
