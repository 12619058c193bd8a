package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

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
	return fmt.Sprintf("source: %s: offset %d is asked for but the partition starts at %d: retention has deleted %d records that were not read", e.Partition, e.Offset, e.Start, e.Start-e.Offset)
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
