package sink

import (
	"fmt"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// topicPartition is where a message goes.
type topicPartition struct {
	topic string
	id    int32
}

// share is what one Put writes to one partition, in the order of the messages.
type share struct {
	topicPartition
	records []recordbatch.Record
	index   []int // of each record in the messages of the Put
}

// shares sorts messages by partition, the partitions in order of first appearance.
func shares(msgs []Message, now time.Time) ([]*share, error) {
	var all []*share
	by := make(map[topicPartition]*share)
	headers := 0
	for i := range msgs {
		headers += len(msgs[i].Headers)
	}
	slab := make([]recordbatch.Header, 0, headers)
	for i := range msgs {
		m := &msgs[i]
		if m.Topic == "" || m.Partition < 0 {
			return nil, fmt.Errorf("message %d has no destination: topic %q, partition %d", i, m.Topic, m.Partition)
		}
		to := topicPartition{m.Topic, m.Partition}
		s := by[to]
		if s == nil {
			s = &share{topicPartition: to}
			by[to] = s
			all = append(all, s)
		}
		at := m.Time
		if at.IsZero() {
			at = now
		}
		first := len(slab)
		for _, h := range m.Headers {
			slab = append(slab, recordbatch.Header{Key: h.Key, Value: h.Value})
		}
		s.records = append(s.records, recordbatch.Record{Timestamp: at.UnixMilli(), Key: m.Key, Value: m.Value, Headers: slab[first:len(slab):len(slab)]})
		s.index = append(s.index, i)
	}
	return all, nil
}

// fit returns how many of the first records make a batch of at most limit bytes, but at least one.
func fit(recs []recordbatch.Record, limit int) int {
	size := recordbatch.Size(nil) // the batch's header
	for i := range recs {
		size += recordbatch.RecordSize(&recs[i])
		if size > limit && i > 0 {
			return i
		}
	}
	return len(recs)
}
