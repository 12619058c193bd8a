package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/nested"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// spans compares how long messages take by a column of times with how long they take by their timestamps, by which budgets and onsets go.
type spans struct {
	columns map[string]*span
	stamps  span
}

// span is from the first to the last of some times.
type span struct {
	first, last float64           // s since 1970
	newest      map[int32]float64 // by partition
	steps, back int               // from one to the next of a partition, and those that go back
	no          bool              // it has values that are no times
}

func (s *span) add(at float64, partition int32) {
	if s.newest == nil {
		s.newest, s.first, s.last = map[int32]float64{}, at, at
	}
	s.first, s.last = min(s.first, at), max(s.last, at)
	if before, ok := s.newest[partition]; ok {
		if s.steps++; at < before {
			s.back++
		}
	}
	s.newest[partition] = at
}

const (
	leastStamps = 3  // messages of which the timestamps tell: rows within one share it
	timesApart  = 10 // by how many times two spans differ that are not of the same events
)

// add takes a message with rows.
func (s *spans) add(m *source.Message) {
	if !source.OnCalendar(m.Time) || m.Time.UnixMilli() <= 0 {
		return
	}
	s.stamps.add(float64(m.Time.UnixMilli())/1000, m.Partition.ID)
	for _, leaf := range nested.Leaves(m.Record.Schema()) {
		if s.columns == nil {
			s.columns = map[string]*span{}
		}
		c := s.columns[leaf.Name]
		if c == nil {
			c = &span{}
			s.columns[leaf.Name] = c
		}
		if c.no {
			continue
		}
		col, err := leaf.Column(m.Record)
		if err != nil {
			c.no = true
			continue
		}
		for i := 0; i < col.Len() && !c.no; i++ {
			if col.IsValid(i) {
				at, ok := timeIn(col.ValueStr(i))
				if c.no = !ok; ok {
					c.add(at, m.Partition.ID)
				}
			}
		}
		col.Release()
	}
}

// timeIn reads a time, or a number since 1970 in the unit in which it is of our days; in s.
func timeIn(text string) (float64, bool) {
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		micros, ok := format.Epoch(x)
		at := float64(micros) / 1e6
		return at, ok && at >= 1e8 && at < 1e10 // 1973 … 2286
	}
	if at, ok := format.ParseTime(text); ok {
		return float64(at.UnixMicro()) / 1e6, true
	}
	return 0, false
}

// said is the line that tells of the first column of times that goes on otherwise than the timestamps; "": there is none. Times that mostly do not go on,
// as those at which machines were built, are not of the events.
func (s *spans) said(judged []minibatch.Judgement, budget string) string {
	t := &s.stamps
	if t.steps+len(t.newest) < leastStamps {
		return ""
	}
	for _, j := range judged {
		c := s.columns[j.Column.Name]
		if j.Feature || c == nil || c.no || j.Column.Numeric && !strings.HasPrefix(j.Reason, "a time") || c.first == c.last || 10*c.back > c.steps {
			continue
		}
		by, of := c.last-c.first, t.last-t.first
		if by < timesApart*of && by > of/timesApart {
			continue
		}
		return fmt.Sprintf("By %s these messages span %s, by their Kafka timestamps %s. Budgets in time and the times of episodes go by the timestamps: have the producer "+
			"set them to those of the events, or alarms.budget to a number in rows, such as 1/2000 rows (it is %s).", terminal.Name(j.Column.Name), app.Age(seconds(by)), app.Age(seconds(of)), budget)
	}
	return ""
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
