package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// producer is our identity for the brokers. The epoch grows with each owner of a transactional id, and in version 2
// with each transaction. An exhausted epoch is followed by another id with epoch 0.
type producer struct {
	id    int64
	epoch int16
}

// noProducer asks for an id and an epoch without having had one.
var noProducer = producer{-1, -1}

// ask sends one request to the transaction's coordinator. refused extracts the error from the answer.
func (k *Kafka) ask(ctx context.Context, q kafkaconn.Question, refused func(kmsg.Response) error) (kmsg.Response, error) {
	return k.askAt(ctx, coordinatorKey{kafka.CoordinatorKeyTypeTransaction, k.config.TransactionalID}, q, refused)
}

func (k *Kafka) askAt(ctx context.Context, key coordinatorKey, q kafkaconn.Question, refused func(kmsg.Response) error) (kmsg.Response, error) {
	res, err := k.coord.ask(ctx, key, q)
	if err == nil {
		err = refused(res)
		k.coord.forgetAfter(key, err)
	}
	if err != nil && unanswered(err) {
		k.doubt = true
	}
	return res, err
}

// initProducer asks for an id and a new epoch, which fences all older ones.
func (k *Kafka) initProducer(ctx context.Context, was producer) (producer, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &k.config.TransactionalID, int32(k.timeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = was.id, was.epoch
	m, err := k.ask(ctx, kafkaconn.Question{Request: req, Choose: k.see(5)}, func(m kmsg.Response) error {
		return failure(m.(*kmsg.InitProducerIDResponse).ErrorCode)
	})
	if err != nil {
		return noProducer, err
	}
	res := m.(*kmsg.InitProducerIDResponse)
	return producer{res.ProducerID, res.ProducerEpoch}, nil
}

// addPartitions tells the coordinator which partitions need markers at the end. In version 2 their leaders do.
func (k *Kafka) addPartitions(ctx context.Context, all []*share) error {
	by := make(map[string][]int32)
	for _, s := range all {
		by[s.topic] = append(by[s.topic], s.id)
	}
	return k.repeat(ctx, "AddPartitionsToTxn", func(ctx context.Context) error {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = k.config.TransactionalID, k.producer.id, k.producer.epoch
		for _, topic := range slices.Sorted(maps.Keys(by)) {
			t := kmsg.NewAddPartitionsToTxnRequestTopic()
			t.Topic, t.Partitions = topic, by[topic]
			req.Topics = append(req.Topics, t)
		}
		// Versions from 4 on are for brokers.
		_, err := k.ask(ctx, kafkaconn.Question{Request: req, Most: 3}, func(m kmsg.Response) error {
			var f failures
			for _, t := range m.(*kmsg.AddPartitionsToTxnResponse).Topics {
				for _, p := range t.Partitions {
					f.add(t.Topic, p.Partition, p.ErrorCode)
				}
			}
			return f.first
		})
		return err
	})
}

// addOffsets makes the group's offsets part of the transaction. In version 2 the group's coordinator does.
func (k *Kafka) addOffsets(ctx context.Context, group string) error {
	return k.repeat(ctx, "AddOffsetsToTxn", func(ctx context.Context) error {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = k.config.TransactionalID, k.producer.id, k.producer.epoch, group
		_, err := k.ask(ctx, kafkaconn.Question{Request: req, Most: 4}, func(m kmsg.Response) error {
			return failure(m.(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
		})
		return ofGroup(group, err)
	})
}

// ofGroup names the group in the error of a right that is missing.
func ofGroup(group string, err error) error {
	if errors.Is(err, kafka.GroupAuthorizationFailed) {
		return fmt.Errorf("group %q: %w", group, err)
	}
	return err
}

// commitOffsets makes the claim part of the transaction.
func (k *Kafka) commitOffsets(ctx context.Context, c source.Claim) error {
	key := coordinatorKey{kafka.CoordinatorKeyTypeConsumer, c.Group}
	return k.repeat(ctx, "TxnOffsetCommit", func(ctx context.Context) error {
		q := kafkaconn.Question{Request: k.offsets(c), Most: 4}
		if k.version == 2 {
			q.Least, q.Most = 5, 5
		}
		_, err := k.askAt(ctx, key, q, func(m kmsg.Response) error {
			var f failures
			for _, t := range m.(*kmsg.TxnOffsetCommitResponse).Topics {
				for _, p := range t.Partitions {
					f.add(t.Topic, p.Partition, p.ErrorCode)
				}
			}
			return f.first
		})
		err = ofGroup(c.Group, err)
		if revoked(err) { // before "retriable": a rebalance does not pass for this generation
			return fmt.Errorf("%w: %w", ErrRevoked, err)
		}
		return k.tooOld(err)
	})
}

func (k *Kafka) offsets(c source.Claim) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = k.config.TransactionalID, c.Group, k.producer.id, k.producer.epoch
	req.Generation, req.MemberID = c.Generation, c.Member
	if c.InstanceID != "" {
		req.InstanceID = &c.InstanceID
	}
	for _, p := range c.Next.Partitions() {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		o := kmsg.NewTxnOffsetCommitRequestTopicPartition() // leader epoch −1: not known
		o.Partition, o.Offset = p.ID, c.Next[p]
		if epoch, known := c.Epochs[p]; known {
			o.LeaderEpoch = epoch
		}
		if metadata := c.Metadata[p]; metadata != "" {
			o.Metadata = &metadata
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, o)
	}
	return req
}

// endTxn ends the transaction of a producer. In version 2 the answer holds our identity from now on.
func (k *Kafka) endTxn(ctx context.Context, was producer, commit bool) (producer, error) {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = k.config.TransactionalID, was.id, was.epoch, commit
	q := kafkaconn.Question{Request: req, Choose: k.see(4)}
	if k.version == 2 {
		q.Least, q.Choose = 5, k.see(5)
	}
	m, err := k.ask(ctx, q, func(m kmsg.Response) error { return failure(m.(*kmsg.EndTxnResponse).ErrorCode) })
	if err != nil || k.version < 2 {
		return was, err
	}
	res := m.(*kmsg.EndTxnResponse)
	return producer{res.ProducerID, res.ProducerEpoch}, nil
}
