package recent

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// The reasons why what a series shows is normal from now on.
const (
	Accepted = "accepted" // someone said so
	Aged     = "age"      // it has lasted long enough
	Returned = "returned" // a former regime is back
)

var reasons = []string{Accepted, Aged, Returned}

// Acceptance says that what was unusual of a series is normal from a row on.
type Acceptance struct {
	Series uint64 // its identity
	Learnt uint64 // rows that the learner had learnt then
	Reason string
}

// mostAccepted bounds the acceptances that evaluators carry; the oldest make room.
const mostAccepted = 64

// AcceptedSince returns why what a series shows is normal, if it was not yet when the learner had learnt that number of rows; "" where it has not been accepted since.
func (e *Evaluator) AcceptedSince(learnt, series uint64) (reason string) {
	for _, a := range e.Accepted {
		if a.Series == series && a.Learnt > learnt {
			reason = a.Reason
		}
	}
	return reason
}

// accepts adds an acceptance in the place of an older one of the series.
func (l *Learner) accepts(series uint64, reason string) {
	l.accepted = slices.DeleteFunc(slices.Clone(l.accepted), func(a Acceptance) bool { return a.Series == series })
	l.accepted = append(l.accepted, Acceptance{series, l.learnt, reason})
	l.accepted = l.accepted[max(0, len(l.accepted)-mostAccepted):]
}

// Accept says that the rows, which came one after the other, are normal, and freezes an evaluator that says so of the series. all: they are the whole stream's, and replace what was learnt, if they are
// enough for that; otherwise they join it. There may be none.
func (l *Learner) Accept(series uint64, reason string, rows []float64, all bool) {
	d := l.dim
	n := len(rows) / d
	all = all && uint64(n) >= LeastRows(d)
	by, was := l.newest, l.newest
	if all {
		by, was = nil, nil // what is far from what was is not cut
		l.charts, l.rows = newMoments(3*d), newMoments(d)
	}
	var s Series
	turns := make([]*Series, n)
	for i := range turns {
		turns[i] = &s
	}
	l.scorer.follow(by, rows, turns)
	l.weights = slices.Grow(l.weights[:0], n)[:n]
	weight := 1.
	if !all && n > 0 { // of a share p of the moments is T² = (1−p)/p: as many that it is d/2, of 3d numbers
		weight = max(1, 2/float64(d)*l.rows.count/float64(n))
	}
	for i := range l.weights {
		l.weights[i] = weight
		if fillNulls(l.scorer.x[i*d:][:d], l.rows.mean) {
			l.weights[i] = 0
		}
		fillNulls(l.scorer.z[3*d*i:][:3*d], l.charts.mean)
	}
	l.rows.add(l.scorer.x, l.weights, &l.scorer.work)
	for i := range min(n, unlike) {
		l.weights[i] = 0
	}
	l.charts.add(l.scorer.z, l.weights, &l.scorer.work)
	l.accepts(series, reason)
	l.freezeAfter(was)
}

// Return goes back to what an evaluator knew, which a series shows again.
func (l *Learner) Return(series uint64, e *Evaluator) {
	learnt, accepted := max(l.learnt, e.Learnt), l.accepted
	if back := Resume(e); back.newest != nil {
		*l = *back
	}
	l.learnt, l.accepted = learnt, accepted
	l.accepts(series, Returned)
	l.freeze()
}

func writeAccepted(w *state.Writer, all []Acceptance) {
	w.Count(len(all))
	for _, a := range all {
		w.U64(a.Series)
		w.U64(a.Learnt)
		w.Count(slices.Index(reasons, a.Reason))
	}
}

func readAccepted(r *state.Reader) (all []Acceptance) {
	for range r.Count(24) {
		all = append(all, Acceptance{r.U64(), r.U64(), reasons[min(r.U64(), uint64(len(reasons)-1))]})
	}
	return all
}

// hold is a stretch of rows of a series that are unusual.
type hold struct {
	Watch
	usual float64 // up to which scores are usual, as known when it began
}

// follow takes the score of the next row.
func (h *hold) follow(score, level float64, e *Evaluator) {
	if !h.Open {
		if !(score > level) {
			return
		}
		h.usual = e.Usual()
	}
	h.Step(score, level, h.usual)
}

// usualShare of the scores of rows are those of usual rows.
const usualShare = 0.99

// Usual is the score below which rows are usual: the 99 % quantile of scores, or one of the tail's, where faulty rows are more than one in a hundred.
func (e *Evaluator) Usual() float64 { return math.Min(e.Scores.Quantile(usualShare), e.Tail.Above) }
