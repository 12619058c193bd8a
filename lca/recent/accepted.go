package recent

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
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
	Turn   uint64 // the number of the acceptance, from 1 on
	Until  int64  // the time of the last row that is meant, in ms since the epoch; 0: it is not known
	Reason string
}

// mostAccepted bounds the acceptances that evaluators carry; the oldest make room. A whole plant may change at once; more would not fit into the metadata of a chunk.
const mostAccepted = 1024

// AcceptedSince returns why what a series has shown from a time on, in ms since the epoch, is normal, if it was not yet to an evaluator of that turn; "" where it has not been accepted
// since. A time of 0 is not known.
func (e *Evaluator) AcceptedSince(turn, series uint64, from int64) (reason string) {
	for _, a := range e.Accepted {
		if a.Series == series && a.Turn > turn && (a.Until == 0 || from <= a.Until) {
			reason = a.Reason
		}
	}
	return reason
}

// accepts adds an acceptance in the place of an older one of the series.
func (l *Learner) accepts(one Stretch, reason string) {
	l.accepted = slices.DeleteFunc(slices.Clone(l.accepted), func(a Acceptance) bool { return a.Series == one.Series })
	l.turn++
	l.accepted = append(l.accepted, Acceptance{one.Series, l.turn, one.Until, reason})
	l.accepted = l.accepted[max(0, len(l.accepted)-mostAccepted):]
}

// Stretch is rows of a series, which came one after the other.
type Stretch struct {
	Series uint64
	Until  int64   // as in Acceptance
	State  *Series // nil: what is accepted is over, or the series is not kept
	Rows   []float64
}

// Accept says that the rows of some series are normal, and freezes an evaluator that says so of these series, if there is a reason to tell. whole: they are what the
// stream is now. Then, if they are enough for that, the learner begins again with them: what it knew of scores is not true of few rows. Otherwise they join what was
// learnt. There may be none. The states of the series begin again.
func (l *Learner) Accept(all []Stretch, reason string, whole bool) {
	rows, turns := inTurn(all, l.dim)
	known := 0 // of the rows, have means that are learnt
	for _, one := range all {
		known += max(0, len(one.Rows)/l.dim-unlike)
	}
	whole = whole && uint64(known) >= LeastRows(l.dim)
	if whole {
		l.again(rows, turns)
	} else {
		l.join(rows, turns)
	}
	for _, one := range all {
		if reason != "" {
			l.accepts(one, reason)
		}
		if one.State != nil {
			if !whole && !one.State.joined {
				l.joined++
			}
			*one.State = Series{joined: !whole, others: l.others}
		}
	}
	l.freeze()
}

// inTurn puts rows in an order in which those of each series come one after the other, and the series in turn.
func inTurn(all []Stretch, dim int) (rows []float64, turns []*Series) {
	of := make([]Series, len(all))
	for at, more := 0, true; more; at++ {
		more = false
		for i, one := range all {
			if at < len(one.Rows)/dim {
				rows, turns, more = append(rows, one.Rows[at*dim:][:dim]...), append(turns, &of[i]), true
			}
		}
	}
	return rows, turns
}

// again begins again with rows.
func (l *Learner) again(rows []float64, series []*Series) {
	next := NewLearner(l.dim)
	next.accepted, next.turn, next.joined, next.others, next.normal = l.accepted, l.turn, l.joined, l.others, true
	for len(series) > 0 {
		n := min(firstEvaluator, len(series))
		next.Learn(rows[:n*l.dim], series[:n])
		rows, series = rows[n*l.dim:], series[n:]
	}
	next.normal = l.normal
	*l = *next
}

// join adds rows to the moments: as many as those of all series that have not joined, or of another that has.
func (l *Learner) join(rows []float64, series []*Series) {
	if len(series) == 0 {
		return
	}
	l.scorer.follow(l.newest, rows, series)
	share, most := 1/float64(l.joined+2), l.memory()+memory
	l.weights = linalg.Resize(l.weights, len(series))
	for i := range l.weights {
		l.weights[i] = 1
	}
	l.rows.join(l.scorer.x, l.weights, share, most, &l.scorer.work)
	for i, rows := range l.scorer.counts {
		l.weights[i] = 1
		if rows <= unlike {
			l.weights[i] = 0
		}
	}
	l.charts.join(l.scorer.z, l.weights, share, most, &l.scorer.work)
}

// memory is the largest number of rows that the moments stand for. Each series that has joined weighs as many as all others: these are to be forgotten no sooner for it.
func (l *Learner) memory() float64 { return memory * float64(l.joined+1) }

// owedRate is the share of what a series that has joined is owed that its next row gets.
const owedRate = 0.01

// weigh returns the weight of a row, of which its score allows w. The rows of a series that has joined weigh as many as those of all that have not: it is one of many, and would be forgotten.
func (l *Learner) weigh(s *Series, w float64) float64 {
	if !s.joined {
		l.others += w
		return w
	}
	owed := owedRate * (l.others - s.others)
	if s.others += owed; s.hold.Open {
		return w
	}
	return w * max(1, owed)
}

const (
	goesOn      = 200  // rows that tell whether a change goes on
	goesOnShare = 0.03 // of them that are not usual: in usual rows it is one in a hundred, and those of a slow stream hardly differ from each other
)

// Unusual reports whether the last of some rows, which came one after the other, are unusual by themselves: the means of a series know of a fault for a while
// when it is over.
func (l *Learner) Unusual(rows []float64) bool {
	rows = rows[max(0, len(rows)-goesOn*l.dim):]
	n := len(rows) / l.dim
	if n < FirstRows+runEnds {
		return true
	}
	var s Series
	turns, scores := make([]*Series, n), make([]float64, n)
	for i := range turns {
		turns[i] = &s
	}
	l.scorer.Score(l.newest, scores, rows, turns)
	high, level := 0, l.usual
	for _, score := range scores[FirstRows:] {
		if score > level {
			high++
		}
	}
	return float64(high) > goesOnShare*float64(n-FirstRows)
}

// Back goes back to what an evaluator knew.
func (l *Learner) Back(e *Evaluator) {
	was := *l
	if back := Resume(e); back.newest != nil {
		*l = *back
	}
	l.accepted, l.turn, l.joined, l.others, l.normal = was.accepted, was.turn, was.joined, was.others, was.normal
	l.freeze()
}

// Return goes back to what an evaluator knew, which a series shows again. The state of the series begins again.
func (l *Learner) Return(one Stretch, e *Evaluator) {
	l.Back(e)
	l.accepts(one, Returned)
	if one.State != nil {
		*one.State = Series{}
	}
	l.freeze()
}

func writeAccepted(w *state.Writer, all []Acceptance) {
	w.Count(len(all))
	for _, a := range all {
		w.U64(a.Series)
		w.U64(a.Turn)
		w.U64(uint64(a.Until))
		w.Count(slices.Index(reasons, a.Reason))
	}
}

func readAccepted(r *state.Reader) (all []Acceptance) {
	for range r.Count(32) {
		all = append(all, Acceptance{r.U64(), r.U64(), int64(r.U64()), reasons[min(r.U64(), uint64(len(reasons)-1))]})
	}
	return all
}

// hold is a stretch of rows of a series that are unusual.
type hold struct {
	Watch
	usual float64 // up to which scores are usual, as known when it began
}

// follow takes the score of the next row.
func (h *hold) follow(score, level, usual float64) {
	if !h.Open {
		if !(score > level) {
			return
		}
		h.usual = usual
	}
	h.Step(score, level, h.usual)
}

// usualShare of the scores of rows are those of usual rows.
const usualShare = 0.99

// Usual is the score below which rows are usual: the 99 % quantile of scores, or one of the tail's, where faulty rows are more than one in a hundred.
func (e *Evaluator) Usual() float64 { return math.Min(e.Scores.Quantile(usualShare), e.Tail.Above) }
