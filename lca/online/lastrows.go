package online

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/recent"
)

const (
	mostSeries = 4096 // of which a learner keeps the last rows: those whose identity has the least hash. The choice depends on nothing else
	// seriesBytes bounds what they take: with more than about 42 columns they are fewer.
	seriesBytes = 4 << 20
)

// SeriesBytes is about how many bytes of a state the series of a learner take at most, in memory and in a checkpoint.
func SeriesBytes(dim int) int {
	if dim > recent.MostColumns {
		return 0
	}
	return seriesLimit(dim) * oneSeries(dim)
}

// oneSeries is what a state has of a series.
func oneSeries(dim int) int { return 8 + 40 + recent.SeriesBytes(dim) }

// seriesLimit is how many series a learner keeps.
func seriesLimit(dim int) int { return min(mostSeries, seriesBytes/oneSeries(dim)) }

// lastRows learns what scores the last rows of a series.
type lastRows struct {
	learner *recent.Learner // nil: off
	series  map[uint64]*recent.Series
	kept    []uint64 // identities of the series once they are as many as there may be, the one with the greatest hash on top
	over    bool     // the rows come again, and are known

	ids   []uint64
	rows  []float64
	turns []*recent.Series // of the rows of a minibatch
	known []int            // places of these rows in it; empty: they are all
	held  []bool           // of all its rows; empty: none is
}

// learn learns rows, which include those that the gate refuses: what keeps a fault out of the moments is its score. A row of a series that is not
// kept is not learnt.
func (r *lastRows) learn(x []float64, series []uint64, dim int) {
	r.held = r.held[:0]
	if r.learner == nil || r.over {
		return
	}
	r.learner.Learn(r.find(x, series, dim), r.turns)
	held := r.learner.Held()
	if len(r.known) == 0 {
		r.held = append(r.held, held...)
		return
	}
	r.held = slices.Grow(r.held, len(series))[:len(series)]
	clear(r.held)
	for i, at := range r.known {
		r.held[at] = held[i]
	}
}

// pass moves series on by rows that are not learnt.
func (r *lastRows) pass(x []float64, series []uint64, dim int) {
	if r.learner != nil && !r.over {
		r.learner.Pass(r.find(x, series, dim), r.turns)
	}
}

// find sets turns to the series of the rows that are of one that is kept, and returns these rows.
func (r *lastRows) find(x []float64, series []uint64, dim int) []float64 {
	r.turns, r.rows, r.known = r.turns[:0], r.rows[:0], r.known[:0]
	for i, id := range series {
		if s := r.of(id, dim); s != nil {
			r.turns, r.known = append(r.turns, s), append(r.known, i)
		}
	}
	if n := len(x) / dim; len(r.known) == n {
		r.known = r.known[:0]
		return x
	}
	for _, i := range r.known {
		r.rows = append(r.rows, x[i*dim:(i+1)*dim]...)
	}
	return r.rows
}

// seriesOf returns the identities of the series of n rows, where none are given.
func (r *lastRows) seriesOf(series []uint64, partitions []int32, n int) []uint64 {
	if series != nil || r.learner == nil {
		return series
	}
	r.ids = r.ids[:0]
	for i := range n {
		id := uint64(0)
		if partitions != nil {
			id = uint64(partitions[i])
		}
		r.ids = append(r.ids, id)
	}
	return r.ids
}

// SeriesState returns a copy of the series with an identity, as it is after the rows that were learnt or skipped; a zero one where the learner has none.
func (l *Learner) SeriesState(id uint64) *recent.Series {
	kept := l.recent.series[id]
	if kept == nil {
		return new(recent.Series)
	}
	s := kept.Clone()
	return &s
}

// of returns the series with an identity; nil: it is not kept.
func (r *lastRows) of(id uint64, dim int) *recent.Series {
	s := r.series[id]
	if s != nil {
		return s
	}
	i, _ := slices.BinarySearchFunc(r.kept, pool.Mix(id), func(kept, hash uint64) int { return cmp.Compare(pool.Mix(kept), hash) })
	if most := seriesLimit(dim); len(r.kept) >= most {
		if i == most {
			return nil
		}
		delete(r.series, r.kept[most-1])
		r.kept = r.kept[:most-1]
	}
	if r.series == nil {
		r.series = map[uint64]*recent.Series{}
	}
	s = new(recent.Series)
	r.series[id], r.kept = s, slices.Insert(r.kept, i, id)
	return s
}

// evaluator returns what scores rows now; nil where nothing does.
func (r *lastRows) evaluator() *recent.Evaluator {
	if r.learner == nil {
		return nil
	}
	return r.learner.Evaluator()
}

// settle says that the rows so far are a normal stretch.
func (r *lastRows) settle() {
	if r.learner != nil && !r.over {
		r.learner.Settle()
	}
}

// Normal says whether the rows to come are known to be normal: then none of them are held. It is no part of the state.
func (l *Learner) Normal(are bool) {
	l.normal = are
	if l.recent.learner != nil {
		l.recent.learner.Normal(are)
	}
}

// fields passes the series and what was learnt of them. When it reads, it leaves what a learner does not want unused, and a learner of which a state knows nothing as
// it is.
func (r *lastRows) fields(f *state.Fields, dim int) {
	known, over := r.learner != nil, r.over
	f.Flag(&known)
	f.Flag(&over)
	switch {
	case !known || f.Reads() && f.R.Err != nil:
	case f.Reads():
		next := lastRows{over: over}
		if f.R.Fail(next.read(f.R, dim)); f.R.Err == nil && r.learner != nil {
			*r = next
		}
	default:
		f.W.B, _ = r.learner.AppendBinary(f.W.B)
		f.W.Count(len(r.series))
		for _, id := range slices.Sorted(maps.Keys(r.series)) {
			f.W.U64(id)
			f.W.B, _ = r.series[id].AppendLearnt(f.W.B)
		}
	}
}

func (r *lastRows) read(from *state.Reader, dim int) (err error) {
	if r.learner, from.B, err = recent.ReadLearner(from.B, dim); err != nil {
		return err
	}
	for range from.Count(oneSeries(0)) {
		id := from.U64()
		var s *recent.Series
		if s, from.B, err = recent.ReadLearnt(from.B); err != nil {
			return err
		}
		if s.Rows > 0 && len(s.Short) != dim {
			return errors.New("the series of other columns")
		}
		if kept := r.of(id, dim); kept != nil {
			*kept = *s
		}
	}
	return from.Err
}
