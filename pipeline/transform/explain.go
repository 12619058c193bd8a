package transform

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// namedFeatures is how many features are named at most for a row that is told of in addition to the output.
const namedFeatures = 5

// RareRow is the lca_p below which a row is rare: an anomaly of its model. It is a bound of scoreBounds.
const RareRow = 1e-4

// rare is a row of the queue that may be among the strangest.
type rare struct {
	row      int // of the queue
	p, score float32
}

// probabilities turns scores into probabilities, by the leave-one-out scores of the model, and finds the strangest rows. Models
// of an older snapshot format have no such scores; then there are no probabilities. They are made of the scores as they
// are written, so that a reader can make them again.
func (t *Transform) probabilities(w *encode.Whitened) {
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
			t.counts.p.Add(float64(p))
			if t.unusual != nil && p < RareRow {
				t.unusual[t.model.ModelID]++
			}
			if known.Takes(p, score) && t.counts.strange.Takes(p, score) {
				q.show(rare{row: i, p: p, score: score})
			}
		}
		if w.P != nil {
			w.P[i] = p
		}
	}
	slices.SortFunc(q.rare, func(a, b rare) int { return cmp.Compare(a.row, b.row) })
}

// show keeps a row if it is among the strangest of the queue, the strangest first.
func (q *queue) show(r rare) {
	at, _ := slices.BinarySearchFunc(q.rare, r, func(a, b rare) int { return stats.Stranger(a.p, a.score, b.p, b.score) })
	if at < stats.StrangeMost {
		q.rare = slices.Insert(q.rare[:min(len(q.rare), stats.StrangeMost-1)], at, r)
	}
}

// explain finds the features that lca_why names for each row of the queue, and those of the rare rows.
func (t *Transform) explain(ctx context.Context, w *encode.Whitened) error {
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

func guilty(gains []lca.Gain, features []string) []stats.Guilty {
	named := make([]stats.Guilty, len(gains))
	for i, gain := range gains {
		named[i] = stats.Guilty{Feature: features[gain.Column], Nats: float32(min(gain.Nats, math.MaxFloat32))}
	}
	return named
}

// eachSlice hands over the rows of the queue again, slice by slice as float64, from row first on.
func (t *Transform) eachSlice(ctx context.Context, take func(first int, x []float64, n int)) error {
	q, d := &t.queue, t.model.Model.Dim
	if q.sliced != nil {
		return reject.GatherEach(&t.Features, &q.read, q.sliced.Record, func(first int) error {
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

// tell takes the strangest rows of a message to the page.
func (t *Transform) tell(p *pending, w *encode.Whitened) {
	q, m, each := &t.queue, p.message, min(namedFeatures, w.K)
	from, _ := slices.BinarySearchFunc(q.rare, p.first, func(r rare, row int) int { return cmp.Compare(r.row, row) })
	for i := from; i < len(q.rare) && q.rare[i].row < p.last; i++ {
		if r := &q.rare[i]; t.counts.strange.Takes(r.p, r.score) {
			t.counts.strange = t.counts.strange.With(t.strange(m, r.row-p.first, r, q.gains[i*each:(i+1)*each], w.Features))
		}
	}
}

// strange is a row that is told of in addition to the output.
func (t *Transform) strange(m *source.Message, row int, r *rare, gains []lca.Gain, features []string) stats.Strange {
	s := stats.Strange{
		Time: source.Calendar(m.Time), Partition: m.Partition, Offset: m.Offset, Row: row, ModelID: t.model.ModelID, Version: t.model.Version,
		Score: r.score, P: r.p, LeastP: float32(t.model.Model.Scores.Told()), Why: guilty(gains, features),
	}
	if s.Time.IsZero() {
		s.Time = t.Now()
	}
	return s
}

// imputes reports whether missing features are filled.
func (c *TransformConfig) imputes() bool { return c.OnInvalid == reject.ImputeRow }

// noteMissing takes in how many features the rows that have just been gathered lack, the last ones of the queue. What they lack will
// be filled, so it is no reason for them to be null.
func (q *queue) noteMissing() {
	reasons := q.invalid[len(q.invalid)-q.read.N:]
	for i := range reasons {
		missing := min(q.read.Missing(i), math.MaxInt16)
		q.missing = append(q.missing, int16(missing))
		if missing > 0 {
			reasons[i] = minibatch.ReasonNone
		}
	}
}

// noneMissing is noteMissing for rows that are whitened from where they lie.
func (q *queue) noneMissing(rows int) {
	n := len(q.missing)
	q.missing = slices.Grow(q.missing, rows)[:n+rows]
	clear(q.missing[n:])
}

// fill replaces what is missing in gathered rows.
func (t *Transform) fill(ctx context.Context, x []float64, n int) error {
	if !t.imputes() {
		return nil
	}
	return t.scorer.Impute(ctx, x, n)
}

// imputed returns how many features of each row of the queue have been filled, and counts the rows. A row that turned out to be
// null has none.
func (t *Transform) imputed() []int16 {
	q := &t.queue
	if !t.imputes() {
		return nil
	}
	filled := t.made.filled.take(q.rows)
	for i, n := range q.missing {
		if q.invalid[i] != minibatch.ReasonNone {
			n = 0
		}
		filled[i] = n
		if n > 0 {
			t.counts.imputed++
		}
	}
	return filled
}
