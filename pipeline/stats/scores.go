package stats

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// scoreBounds are the upper bounds of the buckets for lca_p: fine where alarms are.
var scoreBounds = [...]float64{1e-12, 1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1}

// ScoreBounds are the upper bounds of the buckets of Stats.Scores. No row is beyond the last.
func ScoreBounds() []float64 { return slices.Clone(scoreBounds[:]) }

// ScoreCounts counts the rows of a batch by lca_p.
type ScoreCounts struct {
	buckets [len(scoreBounds)]uint64
	sum     float64
}

// Add counts a row, unless its probability is not a number.
func (c *ScoreCounts) Add(p float64) {
	for i := len(scoreBounds) - 1; i >= 0; i-- { // most rows are in the last buckets
		if i > 0 && p <= scoreBounds[i-1] {
			continue
		}
		if p == p {
			c.buckets[i]++
			c.sum += p
		}
		return
	}
}

// scoreHistogram counts the rows of a process by lca_p.
type scoreHistogram struct {
	buckets [len(scoreBounds)]atomic.Uint64
	sum     atomic.Uint64 // bits of the sum
}

func (h *scoreHistogram) keep(c *ScoreCounts) {
	for i, n := range c.buckets {
		if n > 0 {
			h.buckets[i].Add(n)
		}
	}
	for c.sum > 0 {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+c.sum)) {
			return
		}
	}
}

// Scores returns how many whitened rows have their lca_p in each bucket of ScoreBounds, and the sum of all lca_p.
func (s *Stats) Scores() (sum float64, buckets []uint64) {
	buckets = make([]uint64, len(scoreBounds))
	for i := range buckets {
		buckets[i] = s.scores.buckets[i].Load()
	}
	return math.Float64frombits(s.scores.sum.Load()), buckets
}

// Strange is a whitened row with an unusual score, and why it has it.
type Strange struct {
	Time      time.Time // timestamp of its record, see source.Calendar
	Partition source.Partition
	Offset    int64
	Row       int // place within its record
	ModelID   string
	Version   uint64 // of the model that has scored it
	Score     float32
	P         float32
	LeastP    float32  // what the scores of that model can tell: a smaller P is its tail's guess
	Why       []Guilty // the largest first
}

// Guilty is a feature, and how many nats the score would fall by if it had its best other value.
type Guilty struct {
	Feature string  `json:"feature"`
	Nats    float32 `json:"nats"`
}

const (
	// strangeSpan is the time for which strange rows are collected together, strangeSpans is how many such times are
	// kept, and StrangeMost is how many rows of each.
	strangeSpan  = time.Minute
	strangeSpans = 5
	StrangeMost  = 10
)

// Stranger orders rows by their probability, and where that is the least there is by their score.
func Stranger(p, score, otherP, otherScore float32) int {
	return cmp.Or(cmp.Compare(p, otherP), cmp.Compare(otherScore, score))
}

// StrangeRows are the strangest rows of a batch or of a time, the strangest first; at most StrangeMost.
type StrangeRows []Strange

func byStrangeness(a, b Strange) int { return Stranger(a.P, a.Score, b.P, b.Score) }

// Takes reports whether a row would be among them.
func (s StrangeRows) Takes(p, score float32) bool {
	return len(s) < StrangeMost || Stranger(p, score, s[len(s)-1].P, s[len(s)-1].Score) < 0
}

// With returns them with one more, without the last where there are too many.
func (s StrangeRows) With(row Strange) StrangeRows {
	at, _ := slices.BinarySearchFunc(s, row, byStrangeness)
	s = slices.Insert(s, at, row)
	return s[:min(len(s), StrangeMost)]
}

// strangest holds the strangest rows of the last minutes. What it points to is never changed.
type strangest struct{ spans atomic.Pointer[[]strangeTime] }

// strangeTime is the strangest rows of one time.
type strangeTime struct {
	number int64 // of the time
	rows   StrangeRows
}

func timeNumber(now time.Time) int64 { return now.UnixNano() / int64(strangeSpan) }

// at returns the rows of the present time.
func (s *strangest) at(now time.Time) StrangeRows {
	if spans := s.spans.Load(); spans != nil {
		if last := (*spans)[len(*spans)-1]; last.number >= timeNumber(now) {
			return last.rows
		}
	}
	return nil
}

// add takes rows into the present time.
func (s *strangest) add(now time.Time, rows StrangeRows) {
	for len(rows) > 0 {
		was := s.spans.Load()
		var spans []strangeTime
		if was != nil {
			spans = slices.Clone(*was)
		}
		if n := len(spans); n == 0 || spans[n-1].number < timeNumber(now) {
			spans = append(spans, strangeTime{number: timeNumber(now)})
		}
		spans = spans[max(0, len(spans)-strangeSpans):]
		last := &spans[len(spans)-1]
		last.rows = slices.Clone(last.rows)
		for _, row := range rows {
			last.rows = last.rows.With(row)
		}
		if s.spans.CompareAndSwap(was, &spans) {
			return
		}
	}
}

// Strangest returns the rows with the least lca_p of the last five minutes, the strangest first: ten of each minute, or
// fewer.
func (s *Stats) Strangest(now time.Time) []Strange {
	var all []Strange
	if spans := s.strangest.spans.Load(); spans != nil {
		for _, one := range *spans {
			if one.number > timeNumber(now)-strangeSpans {
				all = append(all, one.rows...)
			}
		}
	}
	slices.SortStableFunc(all, byStrangeness)
	return all
}
