package pipeline

import (
	"context"
	"fmt"
	"strconv"

	"github.com/lca-stream/lca-stream/source"
)

// Written looks at the end of what a transform has written, because the committed offset may be older than that.
//
// Coordinators of Kafka before 4.0 drop the offsets of a running transaction when a late TxnOffsetCommit of a former
// epoch of its producer arrives: they refuse that request, as they should, but keep what is pending by producer id
// alone. The transaction then commits its records without its offsets, until the next one commits newer ones. A
// process that is stopped at that point, or the next owner, would begin at the old offset and write records twice.
//
// Outputs and dead letters of a partition are in the order of its offsets, so the last of them is enough.
type Written struct {
	Group  string
	Topics []string // outputs, and dead letters if there are any
	// Place is the partition of one of Topics that holds what is made of a partition of the source.
	Place func(topic string, of source.Partition) int32
	// Read reads back a partition of a topic for what was made of a partition of the source.
	Read func(topic string, partition int32, of source.Partition) *ReadBack
}

// At reads back the partition of one of Topics that holds what is made of a partition of the source.
func (w *Written) At(topic string, of source.Partition) *ReadBack {
	return w.Read(topic, w.Place(topic, of), of)
}

// next returns the offset after the last one of a partition that something was written of, where since says from which
// offset on the topics count; 0: nothing was found.
func (w *Written) next(ctx context.Context, of source.Partition, since source.Since) (next int64, err error) {
	for _, topic := range w.Topics {
		n, err := w.last(ctx, w.At(topic, of), of, since[topic])
		if err != nil {
			return 0, wrapEnd(topic, err)
		}
		next = max(next, n)
	}
	return next, nil
}

// nothing reports whether it is certain that nothing was written of a partition since then.
func (w *Written) nothing(ctx context.Context, of source.Partition, since source.Since) (bool, error) {
	for _, topic := range w.Topics {
		from, ok := since[topic]
		if !ok {
			return false, nil
		}
		back := w.At(topic, of)
		begin, err := back.Begin(ctx)
		if err != nil {
			return false, fmt.Errorf("the beginning of topic %s: %w", topic, err)
		}
		end, err := back.End(ctx)
		if err != nil {
			return false, wrapEnd(topic, err)
		}
		if begin > from || end < from || end-from > recentMost { // deleted, another topic, or more than is read back
			return false, nil
		}
		next := int64(0)
		if err = back.from(ctx, from, end, w.latest(of, &next)); err != nil {
			return false, wrapEnd(topic, err)
		}
		if next > 0 {
			return false, nil
		}
	}
	return true, nil
}

// last reads back to the last record of ours. Other groups may write to the same partition.
func (w *Written) last(ctx context.Context, back *ReadBack, of source.Partition, since int64) (next int64, err error) {
	err = back.ReadRecent(ctx, since, w.latest(of, &next), func() bool { return next > 0 })
	return next, err
}

func wrapEnd(topic string, err error) error { return fmt.Errorf("the end of topic %s: %w", topic, err) }

// latest raises next to the offset after the last one that records were made of.
func (w *Written) latest(of source.Partition, next *int64) func(*source.Fetched) error {
	return func(got *source.Fetched) error {
		for i := range got.Records {
			*next = max(*next, w.after(got.Records[i].Headers, of))
		}
		return nil
	}
}

// after returns the offset after those that a record was made of, or 0 if it is not of our group and the partition.
func (w *Written) after(headers []source.Header, of source.Partition) int64 {
	if source.LastHeader(headers, headerGroup) != w.Group || source.LastHeader(headers, headerSourceTopic) != of.Topic ||
		source.LastHeader(headers, headerSourcePartition) != strconv.Itoa(int(of.ID)) {
		return 0
	}
	last := source.LastHeader(headers, headerSourceOffset)
	if batch := source.LastHeader(headers, headerSourceLastOffset); batch != "" {
		last = batch
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil {
		return 0
	}
	return n + 1
}

// since completes what a committed offset says: a topic that it does not name counts from its present end on. So
// what was written before a reset says nothing.
func (w *Written) since(ctx context.Context, of source.Partition, noted source.Since) (source.Since, error) {
	all := make(source.Since, len(w.Topics))
	for _, topic := range w.Topics {
		if at, ok := noted[topic]; ok {
			all[topic] = at
			continue
		}
		end, err := w.At(topic, of).End(ctx)
		if err != nil {
			return nil, err
		}
		all[topic] = end
	}
	return all, nil
}
