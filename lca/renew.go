package lca

import (
	"math"
	"slices"
)

// renewal is what follows a drift alarm: the stream starts again, as a fresh one does. Rows are
// collected as for a warm-up, and the metric in force stays until there are enough of them; they
// then give the scales, μ, C_G, the pool and, all directions Parzen, the first metric.
//
// To go on from what there was costs more than it saves. The old neighbours are all far from the
// new rows, so λ says nothing, C_L comes out wider than C_G, and LCA-Gauss gives up directions that
// it never takes back; and C_G of both times together is of neither.
//
// What raised the alarm may be over by then, as a burst of odd rows is. The minibatches after the
// first tell: where they fit the metric in force as those before the alarm did, nothing happens.
type renewal struct {
	minibatches uint64  // collected; 0 = none is under way
	nll         float64 // sum over all but the first under the metric in force
	was         drift   // before the alarm
}

// renew collects a minibatch after an alarm, and starts again when there are enough.
func (l *Learner) renew(rows []float64, ids []uint64, s Step) (Step, error) {
	r, w, d := &l.renewal, &l.warm, l.cfg.Dim
	if s.Alarm {
		l.refit.drop()
		*w = warmup{}
	} else {
		r.nll += s.NLL
	}
	r.minibatches++
	w.rows, w.ids = append(w.rows, rows...), append(w.ids, ids...)
	s.Learnt, s.Gated, s.Warmup = 0, s.Rows-len(ids), true
	l.tally(&s)
	want := l.cfg.warmupRows()
	if len(w.ids) < want || r.minibatches < 2 {
		return s, nil
	}
	if r.over() {
		l.drift, l.renewal, l.warm = r.was, renewal{}, warmup{}
		return s, nil
	}
	kept := screen(w.rows, d)
	first, ids := pick(w.rows, w.ids, kept, d)
	fresh := newGlobals(l.cfg.globalMemory(), d)
	fresh.start(first)
	if len(frameOf(fresh, l.cfg.NuUnit).active) == 0 { // nothing moves: keep the newest rows
		drop := max(0, len(w.ids)-want)
		w.rows, w.ids = slices.Clone(w.rows[drop*d:]), slices.Clone(w.ids[drop:])
		return s, nil
	}
	s.Gated = len(w.ids) - len(kept)
	l.counts.Gated += uint64(s.Gated)
	l.counts.Since = 0
	l.globals, l.pool = fresh, newPool(l.cfg.Pool, l.cfg.Neighbours, d, l.cfg.Seed)
	clear(l.cl)
	l.split, l.renewal, l.warm = false, renewal{}, warmup{}
	return l.start(first, ids, s)
}

// over says whether the minibatches after the alarm would not have raised it.
func (r *renewal) over() bool {
	mean := r.nll / float64(r.minibatches-1)
	return mean <= r.was.mean+driftAlarm*math.Sqrt(r.was.variance)
}
