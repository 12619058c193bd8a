package online

import (
	"errors"
	"maps"
	"slices"

	"github.com/lca-stream/lca-stream/lca/recent"
)

// lastRows learns what scores the last rows of a series. The series of a learner are the partitions of its rows: a model by key is of one series in each.
type lastRows struct {
	learner *recent.Learner // nil: off
	series  map[int32]*recent.Series
	over    bool // the rows come again, and are known

	turns []*recent.Series // of the rows of a minibatch
}

// learn learns rows, which include those that the gate refuses: what keeps a fault out of the moments is its score.
func (r *lastRows) learn(b batch) {
	if r.learner == nil || r.over || b.len() == 0 {
		return
	}
	r.turns = r.turns[:0]
	for _, p := range b.places {
		s := r.series[p.partition]
		if s == nil {
			if r.series == nil {
				r.series = map[int32]*recent.Series{}
			}
			s = new(recent.Series)
			r.series[p.partition] = s
		}
		r.turns = append(r.turns, s)
	}
	r.learner.Learn(b.x, r.turns)
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

func (r *lastRows) write(w *writer) {
	w.flag(r.learner != nil)
	w.flag(r.over)
	if r.learner == nil {
		return
	}
	w.b, _ = r.learner.AppendBinary(w.b)
	w.count(len(r.series))
	for _, partition := range slices.Sorted(maps.Keys(r.series)) {
		w.u64(uint64(partition))
		w.b, _ = r.series[partition].AppendBinary(w.b)
	}
}

// read leaves what a learner does not want unused, and a learner of which a state knows nothing as it is.
func (r *lastRows) read(from *reader, dim int) {
	known, over := from.flag(), from.flag()
	if from.err != nil || !known {
		return
	}
	learner, rest, err := recent.ReadLearner(from.b, dim)
	if from.err, from.b = err, rest; err != nil {
		return
	}
	series := map[int32]*recent.Series{}
	for range from.count(32) {
		partition := int32(from.u64())
		s, rest, err := recent.ReadSeries(from.b)
		if err == nil && s.Rows > 0 && len(s.Short) != dim {
			err = errors.New("the series of other columns")
		}
		if from.err == nil {
			from.err = err
		}
		if from.b = rest; from.err != nil {
			return
		}
		series[partition] = s
	}
	if r.learner != nil {
		r.learner, r.series, r.over = learner, series, over
	}
}
