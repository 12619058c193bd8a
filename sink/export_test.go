package sink

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// StayAtVersion1 makes the next transactions those of a client from before KIP-890.
func StayAtVersion1(k *Kafka) {
	k.old, k.version = true, 1
}

// Version is that of the last transaction, or of the next one before the first.
func Version(k *Kafka) int { return k.version }

// ProduceRequest is one of a transaction of a version, encoded into a buffer: the pieces that are sent.
func ProduceRequest(version int, buffer []byte, clientID, transactionalID, topic string, partition int32, timeout time.Duration, recs []recordbatch.Record, p recordbatch.Producer, correlation int32) [][]byte {
	r := newProduceRequest(version, buffer, clientID, transactionalID, topicPartition{topic, partition}, timeout, recs, p, recordbatch.AppendCut)
	return r.pieces(r.newest, correlation)
}

// ReturnToVersion2 undoes StayAtVersion1, from the next transaction on.
func ReturnToVersion2(k *Kafka) {
	k.old = false
}

// Producer is the id and the epoch of the next transaction.
func Producer(k *Kafka) (id int64, epoch int16) { return k.producer.id, k.producer.epoch }

// SpendEpochs ends transactions in which nothing happens, until the epoch is as given.
func SpendEpochs(ctx context.Context, k *Kafka, until int16) error {
	for k.producer.epoch < until {
		next, err := k.endTxn(ctx, k.producer, false)
		if errors.Is(err, kafka.ConcurrentTransactions) {
			continue
		}
		if err != nil {
			return err
		}
		k.become(next)
	}
	return nil
}

// Part is one batch of a request for several partitions, and how many bytes it was expected to take.
type Part struct {
	Topic     string
	Partition int32
	Records   []recordbatch.Record
	Sequence  int32
	Most      int
}

// ProduceRequestOf is ProduceRequest for several partitions.
func ProduceRequestOf(version int, clientID, transactionalID string, timeout time.Duration, of []Part, p recordbatch.Producer, correlation int32) []byte {
	var parts []part
	for _, one := range of {
		parts = append(parts, part{to: topicPartition{one.Topic, one.Partition}, records: one.Records, sequence: one.Sequence, most: one.Most, encode: recordbatch.AppendCut})
	}
	r := newProduce(version, nil, clientID, transactionalID, timeout, parts, p)
	return slices.Concat(r.pieces(r.newest, correlation)...)
}
