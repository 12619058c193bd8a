package source

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Member is a member of a consumer group, as the group's coordinator knows it.
type Member struct {
	ID         string
	InstanceID string // "" if it has none
	ClientID   string
	Host       string      // its address
	Ours       bool        // it is this program: its subscription says so, or it has our client id
	Partitions []Partition // it has these, in the group's present generation
}

// String returns the member's name for a log: its instance id, or else the id that it was given.
func (m Member) String() string {
	name := m.InstanceID
	if name == "" {
		name = m.ID
	}
	return name + " (client id " + m.ClientID + ", at " + m.Host + ")"
}

// ourSubscription is the user data of our members' subscriptions. Those of the first release have none.
const ourSubscription = "lca-stream"

// Members returns the members of a group; a group that does not exist has none.
func Members(ctx context.Context, c *kafkaconn.Cluster, group string) ([]Member, error) {
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups = []string{group}
	m, err := c.Ask(ctx, kafkaconn.Question{Request: request, Group: group})
	if err != nil {
		return nil, err
	}
	var members []Member
	for _, g := range m.(*kmsg.DescribeGroupsResponse).Groups {
		if err := failure(g.ErrorCode); errors.Is(err, kafka.GroupIdNotFound) || g.State == "Dead" {
			return newMembers(ctx, c, group)
		} else if err != nil {
			return nil, err
		}
		for _, m := range g.Members {
			one := memberOf(c, m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, m.ProtocolMetadata)
			var a kmsg.ConsumerMemberAssignment
			if a.ReadFrom(m.MemberAssignment) == nil { // it is empty while the group divides its partitions
				for _, t := range a.Topics {
					one.has(t.Topic, t.Partitions)
				}
			}
			members = append(members, one)
		}
	}
	return members, nil
}

// newMembers asks about a group of the protocol of KIP-848, which a classic group becomes when a member of that
// protocol joins it. Brokers that do not know the protocol have no such groups.
func newMembers(ctx context.Context, c *kafkaconn.Cluster, group string) ([]Member, error) {
	request := kmsg.NewPtrConsumerGroupDescribeRequest()
	request.Groups = []string{group}
	m, err := c.Ask(ctx, kafkaconn.Question{Request: request, Group: group})
	if errors.Is(err, kafka.UnsupportedVersion) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var members []Member
	for _, g := range m.(*kmsg.ConsumerGroupDescribeResponse).Groups {
		if err := failure(g.ErrorCode); errors.Is(err, kafka.GroupIdNotFound) || errors.Is(err, kafka.UnsupportedVersion) {
			continue // Kafka 3.8 and 3.9 have the request, and mostly no coordinator for it
		} else if err != nil {
			return nil, err
		}
		for _, m := range g.Members {
			one := memberOf(c, m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, nil)
			for _, t := range m.Assignment.TopicPartitions {
				one.has(t.Topic, t.Partitions)
			}
			members = append(members, one)
		}
	}
	return members, nil
}

func memberOf(c *kafkaconn.Cluster, id string, instance *string, client, host string, subscription []byte) Member {
	m := Member{ID: id, ClientID: client, Host: strings.TrimPrefix(host, "/")} // Java writes addresses with a slash
	if instance != nil {
		m.InstanceID = *instance
	}
	var s kmsg.ConsumerMemberMetadata
	says := len(subscription) > 0 && s.ReadFrom(subscription) == nil && string(s.UserData) == ourSubscription
	m.Ours = says || client == c.ClientID()
	return m
}

func (m *Member) has(topic string, ids []int32) {
	for _, id := range ids {
		m.Partitions = append(m.Partitions, Partition{Topic: topic, ID: id})
	}
}

// Foreign returns the members that are not this program.
func Foreign(members []Member) (foreign []Member) {
	for _, m := range members {
		if !m.Ours {
			foreign = append(foreign, m)
		}
	}
	return foreign
}

// lookAround tells OnMembers who is in the group. Any member may look, because the leader may be of another program.
func (g *Group) lookAround(ctx context.Context, me string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	members, err := Members(ctx, g.config.Cluster, g.config.Group)
	if err != nil {
		g.config.Cluster.Log().Debug("who else is in the group is not known", "group", g.config.Group, "error", err)
		return
	}
	if ctx.Err() == nil {
		g.config.OnMembers(me, members)
	}
}
