package status

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
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
	episodes uint64 // that were opened
}

func momentOf(s *stats.Stats, now time.Time) moment {
	t := s.Tables()
	m := moment{
		time: now, in: s.SourceRows.Load(), out: s.TransformRows.Load(),
		dead: total(t.DeadLetters), rejected: total(t.Rejected), aborted: s.TransactionsAborted.Load(), episodes: s.Episodes.Said()[stats.EpisodeOpened],
	}
	for _, n := range t.Lag {
		m.lag += n
	}
	_, counts := s.Scores()
	for i, bound := range stats.ScoreBounds() {
		m.scored += counts[i]
		if bound <= transform.RareRow {
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
func (t *timeline) run(s *stats.Stats, done <-chan struct{}) {
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

// noGain is the number of nats per row below which a model counts as no better than a Gaussian.
const noGain = 0.05

// rareTimes is how many times more rows as rare as pipeline.RareRow there may be than are expected until they are more than chance gives.
// That there are some is always said, because the list of the strangest rows shows them.
const rareTimes = 3

// What share of the newest rows must be unusable to be said in the first place, as the alert LcaStreamUnusableRows has it, and how many rows say what
// the share is.
const (
	unusableShare = 0.1
	unusableRows  = 100
)

// unusableLately returns the share of rows without a usable value among the newest, and their number; 0 where there are too few.
func unusableLately(past []moment) (share float64, rows uint64) {
	for i := len(past) - 2; i >= 0; i-- {
		a, b := past[i], past[len(past)-1]
		unusable := b.rejected - a.rejected
		if rows = b.out - a.out + unusable; rows >= unusableRows {
			return float64(unusable) / float64(rows), rows
		}
	}
	return 0, rows
}

// summary says in one sentence how things are. past are the moments of the last hour.
func summary(s *Status, past []moment, now time.Time) string {
	switch {
	case s.Ready.Waiting:
		return sentence(s.Ready.Reason)
	case !s.Ready.Ready:
		return sentence("not working: " + s.Ready.Reason)
	}
	parts := openEpisodes(s.Episodes)
	if s.Ready.Reason != "" {
		parts = append(parts, s.Ready.Reason)
	}
	if share, rows := unusableLately(past); share >= unusableShare {
		parts = append(parts, fmt.Sprintf("%.0f %% of the last %d rows have no usable value: see the log", 100*share, rows))
	}
	if s.Model != nil {
		parts = append(parts, structure(s.Model.structured(), s.Model.Dim, s.Model.Choice != nil && !s.Model.Choice.Beginning))
		nll, gaussian := s.Model.NLL, s.Model.GaussianNLL
		if s.Learner != nil {
			nll, gaussian = s.Learner.NLL, s.Learner.Gaussian
		}
		if gain := float64(gaussian - nll); !math.IsNaN(gain) {
			parts = append(parts, fit(gain))
		}
	}
	if skipped := float64(s.Rows.Skipped); skipped > 0 {
		share := fmt.Sprintf("%.0f", 100*skipped/(skipped+float64(s.Rows.Learnt)))
		if share == "0" {
			share = "less than 1"
		}
		parts = append(parts, share+" % of the rows were skipped by the learner, to keep up")
	}
	return sentence(strings.Join(append(parts, unusual(s, past, now)), "; "))
}

// openEpisodes says which episodes are open.
func openEpisodes(e *Episodes) []string {
	switch {
	case e == nil || e.Count == 0:
		return nil
	case e.Count == 1 && len(e.Open) == 1:
		return []string{"an episode is open: " + e.Open[0].Message}
	}
	return []string{fmt.Sprintf("%d episodes are open", e.Count)}
}

// structured is in how many directions structure has been found: none where every eigenvalue says that there is none, and one direction was kept all the same.
func (m *Model) structured() int {
	if len(m.Eigenvalues) > 0 && m.Eigenvalues[0] >= 1 {
		return 0
	}
	return m.Parzen
}

// structure says what has been found. Without a choice by the data, all directions are Parzen by assumption.
func structure(parzen, dim int, chosen bool) string {
	switch {
	case parzen == dim && !chosen:
		return fmt.Sprintf("all %d directions count as structure", dim)
	case parzen == 0:
		return fmt.Sprintf("none of %d directions carries structure", dim)
	case parzen == dim:
		return fmt.Sprintf("all %d directions carry structure", dim)
	case parzen == 1:
		return fmt.Sprintf("1 of %d directions carries structure", dim)
	}
	return fmt.Sprintf("%d of %d directions carry structure", parzen, dim)
}

func fit(gain float64) string {
	switch {
	case gain >= noGain:
		return fmt.Sprintf("%s nats per row better than a Gaussian", short(gain))
	case gain <= -noGain:
		return fmt.Sprintf("%s nats per row worse than a Gaussian", short(-gain))
	}
	return "no better than a Gaussian"
}

// short writes two significant digits.
func short(v float64) string { return fmt.Sprintf("%.*f", max(0, 1-int(math.Floor(math.Log10(v)))), v) }

// unusual says what happened in the last hour, or since the process began if that is later: it remembers nothing from before.
func unusual(s *Status, past []moment, now time.Time) string {
	when := "in the last hour"
	if up := time.Duration(float64(s.UptimeSeconds) * float64(time.Second)); up < time.Hour-time.Minute {
		when = "since this process began"
	}
	var said []string
	count := func(n uint64, one, many string) {
		switch {
		case n == 1:
			said = append(said, "1 "+one)
		case n > 1:
			said = append(said, fmt.Sprintf("%d %s", n, many))
		}
	}
	if len(past) > 0 {
		a, b := past[0], past[len(past)-1]
		if i := slices.IndexFunc(past, func(m moment) bool { return m.learns }); i >= 0 { // it has a past of its own when it begins
			count(b.alarms-past[i].alarms, "change of the data", "changes of the data")
		}
		count(b.dead-a.dead, "message set aside", "messages set aside")
		count(b.rejected-a.rejected, "row without a usable value", "rows without a usable value")
		count(b.aborted-a.aborted, "transaction repeated", "transactions repeated")
	}
	if len(past) > 0 {
		a, b := past[0], past[len(past)-1]
		count(b.episodes-a.episodes, "episode opened", "episodes opened")
		rare, expected := b.rare-a.rare, transform.RareRow*float64(b.scored-a.scored)
		count(rare, "row that the model expects once in 10,000", "rows that the model expects once in 10,000")
		switch {
		case rare == 0:
		case float64(rare) > rareTimes*expected:
			said[len(said)-1] += fmt.Sprintf(" (%s expected)", roughly(expected))
		default:
			said[len(said)-1] += fmt.Sprintf(", no more than chance gives (%s expected)", roughly(expected))
		}
	}
	if s.LastError != nil && now.Sub(s.LastError.Time) < time.Hour {
		said = append(said, "errors in the log")
	}
	switch {
	case len(said) == 0 && s.Learner != nil && len(s.Scores) == 0: // the transform in another process knows more
		return "nothing unusual " + when + ", but rows are not scored here"
	case len(said) == 0 && s.Episodes != nil && s.Episodes.Count > 0:
		return "nothing else is unusual " + when
	case len(said) == 0:
		return "nothing unusual " + when
	}
	return strings.Join(said, ", ") + " " + when
}

// roughly writes an expected number.
func roughly(n float64) string {
	if n < 1 {
		return fmt.Sprintf("%.1g", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// sentence begins with a capital and ends with a full stop.
func sentence(text string) string {
	text = strings.TrimSuffix(text, ".")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
