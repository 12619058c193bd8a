// Package sink writes messages and commits the offsets that they stand for. Both become visible together, or neither
// does (invariants 1 and 2 of ARCHITECTURE.md).
//
// Begin with [OpenKafka], which takes a piece of work over from its former owner, and [Kafka.Put], which writes
// messages and offsets in one transaction:
//
//	k, err := sink.OpenKafka(ctx, sink.KafkaConfig{Cluster: cluster, TransactionalID: "orders-0"})
//	// read the committed offsets only now: the former owner can no longer move them
//	err = k.Put(ctx, []sink.Message{{Topic: "out", Value: value}}, source.Claim{Offsets: next})
//
// Put returns
//
//   - nil: every message and every offset is committed, once; read_committed readers see it as soon
//     as the broker has written its markers, milliseconds later.
//   - ErrFenced: nothing of it is visible, and nothing that this process sends will ever be. Stop.
//   - ErrRevoked: nothing of it is visible; the group gave the partition to another member. End its loop.
//   - *TooLargeError: nothing of it is visible, and this message never will be: dead-letter it.
//   - *TimestampError: nothing of it is visible: give the messages for this topic another time.
//   - anything else: the outcome is settled, though not known here: all of it or nothing. Read the
//     committed offsets (or the checkpoint) again and go on from there, unless Permanent says that a
//     person is needed.
package sink

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// Message is one record to be written. A nil Value without a Rest is a tombstone.
type Message struct {
	Topic     string
	Partition int32
	Key       []byte
	Value     []byte
	Rest      [][]byte // rest of the value, for a large one that is in pieces: they are not joined
	Headers   []source.Header
	Time      time.Time // zero: the time of Put

	// Offset, unless nil, receives the record's offset before Put returns nil; -1 if the broker did not tell, as where
	// only the repetition of a request was answered.
	Offset *int64
}

// Whole returns the value in one piece.
func (m *Message) Whole() []byte {
	if len(m.Rest) == 0 {
		return m.Value
	}
	return bytes.Join(append([][]byte{m.Value}, m.Rest...), nil)
}

// ErrFenced means that another process owns the work: stop, do not retry. A transaction that was left open for longer
// than its timeout, because this process stood still, ends in the same way in version 1: the broker aborts it and
// fences its owner, which cannot tell the difference.
var ErrFenced = errors.New("fenced: another instance owns this work")

// ErrRevoked means that the group's coordinator refused the offsets, because this member has left
// or the group has a newer generation: the partition belongs to another member now.
var ErrRevoked = errors.New("revoked: the group has given this partition away")

// TooLargeError is a message that the topic does not take, or readers.
type TooLargeError struct {
	Index     int // position among the messages given to Put
	Topic     string
	Partition int32
	Size      int // bytes, as a record batch of its own
	Limit     int // the topic's max.message.bytes, 0 when it is not known; or MostMessage

	ForReaders bool // the message is larger than MostMessage, whatever the topic takes
}

// Error says which limit to raise.
func (e *TooLargeError) Error() string {
	if e.ForReaders {
		return fmt.Sprintf("message %d of %d bytes for %s/%d is larger than the %d bytes that clients read with their default settings: send fewer rows per message",
			e.Index, e.Size, e.Topic, e.Partition, e.Limit)
	}
	limit := "its limit"
	if e.Limit > 0 {
		limit = fmt.Sprintf("%d", e.Limit)
	}
	return fmt.Sprintf("message %d of %d bytes for %s/%d is larger than the topic takes (max.message.bytes = %s): raise the topic's max.message.bytes, and the fetch limits of its readers",
		e.Index, e.Size, e.Topic, e.Partition, limit)
}
