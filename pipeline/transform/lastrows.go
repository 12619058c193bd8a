package transform

import (
	"slices"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
)

// lastRows is memory for what scores the last rows of series.
type lastRows struct {
	scorer recent.Scorer
	series []*recent.Series
	rows   []float64 // those of the batch that are valid
	at     []int     // where they are in the batch
	scores []float64
}

// lastRows scores rows x of the queue, the first of which has that number, each as the next row of its series. A row that is invalid moves no series on.
func (t *Transform) lastRows(w *encode.Whitened, x []float64, first int) {
	if w.Recent == nil {
		return
	}
	r, d := &t.recent, w.K
	r.series, r.rows, r.at = r.series[:0], r.rows[:0], r.at[:0]
	message := 0
	for i := range len(x) / d {
		for first+i >= t.queue.pending[message].last {
			message++
		}
		w.Recent[first+i], w.RecentP[first+i] = 0, 0
		if t.queue.invalid[first+i] != minibatch.ReasonNone {
			continue
		}
		r.series = append(r.series, t.Series(t.queue.pending[message].message))
		r.rows, r.at = append(r.rows, x[i*d:(i+1)*d]...), append(r.at, first+i)
	}
	r.scores = slices.Grow(r.scores[:0], len(r.at))[:len(r.at)]
	e := t.model.Model.Recent
	r.scorer.Score(e, r.scores, r.rows, r.series)
	for i, at := range r.at {
		w.Recent[at] = float32(r.scores[i])
		w.RecentP[at] = float32(e.P(float64(w.Recent[at]), r.scorer.Rows(i)))
	}
}

// lastRows32 is lastRows for the rows that were whitened from where they lie, a slice at a time.
func (t *Transform) lastRows32(w *encode.Whitened) {
	if w.Recent == nil {
		return
	}
	q, d := &t.queue, w.K
	step := max(1, gatheredNumbers/d)
	for first := 0; first < q.rows; first += step {
		q.wide = q.wide[:0]
		for _, v := range q.zeroCopy[first*d : min(first+step, q.rows)*d] {
			q.wide = append(q.wide, float64(v))
		}
		t.lastRows(w, q.wide, first)
	}
}
