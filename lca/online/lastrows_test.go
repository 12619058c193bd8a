package online

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
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

// seriesLearner learns rows of series in minibatches of 50; a number that is NaN is a null.
func seriesLearner(t *testing.T, dim int, on bool) (l *Learner, learn func(l *Learner, x []float64, series []uint64), state func(*Learner) []byte) {
	t.Helper()
	c := DefaultConfig(dim)
	c.Minibatch, c.Neighbours, c.Recent = 50, 200, on
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	learn = func(l *Learner, x []float64, series []uint64) {
		for len(series) > 0 {
			n := min(50, len(series))
			ids := make([]uint64, n)
			for i := range ids {
				ids[i] = pool.Mix(math.Float64bits(x[i*dim]) + series[i])
			}
			if _, err := l.LearnSeries(mat.NewDense(n, dim, x[:n*dim]), ids, make([]int32, n), series[:n], nil); err != nil {
				t.Fatal(err)
			}
			x, series = x[n*dim:], series[n:]
		}
	}
	return l, learn, func(l *Learner) []byte {
		b, err := l.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// A learner keeps the series of least hash, whatever the order in which they come, and goes on with the same bytes after a restart.
func TestSeriesOfLeastHash(t *testing.T) {
	t.Parallel()
	const dim, all = 2, 6000
	rng := rand.New(rand.NewPCG(3, 4))
	l, learn, state := seriesLearner(t, dim, true)
	x, series := make([]float64, 3*all*dim), make([]uint64, 3*all)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	for i := range series {
		series[i] = pool.Mix(uint64(rng.IntN(all)))
	}
	half := 50 * (len(series) / 100)
	learn(l, x[:half*dim], series[:half])
	again, _, _ := seriesLearner(t, dim, true)
	if err := again.UnmarshalBinary(state(l)); err != nil {
		t.Fatal(err)
	}
	learn(l, x[half*dim:], series[half:])
	learn(again, x[half*dim:], series[half:])
	if !bytes.Equal(state(l), state(again)) {
		t.Error("a restart has changed what is learnt")
	}
	want := slices.Clone(series)
	slices.SortFunc(want, func(a, b uint64) int { return cmp.Compare(pool.Mix(a), pool.Mix(b)) })
	want = slices.Compact(want)[:mostSeries]
	if !slices.Equal(l.recent.kept, want) || len(l.recent.series) != mostSeries {
		t.Errorf("%d series are kept, %d wanted", len(l.recent.series), mostSeries)
	}
	if info := l.Info(); info.Rows != uint64(len(series)) || l.recent.learner.Learnt() >= info.Rows || l.recent.learner.Learnt() < info.Rows/2 {
		t.Errorf("%d rows of %d are learnt by what scores series", l.recent.learner.Learnt(), info.Rows)
	}
	for _, d := range []int{1, 8, 42, 64, recent.MostColumns, recent.MostColumns + 1} {
		if n := SeriesBytes(d); n > seriesBytes || d <= recent.MostColumns && n < 500_000/8 {
			t.Errorf("the series of %d columns take %d bytes", d, n)
		}
	}
}

// A row with a null moves its series on, by the function with which a transform does, and besides that it is as if it were not there.
func TestRowsWithNulls(t *testing.T) {
	t.Parallel()
	const dim, rows = 3, 3000
	rng := rand.New(rand.NewPCG(5, 6))
	x, series := make([]float64, rows*dim), make([]uint64, rows)
	var whole []float64
	var wholeSeries []uint64
	for i := range series {
		for k := range dim {
			x[i*dim+k] = rng.NormFloat64()
		}
		if i%50 >= 45 { // at the end of each minibatch, so that those without nulls are the same
			x[i*dim+i%dim] = math.NaN()
		}
	}
	for m := 0; m < rows; m += 50 {
		whole, wholeSeries = append(whole, x[m*dim:(m+45)*dim]...), append(wholeSeries, series[m:m+45]...)
	}
	state := func(on, holes bool) (*Learner, []byte) {
		l, learn, state := seriesLearner(t, dim, on)
		for m := 0; m < rows; m += 50 {
			if holes {
				learn(l, x[m*dim:(m+50)*dim], series[m:m+50])
			} else {
				learn(l, whole[m/50*45*dim:][:45*dim], wholeSeries[m/50*45:][:45])
			}
		}
		return l, state(l)
	}
	_, with := state(false, true)
	if _, without := state(false, false); !bytes.Equal(with, without) {
		t.Error("rows with nulls have changed the metric")
	}
	l, _ := state(true, true)
	moved, _ := state(true, false)
	if l.recent.series[0].Rows != rows || moved.recent.series[0].Rows != rows/50*45 || l.recent.learner.Learnt() != rows/50*45 {
		t.Errorf("a series of %d rows, %d without nulls, of which %d are learnt", l.recent.series[0].Rows, moved.recent.series[0].Rows, l.recent.learner.Learnt())
	}
	before := l.recent.learner.Learnt()
	l.SkipSeries(mat.NewDense(2, dim, x[:2*dim]), 2, []uint64{0, 1})
	if l.recent.series[0].Rows != rows+1 || l.recent.series[1].Rows != 1 || l.recent.learner.Learnt() != before || l.counts.Skipped != 2 {
		t.Error("rows that are skipped do not move their series, or are learnt")
	}
	none := mat.NewDense(2, dim, []float64{1, math.NaN(), 3, 4, 5, 6})
	if _, err := l.Learn(none, nil, nil); err == nil {
		t.Error("Learn has taken a NaN")
	}
	none.Set(0, 1, math.Inf(1))
	if _, err := l.LearnSeries(none, nil, nil, []uint64{0, 0}, nil); err == nil {
		t.Error("LearnSeries has taken an infinity")
	}
}

// A learner that begins with a model goes on from what scores its last rows.
func TestWarmStartKeepsTheRecentScore(t *testing.T) {
	t.Parallel()
	const dim = 3
	rng := rand.New(rand.NewPCG(7, 8))
	l, learn, _ := seriesLearner(t, dim, true)
	x := make([]float64, 3000*dim)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	learn(l, x, make([]uint64, 3000))
	m, err := l.Model()
	if err != nil {
		t.Fatal(err)
	}
	warm, _, state := seriesLearner(t, dim, true)
	if err := warm.WarmStart(m); err != nil {
		t.Fatal(err)
	}
	again, _, _ := seriesLearner(t, dim, true)
	if err := again.UnmarshalBinary(state(warm)); err != nil {
		t.Fatal(err)
	}
	if got := warm.recent.evaluator(); got != m.Recent || again.recent.learner.Learnt() != m.Recent.Learnt {
		t.Errorf("the evaluator is %v", got)
	}
	learn(warm, x, make([]uint64, 3000))
	if now := warm.recent.evaluator(); now.Learnt != m.Recent.Learnt+3000 {
		t.Errorf("after 3000 more rows, %d are behind the evaluator", now.Learnt)
	}
}
