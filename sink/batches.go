package sink

import (
	"fmt"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// topicPartition is the partition that a message is written to.
type topicPartition struct {
	topic string
	id    int32
}

// share holds the records of one Put for one partition, in the order of the messages.
type share struct {
	topicPartition
	records []recordbatch.Record
	sizes   []int    // upper bound of each record's size in a batch
	index   []int    // position of each record among the messages of the Put
	offsets []*int64 // where the offset of each record goes, see Message.Offset
	done    int      // number of records already written by a request for several partitions
}

// shares groups the messages of one Put by partition, in order of first appearance. The next Put reuses its memory,
// because a stream puts about as much every time.
type shares struct{ all []*share }

// sort groups the messages, and overwrites the groups of the previous call.
func (s *shares) sort(msgs []Message, now time.Time) ([]*share, error) {
	known := s.all[:cap(s.all)]
	s.all = s.all[:0]
	var last *share
	for i := range msgs {
		m := &msgs[i]
		if m.Topic == "" || m.Partition < 0 {
			return nil, fmt.Errorf("message %d has no destination: topic %q, partition %d", i, m.Topic, m.Partition)
		}
		if to := (topicPartition{m.Topic, m.Partition}); last == nil || last.topicPartition != to {
			last = s.find(to, known)
			if i == 0 { // most Puts have one partition only
				last.grow(len(msgs))
			}
		}
		at := m.Time
		if at.IsZero() {
			at = now
		}
		r := recordbatch.Record{Timestamp: at.UnixMilli(), Key: m.Key, Value: m.Value, Rest: m.Rest, Headers: m.Headers}
		last.records = append(last.records, r)
		last.sizes = append(last.sizes, recordbatch.RecordSize(&r))
		last.index = append(last.index, i)
		last.offsets = append(last.offsets, m.Offset)
	}
	return s.all, nil
}

// find returns the share of a partition: one of this Put, a recycled one, or a new one.
func (s *shares) find(to topicPartition, known []*share) *share {
	for _, old := range s.all {
		if old.topicPartition == to {
			return old
		}
	}
	n := len(s.all)
	if n < len(known) && known[n] != nil {
		old := known[n]
		old.topicPartition, old.records, old.sizes, old.index = to, old.records[:0], old.sizes[:0], old.index[:0]
		old.offsets, old.done = old.offsets[:0], 0
		s.all = append(s.all, old)
		return old
	}
	s.all = append(s.all, &share{topicPartition: to})
	return s.all[n]
}

// grow reserves room for n messages at once, because growing step by step would allocate several times as much.
func (s *share) grow(n int) {
	s.records, s.sizes, s.index = slices.Grow(s.records, n), slices.Grow(s.sizes, n), slices.Grow(s.index, n)
	s.offsets = slices.Grow(s.offsets, n)
}

// written stores the offsets of n records, from number first on, in a batch that the broker has put at base; negative:
// it did not tell.
func (s *share) written(first, n int, base int64) {
	for i, to := range s.offsets[first : first+n] {
		if to == nil {
			continue
		}
		if *to = -1; base >= 0 {
			*to = base + int64(i)
		}
	}
}

// forget drops the references to messages: their memory belongs to the caller of Put.
func (s *shares) forget() {
	for _, one := range s.all {
		clear(one.records)
		clear(one.offsets)
	}
}

// fit returns how many of the first records make a batch of at most limit bytes, but at least one.
func fit(sizes []int, limit int) (n, size int) {
	size = recordbatch.Size(nil) // the batch's header
	for i, s := range sizes {
		if size+s > limit && i > 0 {
			return i, size
		}
		size += s
	}
	return len(sizes), size
}
