package source

import (
	"slices"
	"strings"

	"github.com/segmentio/kafka-go"
)

// rangeProtocol is the name that Kafka's own clients give to this assignment, so that tools which show groups know
// it.
const rangeProtocol = "range"

// assignRange gives each member a run of neighbouring partitions of every topic it subscribes to; if the numbers do
// not divide, the first members get one more. It is Kafka's RangeAssignor, with the same order of members, so that a
// leader of another implementation assigns the same.
func assignRange(members []kafka.JoinGroupResponseMember, topics map[string][]Partition) map[string]map[string][]int {
	members = slices.Clone(members)
	slices.SortFunc(members, compareMembers)
	assigned := make(map[string]map[string][]int, len(members))
	for _, m := range members {
		assigned[m.ID] = make(map[string][]int)
	}
	for topic, parts := range topics {
		var subscribed []string
		for _, m := range members {
			if slices.Contains(m.Metadata.Topics, topic) {
				subscribed = append(subscribed, m.ID)
			}
		}
		for i, id := range subscribed {
			share := parts[from(i, len(parts), len(subscribed)):from(i+1, len(parts), len(subscribed))]
			for _, p := range share {
				assigned[id][topic] = append(assigned[id][topic], int(p.ID))
			}
		}
	}
	return assigned
}

// from returns the index of the first of n partitions that the i-th of m members gets.
func from(i, n, m int) int { return i*(n/m) + min(i, n%m) }

// compareMembers puts static members first, by their instance id: then a restart, which changes
// the member id, does not change who gets what.
func compareMembers(a, b kafka.JoinGroupResponseMember) int {
	switch {
	case a.GroupInstanceID != "" && b.GroupInstanceID != "":
		return strings.Compare(a.GroupInstanceID, b.GroupInstanceID)
	case a.GroupInstanceID != "":
		return -1
	case b.GroupInstanceID != "":
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}

// subscribedTopics returns the topics that any member subscribes to.
func subscribedTopics(members []kafka.JoinGroupResponseMember) []string {
	var topics []string
	for _, m := range members {
		topics = append(topics, m.Metadata.Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}
