package source_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Members that are not this program are told in each generation, whichever member leads the group; members of ours
// under another client id are not among them, nor are those of the first edition, which have no user data.
func testForeignMembers(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "foreign", 3, nil)
	told := make(chan []source.Member, 100)
	config := source.GroupConfig{Topics: []string{"foreign"}, Group: "shared", OnMembers: func(me string, all []source.Member) {
		told <- source.Foreign(all)
		if !slices.ContainsFunc(all, func(m source.Member) bool { return m.ID == me && m.Ours }) {
			t.Errorf("%s is not among the members %v", me, all)
		}
	}}
	one := join(t, open(t, b.Addrs()...), config)
	renamed, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs(), ClientID: "another-name"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(renamed.Close)
	two := join(t, renamed, source.GroupConfig{Topics: config.Topics, Group: config.Group})
	settle(t, 3, one, two)
	awaitForeign(t, told)
	other, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumerGroup("shared"), kgo.ConsumeTopics("foreign"),
		kgo.ClientID("billing"), kgo.Balancers(kgo.RangeBalancer()), kgo.InstanceID("billing-0"))
	if err != nil {
		t.Fatal(err)
	}
	awaitForeign(t, told, "billing")
	members, err := source.Members(within(t), open(t, b.Addrs()...), "shared")
	if foreign := source.Foreign(members); err != nil || len(members) != 3 || len(foreign) != 1 || foreign[0].InstanceID != "billing-0" || foreign[0].Host[0] == '/' {
		t.Errorf("members are %v: %v", members, err)
	}
	awaitShares(t, "shared", open(t, b.Addrs()...), 3)
	other.LeaveGroup()
	other.Close()
	two.leave(t)
	one.leave(t)
	if members, err := source.Members(within(t), open(t, b.Addrs()...), "unused"); err != nil || len(members) > 0 {
		t.Errorf("a group that does not exist has the members %v: %v", members, err)
	}
}

// awaitShares waits until the members of a group are said to have n partitions, each by one of them.
func awaitShares(t *testing.T, group string, c *kafkaconn.Cluster, n int) {
	t.Helper()
	for ctx := within(t); ; {
		members, err := source.Members(ctx, c, group)
		if err != nil {
			t.Fatal(err)
		}
		owners, twice := map[source.Partition]string{}, 0
		for _, m := range members {
			for _, p := range m.Partitions {
				if owners[p] != "" {
					twice++
				}
				owners[p] = m.ID
			}
		}
		if len(owners) == n && twice == 0 {
			return
		}
	}
}

// awaitForeign waits until a generation has these foreign members, by client id.
func awaitForeign(t *testing.T, told <-chan []source.Member, clients ...string) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case members := <-told:
			var ids []string
			for _, m := range members {
				ids = append(ids, m.ClientID)
			}
			if slices.Equal(ids, clients) {
				return
			}
		case <-deadline:
			t.Fatalf("the members %v were not told", clients)
		}
	}
}
