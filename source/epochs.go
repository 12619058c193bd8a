package source

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Epochs maps partitions to the leader epoch of the record before a position in them. A partition whose epoch is not
// known has no entry. From the epoch a reader notices that a log was truncated and has grown again (KIP-320): the
// offset alone would fit the new records.
type Epochs map[Partition]int32

// Clone returns a copy that shares nothing.
func (e Epochs) Clone() Epochs { return maps.Clone(e) }

// TruncatedError reports that records which were read are no longer in the log: a replica without them became the
// leader, or the disk that held them was lost. Other records may have taken their offsets, and those were not read.
type TruncatedError struct {
	Partition Partition
	Offset    int64 // to read next
	Epoch     int32 // of the record before it
	End       int64 // end of that epoch in the log now: records from End to Offset are lost
}

// Error says what was lost and what can be done about it.
func (e *TruncatedError) Error() string {
	return fmt.Sprintf("source: %s: the log was truncated: offsets %d to %d were read, and Kafka has lost these records since "+
		"(an unclean leader election, or a lost disk; leader epoch %d ends at %d now; or was the topic deleted and created again?); "+
		"new records may have taken their place: look at what was made of them, then say where to read on with `lca-stream offsets reset`", e.Partition, e.End, e.Offset-1, e.Epoch, e.End)
}

// noEpoch stands for an unknown leader epoch in Kafka's requests.
const noEpoch = -1

// trail is what a fetcher knows about leaders: who leads now, and in which epoch the last record was written.
type trail struct {
	leader  int32 // node id; -1: use the transport's layout
	epoch   int32 // leader epoch from the metadata; noEpoch: not known
	last    int32 // epoch of the record before the position; noEpoch: not known
	checked int32 // leader epoch in which the position was last checked
	asked   bool  // the leader was looked up
}

func newTrail(last int32) trail {
	return trail{leader: -1, epoch: noEpoch, last: last, checked: noEpoch}
}

// read notes the epoch of records that were read from the leader, whose log therefore has them.
func (t *trail) read(epoch int32) { t.last, t.checked = epoch, t.epoch }

// moved notes the leader.
func (t *trail) moved(p kafkaconn.Partition) { t.leader, t.epoch, t.asked = p.Leader, p.Epoch, true }

// check asks, once in each epoch of the leader, whether the log still has the record before the position. Fetches
// name the leader's epoch, so that nothing is read from a leader that was not checked.
func (f *Fetcher) check(ctx context.Context) error {
	t := &f.trail
	if !t.asked {
		if err := f.findLeader(ctx); err != nil {
			return err
		}
	}
	if t.last < 0 || t.epoch < 0 || t.checked == t.epoch {
		return nil
	}
	end, err := f.endOfEpoch(ctx)
	switch {
	case errors.Is(err, kafka.UnsupportedVersion): // a broker before Kafka 2.3 has no answer that a consumer may see
	case err != nil:
		return err
	case end >= 0 && end < f.next:
		return &TruncatedError{Partition: f.config.Partition, Offset: f.next, Epoch: t.last, End: end}
	}
	t.checked = t.epoch
	return nil
}

// endOfEpoch returns the offset at which the last record's epoch, or the last epoch before it, ends in the leader's
// log. It is at or behind the position, unless the log was truncated. It is -1 if the leader does not know.
func (f *Fetcher) endOfEpoch(ctx context.Context) (int64, error) {
	p := f.config.Partition
	request := kmsg.NewPtrOffsetForLeaderEpochRequest()
	request.ReplicaID = -1 // a consumer
	partition := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	partition.Partition, partition.CurrentLeaderEpoch, partition.LeaderEpoch = p.ID, f.trail.epoch, f.trail.last
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic, topic.Partitions = p.Topic, append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	const leastForReaders, most = 3, 4
	m, err := f.config.Cluster.Ask(ctx, kafkaconn.Question{
		Request: request, Least: leastForReaders, Most: most,
		Broker: func(c protocol.Cluster) (protocol.Broker, error) { return f.trail.broker(c, p) },
	})
	if err != nil {
		return 0, err
	}
	for _, t := range m.(*kmsg.OffsetForLeaderEpochResponse).Topics {
		for _, a := range t.Partitions {
			if t.Topic != p.Topic || a.Partition != p.ID {
				continue
			}
			if a.ErrorCode != 0 {
				return 0, kafka.Error(a.ErrorCode)
			}
			return a.EndOffset, nil
		}
	}
	return 0, fmt.Errorf("the broker's answer lacks %s", p)
}

// broker routes a request to the leader.
func (t *trail) broker(c protocol.Cluster, p Partition) (protocol.Broker, error) {
	if t.leader < 0 {
		return kafkaconn.Leader(c, p.Topic, p.ID)
	}
	b, ok := c.Brokers[t.leader]
	if !ok {
		return protocol.Broker{}, protocol.NewErrNoLeader(p.Topic, p.ID)
	}
	return b, nil
}

// noTopicID stands for an id that is not known, or that brokers do not have (before Kafka 2.8).
var noTopicID [16]byte

// RecreatedError reports that a topic was deleted and created again under its name. Nothing of the new one was read,
// because fetches name the id of the old one, which brokers no longer know.
type RecreatedError struct {
	Topic   string
	Was, Is string // ids, see Note
	Remedy  string // see FetcherConfig
}

// remedyRecreated is what to do where positions are those of the old topic.
const remedyRecreated = "`lca-stream offsets show` says what is known of the old one, and `lca-stream offsets reset --to earliest` begins with the new one"

// Error says what happened and what can be done about it.
func (e *RecreatedError) Error() string {
	text := fmt.Sprintf("topic %s was deleted and created again: what is read is the topic with id %s, and the id is now %s; nothing of the new topic was read", e.Topic, e.Was, e.Is)
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// Unwrap returns the error code that a broker gives for the old id. At first the cause may only be old metadata.
func (e *RecreatedError) Unwrap() error { return kafka.UnknownTopicID }

// same compares the topic's id in the metadata with that of the fetches. A fetcher without an id takes it from the
// metadata until it has read something.
func (f *Fetcher) same(id [16]byte) error {
	switch {
	case id == noTopicID || id == f.topic:
		return nil
	case f.topic == noTopicID || !f.bound:
		f.topic = id
		return nil
	}
	return &RecreatedError{Topic: f.config.Partition.Topic, Was: topicID(f.topic), Is: topicID(id), Remedy: f.config.Remedy}
}

// replaced reports whether metadata have shown another id for the topic for too long for a broker that only lags behind.
func (r *retry) replaced(err error) bool {
	if !errors.As(err, new(*RecreatedError)) {
		r.other = time.Time{}
		return false
	}
	if r.other.IsZero() {
		r.other = time.Now()
	}
	return time.Since(r.other) > min(lookupGrace, r.limit)
}

// parseTopicID is the inverse of topicID; other texts give noTopicID.
func parseTopicID(text string) (id [16]byte) {
	if b, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(b) == len(id) {
		id = [16]byte(b)
	}
	return id
}
