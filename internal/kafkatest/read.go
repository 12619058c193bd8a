package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is read here is read with franz-go, not with our own code: a judge must not share the
// mistakes of the judged.

// kgo is a client with options of its own, or that for questions; done is for after its use.
func (b *Broker) kgo(t testing.TB, opts ...kgo.Opt) (c *kgo.Client, ctx context.Context, done func()) {
	t.Helper()
	c, used, err := b.client(opts...)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	return c, ctx, func() { cancel(); used() }
}

// client is a client with options of its own, which used closes. Without options it is the one for questions of a cluster of one node, which lasts: a test
// that waits asks ten times a second, and with a client for each question the broker's work was to greet them.
func (b *Broker) client(opts ...kgo.Opt) (c *kgo.Client, used func(), err error) {
	all := append(opts, kgo.SeedBrokers(b.addrs...), kgo.MetadataMinAge(10*time.Millisecond))
	if len(opts) > 0 || len(b.nodes) > 1 { // one that has seen a broker of several die keeps asking for it
		if c, err = kgo.NewClient(all...); err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
	return b.asks.use(all)
}

// asks has a test's client for questions.
type asks struct {
	sync.Mutex
	now *asking
}

// asking is a client that closes when no question is left of those for which it was taken, and it is not to be taken again.
type asking struct {
	*kgo.Client
	questions int
	past      bool
}

func (a *asks) use(opts []kgo.Opt) (*kgo.Client, func(), error) {
	a.Lock()
	defer a.Unlock()
	if a.now == nil {
		c, err := kgo.NewClient(opts...)
		if err != nil {
			return nil, nil, err
		}
		a.now = &asking{Client: c}
	}
	c := a.now
	c.questions++
	return c.Client, func() {
		a.Lock()
		defer a.Unlock()
		if c.questions--; c.past && c.questions == 0 {
			c.Close()
		}
	}, nil
}

// forget has the next question asked by another client.
func (a *asks) forget() {
	a.Lock()
	defer a.Unlock()
	if c := a.now; c != nil {
		if c.past = true; c.questions == 0 {
			c.Close()
		}
		a.now = nil
	}
}

// ReadCommitted returns every record of a topic that a read_committed reader sees now, partition
// after partition, each in the order of its offsets. It fails the test when it cannot get there.
func (b *Broker) ReadCommitted(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	start, stable := b.ListOffsets(t, topic, -2, 1), b.stable(t, topic)
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

// stable returns the last stable offsets of a topic. A coordinator answers before it has told the partitions that a transaction is over (KIP-98): where nothing more
// is written, that is waited for, for five seconds, as a transaction may be left open on purpose.
func (b *Broker) stable(t testing.TB, topic string) map[int32]int64 {
	t.Helper()
	end := b.ListOffsets(t, topic, -1, 0)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		stable, later := b.ListOffsets(t, topic, -1, 1), b.ListOffsets(t, topic, -1, 0)
		if maps.Equal(stable, later) || !maps.Equal(later, end) || time.Now().After(deadline) {
			return stable
		}
	}
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
		} else {
			b.asks.forget()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("offsets of group %s: not known, or not stable: %w", group, errors.Join(ctx.Err(), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// once asks once. For stable offsets it names every partition there is: asked for all, a coordinator leaves out those that have nothing but an
// offset of a transaction that it has not completed yet, instead of calling them unstable.
func (b *Broker) once(ctx context.Context, group string, stable bool) (*kmsg.OffsetFetchResponse, error) {
	c, done, err := b.client()
	if err != nil {
		return nil, err
	}
	defer done()
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

// LateOffsets sends what is left of a former owner of a transactional id, which no generation of the group forbids:
// TxnOffsetCommits of the epoch before the present one, one after the other until stop is called. await waits until that many
// were refused; one that is taken fails the test.
func (b *Broker) LateOffsets(t testing.TB, transactionalID, group, topic string, partition int32) (await func(refused int), stop func()) {
	t.Helper()
	c, ctx, done := b.kgo(t)
	id, epoch := producerOf(ctx, t, c, transactionalID)
	ctx, cancel := context.WithCancel(ctx)
	var refused atomic.Int64
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			req := kmsg.NewPtrTxnOffsetCommitRequest()
			req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = transactionalID, group, id, epoch-1, -1
			part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			part.Partition = partition
			req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{part}}}
			if res, err := req.RequestWith(ctx, c); err == nil {
				if res.Topics[0].Partitions[0].ErrorCode == 0 {
					t.Errorf("kafkatest: a late TxnOffsetCommit of %s was taken", transactionalID)
				}
				refused.Add(1)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	await = func(n int) {
		t.Helper()
		for refused.Load() < int64(n) {
			if ctx.Err() != nil {
				t.Fatalf("kafkatest: %d late TxnOffsetCommits of %s were refused, not yet %d", refused.Load(), transactionalID, n)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return await, func() { cancel(); <-stopped; done() }
}

func producerOf(ctx context.Context, t testing.TB, c *kgo.Client, transactionalID string) (id int64, epoch int16) {
	t.Helper()
	state := describe(ctx, t, c, transactionalID)
	return state.ProducerID, state.ProducerEpoch
}

// Transaction is the state of a transactional id as its coordinator says it, such as Ongoing.
func (b *Broker) Transaction(t testing.TB, transactionalID string) string {
	t.Helper()
	c, ctx, done := b.kgo(t)
	defer done()
	return describe(ctx, t, c, transactionalID).State
}

// Ongoing is the state of a transaction that is open.
const Ongoing = "Ongoing"

func describe(ctx context.Context, t testing.TB, c *kgo.Client, transactionalID string) kmsg.DescribeTransactionsResponseTransactionState {
	t.Helper()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{transactionalID}
	res, err := req.RequestWith(ctx, c)
	if err != nil || len(res.TransactionStates) != 1 || res.TransactionStates[0].ErrorCode != 0 {
		t.Fatalf("kafkatest: describe transaction %s: %v, %+v", transactionalID, err, res)
	}
	return res.TransactionStates[0]
}

// Once judges by the topics alone what has become of an input: each of its messages must be in one of the others, once, and those of a partition of the
// input in its order within each partition. It returns what is not so, at most ten of it, and how many messages there are.
//
// It believes neither the group nor what the program says of itself. It reads with franz-go, and looks at nothing but where a record says that it is from.
func (b *Broker) Once(t testing.TB, input string, others ...string) (faults []string, messages int) {
	t.Helper()
	fault := func(format string, args ...any) {
		if len(faults) < 10 {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	type place struct {
		partition int32
		offset    int64
	}
	found := map[place]string{}
	for _, topic := range others {
		last := map[[2]int32]int64{} // partition of the topic, and of the input
		for _, r := range b.ReadCommitted(t, topic) {
			at := place{int32(headerNumber(t, r, "lca-source-partition")), headerNumber(t, r, "lca-source-offset")}
			where := fmt.Sprintf("%s/%d@%d", topic, r.Partition, r.Offset)
			if was, again := found[at]; again {
				fault("%s/%d@%d is in %s and again in %s", input, at.partition, at.offset, was, where)
			}
			found[at] = where
			if before, any := last[[2]int32{r.Partition, at.partition}]; any && before > at.offset {
				fault("%s/%d@%d comes in %s after %d", input, at.partition, at.offset, where, before)
			}
			last[[2]int32{r.Partition, at.partition}] = at.offset
		}
	}
	missing := 0
	for _, r := range b.ReadCommitted(t, input) {
		messages++
		if _, ok := found[place{r.Partition, r.Offset}]; !ok {
			fault("%s/%d@%d is nowhere", input, r.Partition, r.Offset)
			missing++
		}
		delete(found, place{r.Partition, r.Offset})
	}
	for at, where := range found {
		fault("%s says that it is of %s/%d@%d, which is not there", where, input, at.partition, at.offset)
	}
	if len(faults) > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d messages are missing", missing, messages))
	}
	return faults, messages
}

func headerNumber(t testing.TB, r *kgo.Record, key string) int64 {
	t.Helper()
	for _, h := range r.Headers {
		if h.Key == key {
			n, err := strconv.ParseInt(string(h.Value), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	t.Fatalf("kafkatest: %s/%d@%d has no number in header %s", r.Topic, r.Partition, r.Offset, key)
	return 0
}
