package source_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// testOpenTransaction holds that an open transaction that will move an offset is waited for by who reads on from there, and not by who
// only looks.
func testOpenTransaction(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "moving", 1, nil)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id, group := "moving-id", "moving-group"
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = &id, 60_000
	owner, err := begin.RequestWith(t.Context(), c)
	if err == nil {
		err = kerr.ErrorForCode(owner.ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = id, owner.ProducerID, owner.ProducerEpoch, group
	if added, err := add.RequestWith(t.Context(), c); err != nil || added.ErrorCode != 0 {
		t.Fatal(err, kerr.ErrorForCode(added.ErrorCode))
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Group, commit.ProducerID, commit.ProducerEpoch, commit.Generation = id, group, owner.ProducerID, owner.ProducerEpoch, -1
	commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "moving", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 7, LeaderEpoch: -1}}}}
	if committed, err := commit.RequestWith(t.Context(), c); err != nil || committed.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(err, committed)
	}
	cluster, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	part := source.Partition{Topic: "moving"}
	if found, err := source.CommittedSoFar(t.Context(), cluster, group, []source.Partition{part}); err != nil || found[part].Next != -1 {
		t.Errorf("so far %v, %v", found, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if found, err := source.Committed(soon, cluster, group, []source.Partition{part}); err == nil {
		t.Errorf("%v, though the transaction is open", found)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = id, owner.ProducerID, owner.ProducerEpoch, true
	if ended, err := end.RequestWith(t.Context(), c); err != nil || ended.ErrorCode != 0 {
		t.Fatal(err, kerr.ErrorForCode(ended.ErrorCode))
	}
	if found, err := source.Committed(t.Context(), cluster, group, []source.Partition{part}); err != nil || found[part].Next != 7 {
		t.Errorf("%v, %v; want 7", found, err)
	}
}
