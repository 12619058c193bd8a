package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Alarms says where events go that an operator should know of, as records of their own.
type Alarms struct {
	Topic     string  // "" = nowhere
	Partition int32   // partition of Topic that records with the key ModelID go to
	ModelID   string  // key of the records
	PBelow    float64 // each row whose lca_p is below this is an event; 0 = none

	To func(id string) int32 // the partition for a key, as Kafka's own clients choose it; nil where there is one model for all rows
}

// AlarmBytes is the smallest max.message.bytes with which a topic takes every alarm: names are cut for it.
const AlarmBytes = 8 << 10

const (
	// nameBytes is how long a feature's name in an alarm is at most. In JSON it may be six times as long.
	nameBytes = 120

	// The types of alarms.
	alarmDrift    = "drift"
	alarmReturned = "regime_returned"
	alarmModel    = "model_changed"
	alarmAnomaly  = "anomaly"
)

// alarm is the value of an alarm's record. Fields that an event does not have are null.
type alarm struct {
	Type    string    `json:"type"`
	Time    time.Time `json:"time"`
	ModelID string    `json:"model_id"`
	Version uint64    `json:"version"`
	Source  place     `json:"source"`
	Score   *float32  `json:"score"`
	P       *float32  `json:"p"`
	Why     []Guilty  `json:"why"`
	Message string    `json:"message"`
}

// place is where an event has shown: at a row, or for an event of the learner in a record.
type place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Row       *int   `json:"row"`
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

// message makes the record of an event.
func (a *Alarms) message(event alarm) sink.Message {
	event.Time = source.Calendar(event.Time)
	event.ModelID = a.ModelID
	if event.Why == nil {
		event.Why = []Guilty{}
	}
	value, err := json.Marshal(event)
	if err != nil {
		panic("pipeline: alarm: " + err.Error()) // a time or a number that JSON does not have
	}
	return sink.Message{Topic: a.Topic, Partition: a.Partition, Key: []byte(a.ModelID), Value: value, Headers: []source.Header{text(contentType, "application/json")}}
}

// anomaly makes the record of a row.
func (a *Alarms) anomaly(s *Strange) sink.Message {
	why := slices.Clone(s.Why)
	for i := range why {
		if name := why[i].Feature; len(name) > nameBytes {
			why[i].Feature = strings.ToValidUTF8(name[:nameBytes], "") + "…"
		}
	}
	return a.message(alarm{
		Type: alarmAnomaly, Time: s.Time, Version: s.Version,
		Source: place{s.Partition.Topic, s.Partition.ID, s.Offset, &s.Row},
		Score:  &s.Score, P: &s.P, Why: why,
		Message: fmt.Sprintf("a row has a score of %.4g, which is reached by %.2g of rows like those learnt", s.Score, s.P),
	})
}

// tell makes the alarms of a message's rows, and takes the strangest of them to the page. It returns why the message is set
// aside if there are too many.
func (t *Transform) tell(p *pending, w *Whitened) *source.RecordError {
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
		if r.shown && t.counts.strange.takes(s.P, s.Score) {
			t.counts.strange = t.counts.strange.with(s)
		}
	}
	return nil
}

// strange is a row that is told of in addition to the output.
func (t *Transform) strange(m *source.Message, row int, r *rare, gains []lca.Gain, features []string) Strange {
	s := Strange{
		Time: source.Calendar(m.Time), Partition: m.Partition, Offset: m.Offset, Row: row, ModelID: t.model.ModelID, Version: t.model.Version,
		Score: r.score, P: r.p, LeastP: float32(t.model.Model.Scores.Told()), Why: guilty(gains, features),
	}
	if s.Time.IsZero() {
		s.Time = t.Now()
	}
	return s
}

// tooManyAlarms refuses a message with alarms of more than mostWhitened bytes.
func tooManyAlarms(m *source.Message, size int) *source.RecordError {
	if size <= mostWhitened {
		return nil
	}
	return bad(m, codeOutputTooLarge, fmt.Errorf("the alarms of its rows take more than %d bytes; send fewer rows per message, or lower alarms.p_below", mostWhitened))
}
