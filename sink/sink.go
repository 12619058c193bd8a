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
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

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

// Permanent reports whether an error from Put needs a person: a right that is missing, or a setting of
// the topic or the broker that refuses this work. Trying again would only be refused again. Everything
// else that is not ErrFenced, ErrRevoked or a TooLargeError passes sooner or later.
func Permanent(err error) bool {
	var code kafka.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed, kafka.TransactionalIDAuthorizationFailed: // no right
	case kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism: // the credentials were revoked
	case kafka.InvalidTopic, kafka.InvalidGroupId: // a name that the broker does not take
	case kafka.InvalidRecord: // a compacted topic takes no record without a key
	case kafka.InvalidTimestamp: // the topic's message.timestamp limits
	case kafka.InvalidTransactionTimeout: // longer than the broker's transaction.max.timeout.ms
	case kafka.UnsupportedForMessageFormat, kafka.UnsupportedVersion: // a broker too old for transactions
	case kafka.PolicyViolation: // the cluster's own rules
	default:
		return false
	}
	return true
}

// retriable reports whether a request may be sent again as it was: the broker has refused it for
// the moment only, or it may have arrived and repeating it does no harm (that is true
// of every request of a transaction except EndTxn of version 1).
func retriable(err error) bool {
	var code kafka.Error
	if errors.As(err, &code) {
		return retriableCode(code)
	}
	switch {
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return true // our metadata are older than the topic or the election; they are renewed every few seconds
	}
	return unanswered(err)
}

func retriableCode(code kafka.Error) bool {
	switch code {
	case kafka.InvalidMessage: // damaged on the way: the checksum did not match
	case kafka.UnknownTopicOrPartition: // created a moment ago, or its leader is moving
	case kafka.LeaderNotAvailable: // an election is under way
	case kafka.NotLeaderForPartition: // it moved; the metadata follow
	case kafka.RequestTimedOut: // the followers were slow; repeating is idempotent
	case kafka.BrokerNotAvailable, kafka.NetworkException: // it is restarting
	case kafka.GroupLoadInProgress: // the coordinator reads its log after a restart
	case kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup: // it moved; it is looked up again
	case kafka.NotEnoughReplicas: // nothing was written: too few followers are in sync
	case kafka.NotEnoughReplicasAfterAppend: // it was written; the same sequence is not written twice
	case kafka.ConcurrentTransactions: // the coordinator still ends the transaction before this one
	case kafka.KafkaStorageError: // a disk failed; another replica will lead
	case kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch: // an election is under way
	case kafka.ThrottlingQuotaExceeded: // asked to wait
	default:
		return false
	}
	return true
}

// fenced reports whether a refusal says that a newer producer has our transactional id.
func fenced(err error, version int) bool {
	var code kafka.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case kafka.ProducerFenced: // the coordinator's word: a newer epoch exists
	case kafka.InvalidProducerEpoch: // a partition leader's word for the same
		// In version 2 it may also be that the coordinator has ended the transaction for its age, which
		// costs no ownership. Ending it ourselves asks the coordinator.
		return version < 2
	default:
		// The embedded broker refuses a fenced producer's batch with InvalidTransactionState. That code has innocent
		// causes too, so it is not decided here: ending the transaction asks the coordinator, which answers
		// ProducerFenced if we are fenced.
		return false
	}
	return true
}

// revoked reports whether a refusal of offsets says that the group has moved on.
func revoked(err error) bool {
	var code kafka.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case kafka.IllegalGeneration: // there was a rebalance since the claim was made
	case kafka.UnknownMemberId: // we were thrown out: no heartbeat in time
	case kafka.RebalanceInProgress: // there is one now
	case kafka.FencedInstanceID: // another process has our group.instance.id
	default:
		return false
	}
	return true
}

// unanswered reports whether a request may or may not have been carried out: the connection broke
// or the answer did not come in time.
func unanswered(err error) bool {
	var code kafka.Error
	if errors.As(err, &code) {
		return code == kafka.RequestTimedOut || code == kafka.NetworkException
	}
	var network net.Error // refused, reset, timeout, name not found
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &network)
}

// classify wraps the errors that callers branch on in their sentinels.
func classify(err error, version int) error {
	if err != nil && fenced(err, version) && !errors.Is(err, ErrFenced) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}

// failure returns the error of an answer's code, nil for 0.
func failure(code int16) error {
	if code == 0 {
		return nil
	}
	return kafka.Error(code)
}

// failures keeps, of the codes of several partitions, the one that says most.
type failures struct {
	first error
	code  int16
}

func (f *failures) add(topic string, partition int32, code int16) {
	const notAttempted = 55 // because another partition was refused
	if code == 0 || f.first != nil && f.code != notAttempted {
		return
	}
	f.first, f.code = fmt.Errorf("%s/%d: %w", topic, partition, kafka.Error(code)), code
}
