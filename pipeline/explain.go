package pipeline

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
)

// namedFeatures is how many features are named at most for a row that is told of in addition to the output.
const namedFeatures = 5

// RareRow is the lca_p below which a row is rare: an anomaly of its model where alarms.p_below does not say it. It is a bound of scoreBounds.
const RareRow = 1e-4

// mostRare is for how many rare rows memory is kept from batch to batch.
const mostRare = 1 << 10

// rare is a row of the queue that is told of in addition to the output.
type rare struct {
	row      int // of the queue
	p, score float32
	alarm    bool // p is below Alarms.PBelow
	shown    bool // it may be among the strangest
}

// probabilities turns scores into probabilities, by the leave-one-out scores of the model, and finds the rare rows. Models
// of an older snapshot format have no such scores; then there are no probabilities. They are made of the scores as they
// are written, so that a reader can make them again.
func (t *Transform) probabilities(w *Whitened) {
	scores := t.model.Model.Scores
	if scores == nil || w.Score == nil {
		return
	}
	if t.Output.P {
		w.P = t.made.numbers.take(len(w.Score))
	}
	q, known := &t.queue, t.Stats.StrangeAt(t.Now())
	for i, score := range w.Score {
		p := float32(0)
		if w.Invalid[i] == minibatch.ReasonNone {
			p = float32(scores.P(float64(score)))
			t.counts.p.add(float64(p))
			if t.unusual != nil && p < RareRow {
				t.unusual[t.model.ModelID]++
			}
			r := rare{row: i, p: p, score: score, alarm: t.Alarms.below(p)}
			if r.alarm {
				t.counts.anomalies++
			}
			if known.takes(p, score) && t.counts.strange.takes(p, score) {
				q.show(r)
			}
			if r.alarm {
				q.rare = append(q.rare, r)
			}
		}
		if w.P != nil {
			w.P[i] = p
		}
	}
	for _, r := range q.shown {
		if at, alarm := slices.BinarySearchFunc(q.rare, r, inOrder); alarm {
			q.rare[at].shown = true
		} else {
			q.rare = slices.Insert(q.rare, at, r)
		}
	}
}

func inOrder(a, b rare) int { return cmp.Compare(a.row, b.row) }

// show keeps a row if it is among the strangest of the queue.
func (q *queue) show(r rare) {
	r.shown = true
	at, _ := slices.BinarySearchFunc(q.shown, r, func(a, b rare) int { return stranger(a.p, a.score, b.p, b.score) })
	if at < strangeMost {
		q.shown = slices.Insert(q.shown[:min(len(q.shown), strangeMost-1)], at, r)
	}
}

// explain finds the features that lca_why names for each row of the queue, and those of the rare rows.
func (t *Transform) explain(ctx context.Context, w *Whitened) error {
	if each := min(t.Output.Why, w.K); each > 0 {
		w.Why = t.made.gains.take(len(w.Invalid) * each)
		err := t.eachSlice(ctx, func(first int, x []float64, n int) {
			t.scorer.Why(w.Why[first*each:(first+n)*each], x, n)
		})
		if err != nil {
			return err
		}
	}
	q, each := &t.queue, min(namedFeatures, w.K)
	if len(q.rare) == 0 {
		return nil
	}
	q.gains = slices.Grow(q.gains[:0], len(q.rare)*each)[:len(q.rare)*each]
	next := 0
	return t.eachSlice(ctx, func(first int, x []float64, n int) {
		q.picked = q.picked[:0]
		from := next
		for ; next < len(q.rare) && q.rare[next].row < first+n; next++ {
			at := q.rare[next].row - first
			q.picked = append(q.picked, x[at*w.K:(at+1)*w.K]...)
		}
		t.scorer.Why(q.gains[from*each:next*each], q.picked, next-from)
	})
}

// guilty names the features of gains.
func guilty(gains []lca.Gain, features []string) []Guilty {
	named := make([]Guilty, len(gains))
	for i, gain := range gains {
		named[i] = Guilty{features[gain.Column], float32(min(gain.Nats, math.MaxFloat32))}
	}
	return named
}

// eachSlice hands over the rows of the queue again, slice by slice as float64, from row first on.
func (t *Transform) eachSlice(ctx context.Context, take func(first int, x []float64, n int)) error {
	q, d := &t.queue, t.model.Model.Dim
	if q.sliced != nil {
		return gatherEach(&t.features, &q.read, q.sliced.Record, func(first int) error {
			if err := t.fill(ctx, q.read.X, q.read.N); err != nil {
				return err
			}
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
