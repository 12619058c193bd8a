package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

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
