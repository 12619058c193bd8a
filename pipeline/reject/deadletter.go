package reject

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// DeadLetter decides what happens to a message that cannot be used.
type DeadLetter struct {
	Topic      string // "" = stop at the first such message
	Group      string // of the transform, named in every dead letter
	Window     int    // number of messages over which rejects are counted, at least 1
	MaxRejects int    // rejects within the window that are tolerated
	Partitions int32  // number of partitions of Topic; a dead letter goes to input partition mod Partitions
}

// Window is the number of messages over which the program counts rejects: enough that a burst of a few bad messages stops nothing, and so few that a
// producer that has changed is noticed within seconds.
const Window = 1000

// Rejects remembers which of the last Window messages were rejected. Until the batch is kept this is provisional,
// like all state of a stage, so it also keeps what it has overwritten.
type Rejects struct {
	ring  []bool
	next  int
	count int
	past  []bool // values that add has overwritten since keep, in order
}

// Add notes one message and returns the number of rejects in the window.
func (r *Rejects) Add(window int, rejected bool) int {
	if len(r.ring) != window {
		*r = Rejects{ring: make([]bool, window)}
	}
	r.past = append(r.past, r.ring[r.next])
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

// Keep makes the added messages final.
func (r *Rejects) Keep() { r.past = r.past[:0] }

// Rewind undoes every add since keep.
func (r *Rejects) Rewind() {
	for n := len(r.past); n > 0; n-- {
		r.next = (r.next + len(r.ring) - 1) % len(r.ring)
		was := r.past[n-1]
		if r.ring[r.next] != was {
			r.ring[r.next] = was
			if was {
				r.count++
			} else {
				r.count--
			}
		}
	}
	r.past = r.past[:0]
}

// Reject returns the dead letter of a bad message, or the reason to stop: there is no dead-letter topic, or there are
// too many rejects. A stream that has gone bad needs attention, and should not be drained into a dead-letter topic.
func (d DeadLetter) Reject(m *source.Message, bad *source.RecordError, inWindow int) (sink.Message, error) {
	if err := d.Allow(bad, inWindow); err != nil {
		return sink.Message{}, err
	}
	return d.message(m, bad), nil
}

// Allow returns the reason to stop at a bad message, or nil.
func (d DeadLetter) Allow(bad *source.RecordError, inWindow int) error {
	switch {
	case d.Topic == "":
		return &Stop{Err: bad, Remedy: "set dead_letter.topic to keep such records aside and go on"}
	case inWindow > d.MaxRejects:
		return &Stop{
			Err:    fmt.Errorf("%d of the last %d messages were rejected, more than dead_letter.max_rejects = %d; the last: %w", inWindow, d.Window, d.MaxRejects, bad),
			Remedy: "fix the producer, or raise dead_letter.max_rejects",
		}
	}
	return nil
}

// WindowLength is Window, and at least 1.
func (d DeadLetter) WindowLength() int { return max(d.Window, 1) }

// Place returns the partition of the dead letters of a partition of the source.
func (d DeadLetter) Place(partition int32) int32 { return partition % max(d.Partitions, 1) }

// message keeps key, value and headers byte for byte, and adds headers with the origin and the reason.
func (d DeadLetter) message(m *source.Message, bad *source.RecordError) sink.Message {
	headers := Carry(make([]source.Header, 0, len(m.Headers)+8), m.Headers, true)
	headers = append(headers, d.Headers(m, bad.Code, logs.Plain(bad.Err.Error()))...)
	if bad.Version > 0 {
		headers = append(headers, Text(HeaderVersion, strconv.FormatUint(bad.Version, 10)))
	}
	return sink.Message{Topic: d.Topic, Partition: d.Place(m.Partition.ID), Key: m.Key, Value: m.Value, Headers: headers, Time: m.Time}
}

// Headers returns the headers with the origin and the reason. For a batch that cannot be read the value is the whole
// batch, and one more header holds the last of its offsets.
func (d DeadLetter) Headers(m *source.Message, code, why string) []source.Header {
	headers := []source.Header{
		Text("lca-error-code", code),
		Text(headerError, why),
		Text(HeaderGroup, d.Group),
		Text(HeaderSourceTopic, m.Partition.Topic),
		Text(HeaderSourcePartition, strconv.Itoa(int(m.Partition.ID))),
		Text(HeaderSourceOffset, strconv.FormatInt(m.Offset, 10)),
		Text(SourceTimestamp, millis(m.Time)),
	}
	if m.Err != nil && m.Err.Offsets > 0 {
		headers = append(headers, Text(HeaderSourceLastOffset, strconv.FormatInt(m.Err.Offset+m.Err.Offsets-1, 10)))
	}
	return headers
}

// millis formats a time as Kafka does: -1 is none.
func millis(t time.Time) string {
	if t.IsZero() {
		return "-1"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

const (
	headerError     = "lca-error"
	SourceTimestamp = "lca-source-timestamp" // milliseconds
	HeaderCut       = "lca-cut"              // what was cut from a dead letter

	HeaderOriginalSize = "lca-original-size"   // bytes of the value
	HeaderOriginalCRC  = "lca-original-crc32c" // hexadecimal

	CutValue = "value"
	CutAll   = "value,key,headers"

	// WhyBytes bounds the reason in a dead letter from which everything else was cut.
	WhyBytes = 500
)

// DeadLetterBytes is the smallest max.message.bytes with which a topic takes every dead letter once everything was
// cut from it, independently of the lengths of topic names. What is left then are the headers with the origin of the
// message.
const DeadLetterBytes = 1024

// Cut makes a dead letter smaller that its topic did not take: first without its value, then without its key and
// headers too, which may be just as large, and last without the sentence that explains the fault. The remaining
// headers tell where the whole message is, and its size and checksum. The value is empty and not null, because null
// would delete the key in a compacted topic. It returns false if there is nothing left to cut.
func (d DeadLetter) Cut(dead sink.Message, m *source.Message) (sink.Message, bool) {
	left := []source.Header{
		Text(HeaderCut, CutValue),
		Text(HeaderOriginalSize, strconv.Itoa(len(m.Value))),
		Text(HeaderOriginalCRC, fmt.Sprintf("%08x", crc32.Checksum(m.Value, crc32.MakeTable(crc32.Castagnoli)))),
	}
	dead.Value, dead.Rest = []byte{}, nil
	before, why := source.LastHeader(dead.Headers, HeaderCut), source.LastHeader(dead.Headers, headerError)
	switch {
	case before == "":
		dead.Headers = append(slices.Clip(dead.Headers), left...)
		return dead, true
	case before == CutValue:
		why = strings.ToValidUTF8(why[:min(len(why), WhyBytes)], "")
	case why != "":
		why = ""
	default:
		return dead, false
	}
	left[0] = Text(HeaderCut, CutAll)
	dead.Key = nil
	if version := source.LastHeader(dead.Headers, HeaderVersion); version != "" {
		left = append(left, Text(HeaderVersion, version))
	}
	dead.Headers = append(d.Headers(m, source.LastHeader(dead.Headers, "lca-error-code"), why), left...)
	return dead, true
}
