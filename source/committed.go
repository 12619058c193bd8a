package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

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
