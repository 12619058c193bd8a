package online

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/recent"
)

// A learner learns the recent score of all rows that it is handed, by the series that partitions are, and goes on with the same bits after a restart.
func TestLearnerLearnsTheRecentScore(t *testing.T) {
	const dim, rows, minibatches = 3, 50, 90
	rng := rand.New(rand.NewPCG(1, 2))
	x, partitions := make([]float64, rows*minibatches*dim), make([]int32, rows*minibatches)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	for i := range partitions {
		partitions[i] = int32(rng.IntN(3))
	}
	new := func(on bool) *Learner {
		c := DefaultConfig(dim)
		c.Minibatch, c.Neighbours, c.Recent = rows, 500, on
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	learn := func(l *Learner, from, to int) {
		for m := from; m < to; m++ {
			if _, err := l.Learn(mat.NewDense(rows, dim, x[m*rows*dim:(m+1)*rows*dim]), nil, partitions[m*rows:(m+1)*rows]); err != nil {
				t.Fatal(err)
			}
		}
	}
	score := func(l *Learner) float64 {
		m, err := l.Model()
		if err != nil {
			t.Fatal(err)
		}
		if m.Recent == nil {
			return 0
		}
		var c recent.Scorer
		var s recent.Series
		scores := make([]float64, 60)
		series := make([]*recent.Series, 60)
		for i := range series {
			series[i] = &s
		}
		c.Score(m.Recent, scores, x[:60*dim], series)
		return scores[59]
	}
	l := new(true)
	learn(l, 0, 45)
	state, err := l.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again, off := new(true), new(false)
	if err := again.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	if err := off.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	if score(off) != 0 {
		t.Error("a learner without the recent score has one after it has read a state with it")
	}
	learn(l, 45, minibatches)
	learn(again, 45, minibatches)
	if a, b := score(l), score(again); a != b || a == 0 {
		t.Errorf("a score of %v after a restart, %v without", b, a)
	}
	direct, series := recent.NewLearner(dim), map[int32]*recent.Series{0: {}, 1: {}, 2: {}}
	for m := range minibatches {
		var turns []*recent.Series
		for _, p := range partitions[m*rows : (m+1)*rows] {
			turns = append(turns, series[p])
		}
		direct.Learn(x[m*rows*dim:(m+1)*rows*dim], turns)
	}
	if want := direct.Evaluator(); l.recent.evaluator().Scores.Sum != want.Scores.Sum || l.recent.evaluator().Charts.Mean[0] != want.Charts.Mean[0] {
		t.Error("the learner's evaluator is not the one of its rows and their partitions")
	}
	l.NextPass()
	before := l.recent.learner.Learnt()
	learn(l, 0, 5)
	if after := l.recent.learner.Learnt(); after != before {
		t.Errorf("%d rows were learnt again in a second pass", after-before)
	}
}
