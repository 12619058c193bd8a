package source

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// At is a place in a partition: one of the constants, or a time made by AtTime.
type At int64

// Places that move as the partition grows.
const (
	Latest       At = -1 // the end: behind the last record, committed or not (the high watermark)
	Earliest     At = -2 // the first available record
	LatestStable At = -3 // the end for a read_committed reader: before the first open transaction
)

// AtTime is the place of the first record with a timestamp at or after t.
func AtTime(t time.Time) At { return At(max(t.UnixMilli(), 0)) }

// OffsetError reports that a partition does not have the requested record: retention has deleted it, or the topic was
// deleted and created again. What to do then is the operator's decision.
type OffsetError struct {
	Partition  Partition
	Offset     int64 // the requested offset
	Start, End int64 // available range: any offset with Start <= offset <= End can be requested
}

// Error says which of the two it is.
func (e *OffsetError) Error() string {
	if e.Offset > e.End {
		return fmt.Sprintf("source: %s: offset %d is asked for but the partition ends at %d: was the topic deleted and created again, or a disk lost? See `lca-stream offsets show`, and say where to read on with `lca-stream offsets reset`", e.Partition, e.Offset, e.End)
	}
	lost := fmt.Sprintf("%d records that were not read", e.Start-e.Offset)
	if e.Start-e.Offset == 1 {
		lost = "a record that was not read"
	}
	return fmt.Sprintf("source: %s: offset %d is asked for but the partition starts at %d: retention has deleted %s", e.Partition, e.Offset, e.Start, lost)
}

// errNoAnswer says that the end of a partition is not known.
var errNoAnswer = errors.New("its leader does not answer, or it has none")

// Topic is a topic as a broker knows it now.
type Topic struct {
	ID         string // see Note; "" if the brokers have no ids
	Partitions []Partition
}

// LookUp returns a topic with its partitions in order, or an error if there is no such topic. It asks a broker, so a
// topic that was just created is found.
func LookUp(ctx context.Context, c *kafkaconn.Cluster, name string) (Topic, error) {
	r := newRetry(c, retryFor, fmt.Sprintf("look up topic %q", name))
	r.grace, r.hangUps = lookupGrace, hangUpGrace
	return retrying(ctx, r, func(ctx context.Context) (Topic, error) {
		found, err := c.Metadata(ctx, name)
		if err != nil {
			return Topic{}, err
		}
		if err := found[name].Err; err != nil {
			return Topic{}, err
		}
		topic := Topic{ID: topicID(found[name].ID)}
		for id := range found[name].Partitions {
			topic.Partitions = append(topic.Partitions, Partition{Topic: name, ID: id})
		}
		if len(topic.Partitions) == 0 {
			return Topic{}, kafka.LeaderNotAvailable
		}
		slices.SortFunc(topic.Partitions, Partition.Compare)
		return topic, nil
	})
}

// Partitions returns the partitions that LookUp finds.
func Partitions(ctx context.Context, c *kafkaconn.Cluster, topic string) ([]Partition, error) {
	t, err := LookUp(ctx, c, topic)
	return t.Partitions, err
}

// ListOffsets returns the offset of a place in each partition. A time behind the last record gives the end, as a
// reader expects, where Kafka itself answers -1.
func ListOffsets(ctx context.Context, c *kafkaconn.Cluster, parts []Partition, at At) (Offsets, error) {
	offsets, err := listOffsets(ctx, c, parts, at)
	if err != nil || at < 0 {
		return offsets, err
	}
	var past []Partition
	for p, next := range offsets {
		if next < 0 {
			past = append(past, p)
		}
	}
	if len(past) == 0 {
		return offsets, nil
	}
	ends, err := listOffsets(ctx, c, past, Latest)
	for p, next := range ends {
		offsets[p] = next
	}
	return offsets, err
}

func listOffsets(ctx context.Context, c *kafkaconn.Cluster, parts []Partition, at At) (Offsets, error) {
	request, at := offsetsRequest(parts, at)
	r := newRetry(c, retryFor, "look up offsets")
	return retrying(ctx, r, func(ctx context.Context) (Offsets, error) { return answered(ctx, c, request, at, parts) })
}

// Ends returns the ends of the partitions whose leaders answer, in one try: one without a leader does not hide those of
// the others.
func Ends(ctx context.Context, c *kafkaconn.Cluster, parts []Partition) Offsets {
	ctx, cancel := context.WithTimeout(ctx, kafkaconn.RequestTimeout)
	defer cancel()
	request, at := offsetsRequest(parts, Latest)
	ends, _ := answered(ctx, c, request, at, parts)
	return ends
}

// offsetsRequest returns the request for a place, and how kafka-go calls that.
func offsetsRequest(parts []Partition, at At) (*kafka.ListOffsetsRequest, At) {
	request := &kafka.ListOffsetsRequest{Topics: make(map[string][]kafka.OffsetRequest)}
	if at == LatestStable {
		request.IsolationLevel, at = kafka.ReadCommitted, Latest
	}
	for _, p := range parts {
		request.Topics[p.Topic] = append(request.Topics[p.Topic], kafka.OffsetRequest{Partition: int(p.ID), Timestamp: int64(at)})
	}
	return request, at
}

// answered returns what the leaders have said, and the error of the first partition without an answer.
func answered(ctx context.Context, c *kafkaconn.Cluster, request *kafka.ListOffsetsRequest, at At, parts []Partition) (Offsets, error) {
	response, err := c.Client().ListOffsets(ctx, request)
	if errors.Is(err, kafka.BrokerNotAvailable) { // kafka-go: none of them has a leader
		return nil, fmt.Errorf("%s: %w", parts[0], errNoAnswer)
	}
	if err != nil {
		return nil, err
	}
	offsets := make(Offsets, len(parts))
	for topic, list := range response.Topics {
		for _, o := range list {
			p := Partition{Topic: topic, ID: int32(o.Partition)}
			switch {
			case errors.Is(o.Error, kafka.Unknown): // kafka-go: the request to the leader failed, and its error is lost
				err = fmt.Errorf("%s: %w", p, errNoAnswer)
			case o.Error != nil:
				err = fmt.Errorf("%s: %w", p, o.Error)
			default:
				offsets[p] = listed(o, at)
			}
		}
	}
	if err == nil {
		err = missing(offsets, parts)
	}
	return offsets, err
}

// listed returns the answer from kafka-go's structure; -1 if there is none.
func listed(o kafka.PartitionOffsets, at At) int64 {
	switch at {
	case Latest:
		return o.LastOffset
	case Earliest:
		return o.FirstOffset
	}
	for next := range o.Offsets {
		return next
	}
	return -1
}

// missing returns an error for the first partition that the broker left out of its answer.
func missing[T any](found map[Partition]T, parts []Partition) error {
	for _, p := range parts {
		if _, ok := found[p]; !ok {
			return fmt.Errorf("the broker's answer lacks %s", p)
		}
	}
	return nil
}

// Position is what a group has committed for one partition.
type Position struct {
	Next     int64  // the offset to read next; -1: nothing committed
	Epoch    int32  // leader epoch of the record before it; -1: not known
	Metadata string // what was committed with it, see Claim.Metadata
}

// Committed returns what a group has committed, with Next -1 for partitions without an offset.
//
// For exactly-once reading, call it after the sink has fenced the former owner. Before, that owner's last transaction
// may still commit. After, the transaction is over, but the coordinator may not show its offsets yet: before 3.9.1
// and 4.0, Kafka makes them visible after it has answered (KAFKA-17507). So only stable offsets are requested, and
// unstable ones waited for (KIP-447: OffsetFetch version 7, of Kafka 2.5).
func Committed(ctx context.Context, c *kafkaconn.Cluster, group string, parts []Partition) (map[Partition]Position, error) {
	return committed(ctx, c, group, parts, true)
}

// CommittedSoFar is Committed for one who only looks: an open transaction, which may change the offsets, is not waited for.
func CommittedSoFar(ctx context.Context, c *kafkaconn.Cluster, group string, parts []Partition) (map[Partition]Position, error) {
	return committed(ctx, c, group, parts, false)
}

func committed(ctx context.Context, c *kafkaconn.Cluster, group string, parts []Partition, stable bool) (map[Partition]Position, error) {
	r := newRetry(c, retryFor, fmt.Sprintf("read the committed offsets of group %q", group))
	return retrying(ctx, r, func(ctx context.Context) (map[Partition]Position, error) {
		found, err := askCommitted(ctx, c, group, parts, stable)
		if errors.Is(err, kafka.UnsupportedVersion) {
			return nil, fmt.Errorf("brokers must be Apache Kafka 2.5 or newer, or speak its protocol: older ones cannot say which offsets are final: %w", err)
		}
		return found, err
	})
}

// stableVersion is the first version of OffsetFetch with RequireStable, and the last that asks about a single group.
// Later ones add nothing that is needed here.
const stableVersion = 7

func askCommitted(ctx context.Context, c *kafkaconn.Cluster, group string, parts []Partition, stable bool) (map[Partition]Position, error) {
	ctx, cancel := context.WithTimeout(ctx, kafkaconn.RequestTimeout)
	defer cancel()
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group, request.RequireStable = group, stable
	at := make(map[string]int)
	for _, p := range parts {
		i, ok := at[p.Topic]
		if !ok {
			i = len(request.Topics)
			at[p.Topic] = i
			request.Topics = append(request.Topics, kmsg.OffsetFetchRequestTopic{Topic: p.Topic})
		}
		request.Topics[i].Partitions = append(request.Topics[i].Partitions, p.ID)
	}
	m, err := c.Ask(ctx, kafkaconn.Question{Request: request, Least: stableVersion, Most: stableVersion, Group: group})
	if err != nil {
		return nil, err
	}
	response := m.(*kmsg.OffsetFetchResponse)
	found := make(map[Partition]Position, len(parts))
	switch code := kafka.Error(response.ErrorCode); {
	case code == kafka.GroupIdNotFound:
		// The embedded broker answers so for a group that has committed nothing; Kafka returns offsets of -1.
		for _, p := range parts {
			found[p] = Position{Next: -1, Epoch: -1}
		}
		return found, nil
	case code != 0:
		return nil, code
	}
	for _, t := range response.Topics {
		for _, o := range t.Partitions {
			p := Partition{Topic: t.Topic, ID: o.Partition}
			if o.ErrorCode != 0 {
				return nil, fmt.Errorf("%s: %w", p, kafka.Error(o.ErrorCode))
			}
			position := Position{Next: o.Offset, Epoch: o.LeaderEpoch}
			if o.Metadata != nil {
				position.Metadata = *o.Metadata
			}
			found[p] = position
		}
	}
	return found, missing(found, parts)
}

// Note is what we commit with an offset: the id of its topic, because a name may be given to another topic later. As
// text it is JSON, {"v":1,"topic_id":"TUB3yqJWQDW3a-zhzGQ5ZA"}, with the id in Kafka's own spelling (kafka-topics.sh
// --describe), left out if the brokers have no ids. A learner adds "model", the model it learns, because a transform
// must not go on from there. One of models by key adds "models" instead: the topic of their checkpoints, "/" and what their ids
// begin with. A transform adds "since", what it has written (see Outputs), and what it keeps of series (see States). Earlier releases pass over that.
type Note struct {
	Version int     `json:"v"`
	TopicID string  `json:"topic_id,omitempty"`
	Model   string  `json:"model,omitempty"`
	Models  string  `json:"models,omitempty"`
	Since   Since   `json:"since,omitempty"`
	States  *States `json:"states,omitempty"`

	*Outputs // of a transform; nil: an earlier release has committed it
}

// Outputs say what a transform had written when it committed an offset, so that a later reader of the topics can tell whether the transaction that carried
// the offset was committed. Brokers before Kafka 3.9.1 may show the offset of one that was aborted (KAFKA-17507).
type Outputs struct {
	// All input before From was done before this transaction. What is made of later input is after Ends, by topic.
	From int64          `json:"from"`
	Ends map[string]End `json:"ends,omitempty"`
}

// End is where the partition of a topic ended before a transaction.
type End struct {
	TopicID   string `json:"topic_id,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Written is the offset of the input after the last one that this transaction has written something of there; 0: it has written nothing there.
	Written int64 `json:"written,omitempty"`
}

// States are the topic of what is kept of the series of a partition, and from which offset of its partition on records were there.
type States struct {
	Topic   string `json:"topic"`
	TopicID string `json:"topic_id,omitempty"`
	Begin   int64  `json:"begin"`
}

// Since says, for each topic that a transform writes what it makes of a partition to, from which offset of the topic's
// partition on that was made after the position was last set by hand, or at the first start: what is before it says
// nothing about where the transform is.
type Since map[string]int64

const noteVersion = 1

// NewNote returns the note for an offset in a topic; model is "" except for a learner of one model.
func NewNote(topicID, model string) Note {
	return Note{Version: noteVersion, TopicID: topicID, Model: model}
}

// String returns the text that is committed.
func (n Note) String() string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // numbers and texts can always be encoded
	}
	return string(text)
}

// ParseNote parses a committed text. A text that is not ours, or the empty one of the first release, gives Version 0.
// A newer version than this program knows is an error, because it may forbid to go on.
func ParseNote(text string) (Note, error) {
	var n Note
	if err := json.Unmarshal([]byte(text), &n); err != nil || n.Version < 1 {
		return Note{}, nil
	}
	if n.Version > noteVersion {
		return Note{}, fmt.Errorf("source: the committed offset has metadata of version %d and this program reads %d: a newer lca-stream has committed it", n.Version, noteVersion)
	}
	return n, nil
}

// topicID spells an id as Kafka does; "" is that of a broker without ids.
func topicID(id [16]byte) string {
	if id == noTopicID {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// OffsetRetention asks how long brokers keep an offset that is not committed again, once its group has no members:
// offsets.retention.minutes of a broker that leads partitions of the topic. The request needs the right
// DescribeConfigs on the cluster.
func OffsetRetention(ctx context.Context, c *kafkaconn.Cluster, topic string) (time.Duration, error) {
	const name = "offsets.retention.minutes"
	topics, err := c.Metadata(ctx, topic)
	if err != nil {
		return 0, err
	}
	broker := int32(-1)
	for _, p := range topics[topic].Partitions {
		broker = max(broker, p.Leader)
	}
	if broker < 0 {
		return 0, fmt.Errorf("source: %s: %w", topic, errors.Join(kafka.LeaderNotAvailable, topics[topic].Err))
	}
	answer, err := c.Client().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
		ResourceType: kafka.ResourceTypeBroker, ResourceName: strconv.Itoa(int(broker)), ConfigNames: []string{name},
	}}})
	if err != nil {
		return 0, fmt.Errorf("source: ask broker %d for %s: %w", broker, name, err)
	}
	for _, r := range answer.Resources {
		if r.Error != nil {
			return 0, fmt.Errorf("source: ask broker %d for %s: %w", broker, name, r.Error)
		}
		for _, e := range r.ConfigEntries {
			minutes, err := strconv.Atoi(e.ConfigValue)
			if e.ConfigName == name && err == nil && minutes > 0 {
				return time.Duration(min(minutes, math.MaxInt64/int(time.Minute))) * time.Minute, nil // a Duration ends at 292 years
			}
		}
	}
	return 0, fmt.Errorf("source: broker %d does not say what its %s is", broker, name)
}
