package transform

import (
	"math"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// lastRows is memory for what scores the last rows of series.
type lastRows struct {
	scorer recent.Scorer
	series []*recent.Series
	held   []*heldSeries   // the same
	places []episode.Place // of rows, where episodes are watched for
	rows   []float64       // those of the batch that are valid
	at     []int           // where they are in the batch
	scores []float64
}

// lastRows scores rows x of the queue, the first of which has that number, each as the next row of its series. A row that is invalid moves no series on.
func (t *Transform) lastRows(w *encode.Whitened, x []float64, first int) {
	if w.Recent == nil {
		return
	}
	r, d := &t.recent, w.K
	r.series, r.rows, r.at = r.series[:0], r.rows[:0], r.at[:0]
	r.held, r.places = r.held[:0], r.places[:0]
	of := turns{t: t}
	defer of.values.Release()
	for i := range len(x) / d {
		w.Recent[first+i], w.RecentP[first+i] = 0, 0
		if t.queue.invalid[first+i] != minibatch.ReasonNone {
			continue
		}
		one := of.row(first + i)
		t.accepted(one)
		r.series = append(r.series, &one.Series)
		if t.rates != nil {
			r.held, r.places = append(r.held, one), append(r.places, of.place(first+i))
		}
		r.rows, r.at = append(r.rows, x[i*d:(i+1)*d]...), append(r.at, first+i)
	}
	r.scores = slices.Grow(r.scores[:0], len(r.at))[:len(r.at)]
	e := t.model.Model.Recent
	r.scorer.Score(e, r.scores, r.rows, r.series)
	for i, at := range r.at {
		w.Recent[at] = float32(min(r.scores[i], math.MaxFloat32))
		w.RecentP[at] = float32(e.P(float64(w.Recent[at]), r.scorer.Rows(i)))
	}
	if t.rates != nil {
		t.watch(w)
	}
}

// young leaves of the rows of the queue what a model knows that is young, and has no W yet: the scores of their last rows. All else is null.
func (t *Transform) young(w *encode.Whitened) {
	q := &t.queue
	w.NoRecent = make([]bool, q.rows)
	for i, reason := range q.invalid {
		w.NoRecent[i] = w.Recent == nil || reason != minibatch.ReasonNone
		if reason == minibatch.ReasonNone {
			q.invalid[i] = minibatch.ReasonYoung
		}
	}
	w.Invalid, w.Imputed = q.invalid, t.imputed()
	if t.Output.P { // rows of one message may have other models
		w.P = t.made.numbers.take(q.rows)
		clear(w.P)
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

// watch tells episodes by the scores of rows.
func (t *Transform) watch(w *encode.Whitened) {
	r, e := &t.recent, t.model.Model.Recent
	var now episode.Mark
	for i, one := range r.held {
		at, say := r.at[i], ""
		if i == 0 || r.places[i].Offset != now.Offset {
			now = t.rates.At(r.places[i].Offset)
		}
		if one.heard = now.Elapsed; r.scorer.Rows(i) > recent.FirstRows { // the level is of the scores of means
			was := one.episode.Watch.Open
			say = one.episode.Step(r.places[i], float64(w.Recent[at]), float64(w.RecentP[at]), t.level(now.Rate))
			if !was {
				one.model, one.turn = t.model.ModelID, e.Turn
			}
			if t.judged != nil {
				t.judged(Judged{one.name, r.places[i], float64(w.Recent[at]), e, now.Rate})
			}
		}
		cause := r.scorer.Account(e, i, &one.Series, one.episode.Watch.Open, float64(w.Recent[at]), one.cause)
		open := &one.episode
		if open.Watch.Open && open.EndsHere() {
			cause.Ends()
		}
		if say == "" && open.Watch.Open && open.Tellable(float64(w.Recent[at])) && cause.Moved(e) {
			say = open.Tell()
		}
		if say != "" {
			if cause != nil {
				one.names(cause.Now(e, namedCauses), w.Features)
			} else {
				one.names(one.cause.Ranked(e, namedCauses), w.Features)
			}
			t.series.say(one, say, "", t.model.Version, r.places[i].Time)
		}
		if one.cause = cause; one.episode.Watch.Open {
			if w.Episode == nil {
				w.Episode = make([]string, t.queue.rows)
			}
			if one.id == "" {
				one.id = t.episodeID(one.model, t.queue.partition(), one.name, one.episode.From)
			}
			w.Episode[at] = one.id
		}
	}
}

// names keeps the columns that have changed, for the next record of the episode.
func (h *heldSeries) names(changes []recent.Change, features []string) {
	h.causes, h.traced = causesOf(changes, features), h.traced[:0]
	for _, c := range changes[:min(len(changes), tracedCauses)] {
		h.traced = append(h.traced, c.Column)
	}
}

// level is at which scores of the model open an episode, at a rate of false ones per row.
func (t *Transform) level(rate float64) episode.Level {
	e, c := t.model.Model.Recent, &t.levels
	if c.of != e || c.rate != rate {
		height, young := math.Inf(1), true
		if rate > 0 {
			height, young = e.Tail.Level(rate)
		}
		*c = levels{e, rate, episode.Level{Height: height, Usual: e.Usual(), Young: young}}
	}
	return c.Level
}

// tracedCauses is of how many columns the page draws how they have gone.
const tracedCauses = 3

// namedCauses is the largest number of columns that a record of an episode names.
const namedCauses = 16

// levels is what a model's levels are at a rate.
type levels struct {
	of   *recent.Evaluator
	rate float64
	episode.Level
}

// turns finds the series of rows of the queue, one after the other.
type turns struct {
	t       *Transform
	message int // of the queue
	read    bool
	values  modelkey.Values // of the message, where a column has them
	held    *heldSeries     // of the message, or of the row before
	same    string          // value of the row before
	known   bool            // … which has one
}

// place is the place of the row that row was called with last.
func (o *turns) place(row int) episode.Place {
	q := &o.t.queue
	m, at := q.ofMessage, 0
	if q.series != nil {
		at = q.ofFirst + q.ofRows[row]
	} else {
		p := &q.pending[o.message]
		m, at = p.message, row-p.first
	}
	if o.t.placeOf != nil {
		return o.t.placeOf(at)
	}
	return episode.Place{Offset: m.Offset, Row: at, Time: stampOf(m)}
}

// partition is that of the rows of the queue.
func (q *queue) partition() source.Partition {
	if q.series != nil {
		return q.ofMessage.Partition
	}
	return q.pending[0].message.Partition
}

// stampOf is the time of a message's rows; nil: it has none.
func stampOf(m *source.Message) *time.Time {
	ms := m.Stamp()
	if ms == 0 {
		return nil
	}
	at := time.UnixMilli(ms).UTC()
	return &at
}

func (o *turns) row(row int) *heldSeries {
	t := o.t
	q := &t.queue
	if q.series != nil {
		t.series.heard(q.series, q.series.offset, q.ofFirst+q.ofRows[row], t.of)
		return q.series
	}
	for row >= q.pending[o.message].last {
		o.message++
		o.values.Release()
		o.read, o.held = false, nil
	}
	p := &q.pending[o.message]
	m := p.message
	if t.Series.Place != modelkey.Column {
		if o.held == nil {
			o.held = t.series.touch(t.Series.Whole(m), m.Offset, 0, t.of)
		}
		return o.held
	}
	if !o.read {
		o.values, _ = t.Series.Column(m.Record) // what cannot be read is no value
		o.read = true
	}
	value, ok := o.values.Whole(row - p.first)
	switch {
	case o.held != nil && ok == o.known && value == o.same:
		t.series.heard(o.held, m.Offset, row-p.first, t.of)
	case ok:
		o.held = t.series.touch([]byte(value), m.Offset, row-p.first, t.of)
	default:
		o.held = t.series.touch(nil, m.Offset, row-p.first, t.of)
	}
	o.same, o.known = value, ok
	return o.held
}
