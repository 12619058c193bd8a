package kafkatest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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

// producerOf returns the producer that has a transactional id.
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
