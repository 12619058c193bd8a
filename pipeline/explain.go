package pipeline

import (
	"context"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
)

// probabilities turns scores into probabilities, by the leave-one-out scores of the model. Models of an older snapshot
// format have none; then there are no probabilities. They are made of the scores as they are written, so that a reader can
// make them again.
func (t *Transform) probabilities(w *Whitened) {
	scores := t.model.Model.Scores
	if scores == nil || w.Score == nil {
		return
	}
	if t.Output.P {
		w.P = t.made.numbers.take(len(w.Score))
	}
	for i, score := range w.Score {
		p := 0.0
		if w.Invalid[i] == minibatch.ReasonNone {
			p = scores.P(float64(score))
			t.counts.p.add(p)
		}
		if w.P != nil {
			w.P[i] = float32(p)
		}
	}
}

// explain finds the features that lca_why names for each row of the queue.
func (t *Transform) explain(ctx context.Context, w *Whitened) error {
	each := min(t.Output.Why, w.K)
	if each == 0 {
		return nil
	}
	w.Why = t.made.gains.take(len(w.Invalid) * each)
	return t.eachSlice(ctx, func(first int, x []float64, n int) {
		t.scorer.Why(w.Why[first*each:(first+n)*each], x, n)
	})
}

// eachSlice hands over the rows of the queue again, slice by slice as float64, from row first on.
func (t *Transform) eachSlice(ctx context.Context, take func(first int, x []float64, n int)) error {
	q, d := &t.queue, t.model.Model.Dim
	if q.sliced != nil {
		return gatherEach(&t.features, &q.read, q.sliced.Record, func(first int) error {
			take(first, q.read.X, q.read.N)
			return ctx.Err()
		})
	}
	for first := 0; first < q.rows; first += t.slice {
		last := min(first+t.slice, q.rows)
		var x []float64
		if q.zeroCopy == nil {
			x = q.gathered[first*d : last*d]
		} else {
			q.wide = slices.Grow(q.wide[:0], (last-first)*d)
			for _, v := range q.zeroCopy[first*d : last*d] {
				q.wide = append(q.wide, float64(v))
			}
			x = q.wide
		}
		take(first, x, last-first)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
