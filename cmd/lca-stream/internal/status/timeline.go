package status

import (
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
)

// Bounds of the timeline: it begins with one moment per second, and has 64 minutes of one per 16 seconds in the end.
const (
	timelineMoments = 240
	timelineFinest  = time.Second
	timelineCoarse  = 16 * time.Second
)

// timeline keeps running counts of the last hour, so that the page has a past when it is opened.
type timeline struct {
	mu      sync.Mutex // guards the fields below; never held while waiting
	every   time.Duration
	moments []moment
}

// moment is what was counted until then.
type moment struct {
	time     time.Time
	in, out  uint64 // rows
	lag      int64  // records
	learns   bool   // a learner has begun
	alarms   uint64 // of its drift
	dead     uint64 // records set aside
	rejected uint64 // rows
	aborted  uint64 // transactions
	scored   uint64 // rows with a lca_p
	rare     uint64 // rows with a lca_p of at most pipeline.RareRow
	strange  uint64 // rows with a lca_p below alarms.p_below
}

func momentOf(s *pipeline.Stats, now time.Time) moment {
	t := s.Tables()
	m := moment{
		time: now, in: s.SourceRows.Load(), out: s.TransformRows.Load(),
		dead: total(t.DeadLetters), rejected: total(t.Rejected), aborted: s.TransactionsAborted.Load(), strange: s.AnomalyRows.Load(),
	}
	for _, n := range t.Lag {
		m.lag += n
	}
	_, counts := s.Scores()
	for i, bound := range pipeline.ScoreBounds() {
		m.scored += counts[i]
		if bound <= pipeline.RareRow {
			m.rare += counts[i]
		}
	}
	if l := s.Learning(); l != nil {
		m.learns, m.alarms = true, l.Alarms
	}
	return m
}

func total(by map[string]uint64) (sum uint64) {
	for _, n := range by {
		sum += n
	}
	return sum
}

// add keeps a moment, unless it comes too soon after the last. When there is no room left, every second moment goes
// until they are coarse enough, and from then on the oldest.
func (t *timeline) add(m moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.every = max(t.every, timelineFinest)
	n := len(t.moments)
	if n > 0 && m.time.Sub(t.moments[n-1].time) < t.every-timelineFinest/2 { // a ticker is not exact
		return
	}
	if n == timelineMoments {
		t.thin()
	}
	t.moments = append(t.moments, m)
}

func (t *timeline) thin() {
	if t.every == timelineCoarse {
		t.moments = append(t.moments[:0], t.moments[1:]...)
		return
	}
	t.every *= 2
	kept := t.moments[:0]
	for i := 0; i < len(t.moments); i += 2 {
		kept = append(kept, t.moments[i])
	}
	t.moments = kept
}

// since returns the moments of the last hour, oldest first.
func (t *timeline) since(now time.Time) []moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, m := range t.moments {
		if now.Sub(m.time) <= time.Hour {
			return append([]moment(nil), t.moments[i:]...)
		}
	}
	return nil
}

// run adds a moment per second until done is closed.
func (t *timeline) run(s *pipeline.Stats, done <-chan struct{}) {
	tick := time.NewTicker(timelineFinest)
	defer tick.Stop()
	for {
		t.add(momentOf(s, time.Now()))
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// Throughput is what happened between two moments.
type Throughput struct {
	Time time.Time `json:"time"` // the later of the two
	In   Rough     `json:"in_per_second"`
	Out  Rough     `json:"out_per_second"`
	Lag  int64     `json:"lag_records"` // at that time
}

func throughput(all []moment) []Throughput {
	out := make([]Throughput, 0, len(all))
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		seconds := b.time.Sub(a.time).Seconds()
		out = append(out, Throughput{Time: b.time, In: Rough(float64(b.in-a.in) / seconds), Out: Rough(float64(b.out-a.out) / seconds), Lag: b.lag})
	}
	return out
}
