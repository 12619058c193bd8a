package pipeline

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

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
	// kept, and strangeMost is how many rows of each.
	strangeSpan  = time.Minute
	strangeSpans = 5
	strangeMost  = 10
)

// stranger orders rows by their probability, and where that is the least there is by their score.
func stranger(p, score, otherP, otherScore float32) int {
	return cmp.Or(cmp.Compare(p, otherP), cmp.Compare(otherScore, score))
}

// strangeRows are the strangest rows of a batch or of a time, the strangest first; at most strangeMost.
type strangeRows []Strange

func byStrangeness(a, b Strange) int { return stranger(a.P, a.Score, b.P, b.Score) }

// takes reports whether a row would be among them.
func (s strangeRows) takes(p, score float32) bool {
	return len(s) < strangeMost || stranger(p, score, s[len(s)-1].P, s[len(s)-1].Score) < 0
}

// with returns them with one more, without the last where there are too many.
func (s strangeRows) with(row Strange) strangeRows {
	at, _ := slices.BinarySearchFunc(s, row, byStrangeness)
	s = slices.Insert(s, at, row)
	return s[:min(len(s), strangeMost)]
}

// strangest holds the strangest rows of the last minutes. What it points to is never changed.
type strangest struct{ spans atomic.Pointer[[]strangeTime] }

// strangeTime is the strangest rows of one time.
type strangeTime struct {
	number int64 // of the time
	rows   strangeRows
}

func timeNumber(now time.Time) int64 { return now.UnixNano() / int64(strangeSpan) }

// at returns the rows of the present time.
func (s *strangest) at(now time.Time) strangeRows {
	if spans := s.spans.Load(); spans != nil {
		if last := (*spans)[len(*spans)-1]; last.number >= timeNumber(now) {
			return last.rows
		}
	}
	return nil
}

// add takes rows into the present time.
func (s *strangest) add(now time.Time, rows strangeRows) {
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
			last.rows = last.rows.with(row)
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
