package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is read here is read with franz-go, not with our own code: a judge must not share the
// mistakes of the judged.

// kgo is a client for one question, closed after it.
func (b *Broker) kgo(t testing.TB, opts ...kgo.Opt) (*kgo.Client, context.Context, func()) {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.addrs...), kgo.MetadataMinAge(10*time.Millisecond))...)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	return c, ctx, func() { cancel(); c.Close() }
}

// ReadCommitted returns every record of a topic that a read_committed reader sees now, partition
// after partition, each in the order of its offsets. It fails the test when it cannot get there.
func (b *Broker) ReadCommitted(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	start := b.ListOffsets(t, topic, -2, 1)
	stable := b.ListOffsets(t, topic, -1, 1)
	at := make(map[int32]kgo.Offset)
	for p, end := range stable {
		if start[p] < end {
			at[p] = kgo.NewOffset().At(start[p])
		}
	}
	if len(at) == 0 {
		return nil
	}
	c, ctx, done := b.kgo(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}))
	defer done()
	by := make(map[int32][]*kgo.Record)
	for len(at) > 0 {
		fetched := c.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("kafkatest: read %s: %v; not yet at the end: %v", topic, err, at)
		}
		// Control records are kept, so that the end is seen even where nothing else is there.
		fetched.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() && r.Offset < stable[r.Partition] {
				by[r.Partition] = append(by[r.Partition], r)
			}
			if r.Offset >= stable[r.Partition]-1 {
				delete(at, r.Partition)
			}
		})
	}
	var all []*kgo.Record
	for p := range int32(len(stable)) {
		all = append(all, by[p]...)
	}
	return all
}

// ListOffsets returns an offset of each partition: time −2 is the start, −1 the end. isolation 0 is
// read_uncommitted (the end is that of the log), 1 is read_committed (the end is the last stable
// offset, where the first open transaction begins).
func (b *Broker) ListOffsets(t testing.TB, topic string, at int64, isolation int8) map[int32]int64 {
	t.Helper()
	c, ctx, done := b.kgo(t)
	defer done()
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr(topic)
	meta.Topics = append(meta.Topics, mt)
	topics, err := meta.RequestWith(ctx, c)
	if err != nil || len(topics.Topics) != 1 || topics.Topics[0].ErrorCode != 0 {
		t.Fatalf("kafkatest: metadata of %s: %v %+v", topic, err, topics)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range topics.Topics[0].Partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p.Partition, at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	offsets := make(map[int32]int64)
	for _, shard := range c.RequestSharded(ctx, req) {
		if shard.Err != nil {
			t.Fatalf("kafkatest: offsets of %s: %v", topic, shard.Err)
		}
		for _, rt := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range rt.Partitions {
				if p.ErrorCode != 0 {
					t.Fatalf("kafkatest: offsets of %s/%d: error %d", topic, p.Partition, p.ErrorCode)
				}
				offsets[p.Partition] = p.Offset
			}
		}
	}
	return offsets
}

// OpenTransaction reports whether a transaction in a topic has not been ended: readers wait there.
func (b *Broker) OpenTransaction(t testing.TB, topic string) bool {
	t.Helper()
	stable, end := b.ListOffsets(t, topic, -1, 1), b.ListOffsets(t, topic, -1, 0)
	for p := range end {
		if stable[p] < end[p] {
			return true
		}
	}
	return false
}

// GroupOffsets returns what a group has committed, as "topic/partition" to the next offset.
// Offsets of open transactions are waited for.
func (b *Broker) GroupOffsets(t testing.TB, group string) map[string]int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	offsets, err := b.Committed(ctx, group)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return offsets
}

// Committed is GroupOffsets for goroutines that may not end the test, and for brokers that may be
// down: then it tries until ctx ends.
func (b *Broker) Committed(ctx context.Context, group string) (map[string]int64, error) {
	return b.offsets(ctx, group, true)
}

// LastCommitted is GroupOffsets as they are, whatever an open transaction will make of them.
func (b *Broker) LastCommitted(t testing.TB, group string) map[string]int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	offsets, err := b.offsets(ctx, group, false)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return offsets
}

func (b *Broker) offsets(ctx context.Context, group string, stable bool) (map[string]int64, error) {
	for {
		res, err := b.once(ctx, group, stable)
		if err == nil {
			offsets, again, err := groupOffsets(res)
			if !again {
				return offsets, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("offsets of group %s: not known, or not stable: %w", group, errors.Join(ctx.Err(), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// once asks through a client of its own: one that has seen a broker die keeps asking for it. For stable offsets
// it names every partition there is: asked for all, a coordinator leaves out those that have nothing but an
// offset of a transaction that it has not completed yet, instead of calling them unstable.
func (b *Broker) once(ctx context.Context, group string, stable bool) (*kmsg.OffsetFetchResponse, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = group, stable
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	if stable {
		all, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, topic := range all.Topics {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic = *topic.Topic
			for _, p := range topic.Partitions {
				t.Partitions = append(t.Partitions, p.Partition)
			}
			rg.Topics = append(rg.Topics, t)
		}
	}
	req.Groups = append(req.Groups, rg)
	return req.RequestWith(ctx, c)
}

func groupOffsets(res *kmsg.OffsetFetchResponse) (offsets map[string]int64, again bool, err error) {
	const notFound, unstable, loading, moved = 69, 88, 14, 16
	offsets = make(map[string]int64)
	for _, g := range res.Groups {
		switch g.ErrorCode {
		case 0:
		case notFound: // the embedded broker's way to say that there are none
			return offsets, false, nil
		case unstable, loading, moved:
			return nil, true, nil
		default:
			return nil, false, fmt.Errorf("offsets of group %s: error %d", g.Group, g.ErrorCode)
		}
		for _, rt := range g.Topics {
			for _, p := range rt.Partitions {
				switch {
				case p.ErrorCode == unstable:
					return nil, true, nil
				case p.Offset >= 0:
					offsets[fmt.Sprintf("%s/%d", rt.Topic, p.Partition)] = p.Offset
				}
			}
		}
	}
	return offsets, false, nil
}

// Members are the ids of a group's members, in order. One that was thrown out and came back has another.
func (b *Broker) Members(t testing.TB, group string) (ids []string) {
	t.Helper()
	c, ctx, done := b.kgo(t)
	defer done()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	res, err := req.RequestWith(ctx, c)
	if err != nil || len(res.Groups) != 1 || res.Groups[0].ErrorCode != 0 {
		t.Fatalf("kafkatest: members of group %s: %v %+v", group, err, res)
	}
	for _, m := range res.Groups[0].Members {
		ids = append(ids, m.MemberID)
	}
	slices.Sort(ids)
	return ids
}
