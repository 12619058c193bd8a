package transform

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
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
			r := rare{row: i, p: p, score: score, alarm: t.Alarms.below(p)}
			if r.alarm {
				t.counts.anomalies++
			}
			if known.Takes(p, score) && t.counts.strange.Takes(p, score) {
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
	at, _ := slices.BinarySearchFunc(q.shown, r, func(a, b rare) int { return stats.Stranger(a.p, a.score, b.p, b.score) })
	if at < stats.StrangeMost {
		q.shown = slices.Insert(q.shown[:min(len(q.shown), stats.StrangeMost-1)], at, r)
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

// Alarms says where events go that an operator should know of, as records of their own.
type Alarms struct {
	Topic     string  // "" = nowhere
	Partition int32   // partition of Topic that records with the key ModelID go to
	ModelID   string  // key of the records
	PBelow    float64 // each row whose lca_p is below this is an event; 0 = none

	To func(id string) int32 // the partition for a key, as Kafka's own clients choose it; nil where there is one model for all rows
}

// AlarmBytes is the smallest max.message.bytes with which a topic takes every alarm: names are cut for it.
const AlarmBytes = 32 << 10

const (
	// nameBytes is how long a feature's name in an alarm is at most. In JSON it may be six times as long.
	nameBytes = 120

	// The types of alarms.
	AlarmDrift    = "drift"
	AlarmReturned = "regime_returned"
	AlarmModel    = "model_changed"
	AlarmAnomaly  = "anomaly"
)

// Alarm is the value of an alarm's record. Fields that an event does not have are null.
type Alarm struct {
	Type    string         `json:"type"`
	Time    time.Time      `json:"time"`
	ModelID string         `json:"model_id"`
	Version uint64         `json:"version"`
	Source  reject.Place   `json:"source"`
	Score   *float32       `json:"score"`
	P       *float32       `json:"p"`
	Why     []stats.Guilty `json:"why"`
	Message string         `json:"message"`
}

// below reports whether a probability is an event.
func (a *Alarms) below(p float32) bool { return a.Topic != "" && float64(p) < a.PBelow }

// scores reports whether scores are needed to tell which rows are events.
func (a *Alarms) scores() bool { return a.Topic != "" && a.PBelow > 0 }

// bytes is about the size of the record of a row, with what a message takes.
func (a *Alarms) bytes(features []string) int64 {
	if !a.scores() {
		return 0
	}
	const fixed, entry = 600, 40
	longest := 0
	for _, name := range features {
		longest = max(longest, min(len(name), nameBytes))
	}
	return int64(fixed + min(namedFeatures, len(features))*(entry+longest))
}

// Message makes the record of an event.
func (a *Alarms) Message(event Alarm) sink.Message {
	event.Time = source.Calendar(event.Time)
	event.ModelID = a.ModelID
	if event.Why == nil {
		event.Why = []stats.Guilty{}
	}
	value, err := json.Marshal(event)
	if err != nil {
		panic("pipeline: alarm: " + err.Error()) // a time or a number that JSON does not have
	}
	return sink.Message{Topic: a.Topic, Partition: a.Partition, Key: []byte(a.ModelID), Value: value, Headers: []source.Header{reject.Text(reject.ContentType, "application/json")}}
}

// shortName is the name of a feature, cut at nameBytes.
func shortName(name string) string {
	if len(name) <= nameBytes {
		return name
	}
	return strings.ToValidUTF8(name[:nameBytes], "") + "…"
}

// anomaly makes the record of a row.
func (a *Alarms) anomaly(s *stats.Strange) sink.Message {
	why := slices.Clone(s.Why)
	for i := range why {
		why[i].Feature = shortName(why[i].Feature)
	}
	return a.Message(Alarm{
		Type: AlarmAnomaly, Time: s.Time, Version: s.Version,
		Source: reject.Place{Topic: s.Partition.Topic, Partition: s.Partition.ID, Offset: s.Offset, Row: &s.Row},
		Score:  &s.Score, P: &s.P, Why: why,
		Message: fmt.Sprintf("a row has a score of %.4g, which is reached by %.2g of rows like those learnt", s.Score, s.P),
	})
}

// tell makes the alarms of a message's rows, and takes the strangest of them to the page. It returns why the message is set
// aside if there are too many.
func (t *Transform) tell(p *pending, w *encode.Whitened) *source.RecordError {
	q, m, each := &t.queue, p.message, min(namedFeatures, w.K)
	q.alarms = q.alarms[:0]
	size := 0
	from, _ := slices.BinarySearchFunc(q.rare, rare{row: p.first}, inOrder)
	for i := from; i < len(q.rare) && q.rare[i].row < p.last; i++ {
		r := &q.rare[i]
		s := t.strange(m, r.row-p.first, r, q.gains[i*each:(i+1)*each], w.Features)
		if r.alarm {
			a := t.Alarms.anomaly(&s)
			q.alarms = append(q.alarms, a)
			size += a.Size()
			if bad := tooManyAlarms(m, size); bad != nil {
				return bad
			}
		}
		if r.shown && t.counts.strange.Takes(s.P, s.Score) {
			t.counts.strange = t.counts.strange.With(s)
		}
	}
	return nil
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

// tooManyAlarms refuses a message with alarms of more than MostWhitened bytes.
func tooManyAlarms(m *source.Message, size int) *source.RecordError {
	if size <= encode.MostWhitened {
		return nil
	}
	return reject.Bad(m, reject.CodeOutputTooLarge, fmt.Errorf("the alarms of its rows take more than %d bytes; send fewer rows per message, or lower alarms.p_below", encode.MostWhitened))
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
