package pipeline

import (
	"context"
	"math"

	"github.com/lca-stream/lca-stream/minibatch"
)

// whiten returns what the rows of the queue have become. What the reasons say of a
// row holds afterwards: it is finite, or null.
func (t *Transform) whiten(ctx context.Context) (w Whitened, err error) {
	q := &t.queue
	if q.rows == 0 {
		return w, nil
	}
	w = Whitened{K: t.model.Model.Dim, Features: t.features.Names}
	w.Y = t.made.numbers.take(q.rows * w.K)
	if t.Output.scores() || t.Alarms.scores() {
		w.Score = t.made.numbers.take(q.rows)
	}
	if err := t.coordinates(ctx, &w); err != nil {
		return w, err
	}
	w.Invalid, w.Imputed = q.invalid, t.imputed()
	t.probabilities(&w)
	return w, t.explain(ctx, &w)
}

// coordinates whitens and scores the rows of the queue: from where they lie if all are finite, or else gathered.
func (t *Transform) coordinates(ctx context.Context, w *Whitened) error {
	q := &t.queue
	if q.zeroCopy != nil {
		finite, err := inSlices(ctx, t, t.scorer.Score32, w.Y, w.Score, q.zeroCopy, q.rows)
		if err != nil {
			return err
		}
		// A number that is not finite shows in y, unless the model leaves its column out.
		if finite && (t.scorer.PropagatesNonFinite() || minibatch.Finite(q.zeroCopy)) {
			t.counts.rows += uint64(q.rows)
			return nil
		}
		if err := t.gatherAgain(ctx); err != nil {
			return err
		}
		w.Y, w.Score = w.Y[:q.rows*w.K], w.Score[:min(q.rows, len(w.Score))]
	}
	finite, err := t.whitenGathered(ctx, w.Y, w.Score)
	if err == nil && !finite {
		t.bound(w.Y, w.K, w.Score)
	}
	return err
}

// whitenGathered whitens gathered rows: all together, or slice by slice, because those of a large message are not all in
// memory. What becomes of a row does not depend on the slices.
func (t *Transform) whitenGathered(ctx context.Context, y, score []float32) (finite bool, err error) {
	q, k := &t.queue, t.model.Model.Dim
	if q.sliced == nil {
		if err := t.fill(ctx, q.gathered, q.rows); err != nil {
			return false, err
		}
		return inSlices(ctx, t, t.scorer.Score, y, score, q.gathered, q.rows)
	}
	finite = true
	err = gatherEach(&t.features, &q.read, q.sliced.Record, func(first int) error {
		last := first + q.read.N
		if err := t.fill(ctx, q.read.X, q.read.N); err != nil {
			return err
		}
		good, err := inSlices(ctx, t, t.scorer.Score, y[first*k:last*k], part(score, first, last), q.read.X, q.read.N)
		finite = finite && good
		return err
	})
	return finite, err
}

// part is some of the scores; nil where there are none.
func part(score []float32, first, last int) []float32 {
	if score == nil {
		return nil
	}
	return score[first:last]
}

// inSlices whitens n rows of x slice by slice, unless the context ends.
func inSlices[X float32 | float64](ctx context.Context, t *Transform, whiten func(y, score []float32, x []X, n int) bool, y, score []float32, x []X, n int) (finite bool, err error) {
	d, step := t.model.Model.Dim, t.slice
	finite = true
	for first := 0; first < n; first += step {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		last := min(first+step, n)
		finite = whiten(y[first*d:last*d], part(score, first, last), x[first*d:last*d], last-first) && finite
	}
	return finite, nil
}

// bound keeps what is written finite: a row so far away that its coordinates are beyond float32 is null, like one
// with an Inf, and a score beyond it is the largest float32.
func (t *Transform) bound(y []float32, k int, score []float32) {
	for i, s := range score {
		if !minibatch.Finite(score[i : i+1]) {
			score[i] = float32(math.Copysign(math.MaxFloat32, float64(s)))
		}
	}
	for r, reason := range t.queue.invalid {
		if reason == minibatch.ReasonNone && !minibatch.Finite(y[r*k:(r+1)*k]) {
			t.queue.invalid[r] = minibatch.ReasonInf
			t.counts.rejected(minibatch.ReasonInf.String(), 1)
			t.counts.rows-- // it was counted when it was read
		}
	}
}
