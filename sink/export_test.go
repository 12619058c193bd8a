package sink

import (
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// StayAtVersion1 makes the next transactions those of a client from before KIP-890.
func StayAtVersion1(k *Kafka) {
	k.old = true
	k.choose()
}

// Version is that of the last transaction, or of the next one before the first.
func Version(k *Kafka) int { return k.version }

// ProduceRequest is one of a transaction of a version, encoded into a buffer: the bytes that are sent.
func ProduceRequest(version int, buffer []byte, clientID, transactionalID, topic string, partition int32, timeout time.Duration, recs []recordbatch.Record, p recordbatch.Producer, correlation int32) []byte {
	r := newProduceRequest(version, buffer, clientID, transactionalID, topicPartition{topic, partition}, timeout, recs, p, func(b []byte, _ int) []byte { return b })
	return r.addressed(r.newest, correlation)
}
