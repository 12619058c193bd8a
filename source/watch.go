package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// watch ends the generation when a topic gets more partitions, because they would not be read otherwise. The leader
// knows what it has divided. A static member that has come back without a rebalance may lead the group without being
// told, so it asks for the division. When a member that does not lead joins again, the coordinator changes nothing.
func (g *Group) watch(ctx context.Context, gen *Generation, divided map[string][]Partition) {
	ticker := time.NewTicker(g.config.RefreshEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if divided == nil {
			divided = g.divided(ctx)
		}
		now, err := g.partitions(ctx, slices.Collect(maps.Keys(divided)))
		if err != nil {
			continue // the heartbeats notice if it matters
		}
		for name, parts := range now {
			if len(parts) > len(divided[name]) {
				gen.cancel(fmt.Errorf("%w: topic %q has grown from %d to %d partitions", ErrRebalance, name, len(divided[name]), len(parts)))
				return
			}
		}
	}
}

// divided returns the partitions that the members hold, as the coordinator knows them; nil if it does not answer, or
// the group is dividing them again.
func (g *Group) divided(ctx context.Context) map[string][]Partition {
	found, err := g.config.Cluster.Client().DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{g.config.Group}})
	if err != nil || len(found.Groups) != 1 || found.Groups[0].Error != nil || found.Groups[0].GroupState != "Stable" {
		return nil
	}
	topics := make(map[string][]Partition)
	for _, m := range found.Groups[0].Members {
		for _, topic := range m.MemberAssignments.Topics {
			for _, id := range topic.Partitions {
				topics[topic.Topic] = append(topics[topic.Topic], Partition{Topic: topic.Topic, ID: int32(id)})
			}
		}
	}
	return topics
}
