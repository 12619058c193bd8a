package pipeline

import (
	"fmt"
	"strconv"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// DeadLetter decides what becomes of a message that cannot be used.
type DeadLetter struct {
	Topic      string // "" = stop at the first
	Window     int    // messages looked back on, ≥ 1; default 1000
	MaxRejects int    // rejects within the window that are still taken for granted; default 100
	WarnOnly   bool   // at the threshold warn and go on instead of stopping
	Partitions int32  // partitions of Topic; a dead letter goes to input partition mod Partitions
}

// rejects remembers which of the last Window messages were rejected. The answer is provisional
// until the batch is kept, like everything a stage does, so it copies cheaply.
type rejects struct {
	ring  []bool
	next  int
	count int
}

// add notes one message and returns the number of rejects in the window.
func (r *rejects) add(window int, rejected bool) int {
	if len(r.ring) != window {
		*r = rejects{ring: make([]bool, window)}
	}
	if r.ring[r.next] {
		r.count--
	}
	r.ring[r.next] = rejected
	if rejected {
		r.count++
	}
	r.next = (r.next + 1) % window
	return r.count
}

// reject turns a bad message into its dead letter, or into the reason to stop: no topic for it,
// or too many of them (a stream that has gone bad should be looked at, not drained).
func (d DeadLetter) reject(m *source.Message, bad *source.RecordError, inWindow int) (sink.Message, error) {
	if d.Topic == "" {
		return sink.Message{}, &Stop{Err: bad, Hint: "set dead_letter.topic to keep such records aside and go on"}
	}
	if inWindow > d.MaxRejects && !d.WarnOnly {
		return sink.Message{}, &Stop{
			Err:  fmt.Errorf("%d of the last %d messages were rejected, more than dead_letter.max_rejects = %d; the last: %w", inWindow, d.Window, d.MaxRejects, bad),
			Hint: "mend the producer, or raise dead_letter.max_rejects",
		}
	}
	return d.message(m, bad), nil
}

// message keeps key, value and headers byte for byte and adds where it came from and why.
func (d DeadLetter) message(m *source.Message, bad *source.RecordError) sink.Message {
	headers := make([]source.Header, 0, len(m.Headers)+6)
	headers = append(headers, m.Headers...)
	headers = append(headers,
		text("lca-error-code", bad.Code),
		text("lca-error", bad.Err.Error()),
		text("lca-source-topic", m.Partition.Topic),
		text("lca-source-partition", strconv.Itoa(int(m.Partition.ID))),
		text("lca-source-offset", strconv.FormatInt(m.Offset, 10)),
		text("lca-source-timestamp", strconv.FormatInt(m.Time.UnixMilli(), 10)),
	)
	return sink.Message{Topic: d.Topic, Partition: m.Partition.ID % max(d.Partitions, 1), Key: m.Key, Value: m.Value, Headers: headers, Time: m.Time}
}

func text(key, value string) source.Header { return source.Header{Key: key, Value: []byte(value)} }
