package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// worker is a member that does what a program does: it takes generations as they come.
type worker struct {
	group *source.Group
	gens  chan *source.Generation
	fail  chan error
	stop  context.CancelFunc
}

// join starts a worker; it gives each generation to gens and calls Done when the context ends.
func join(t *testing.T, c *kafkaconn.Cluster, config source.GroupConfig) *worker {
	t.Helper()
	config.Cluster = c
	g, err := source.JoinGroup(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &worker{group: g, gens: make(chan *source.Generation, 100), fail: make(chan error, 1), stop: cancel}
	go func() {
		defer close(w.gens)
		for {
			gen, err := g.Next(ctx)
			if err != nil {
				w.fail <- err
				return
			}
			w.gens <- gen
			select {
			case <-gen.Context().Done():
			case <-ctx.Done():
			}
			gen.Done()
		}
	}()
	return w
}

// leave ends the worker and waits for it.
func (w *worker) leave(t *testing.T) {
	t.Helper()
	w.stop()
	for range w.gens {
	}
	if err := w.group.Close(); err != nil {
		t.Error(err)
	}
}

// settle waits until every worker is in one generation whose partitions add up to n, and returns
// how many each has.
func settle(t *testing.T, n int, workers ...*worker) (shares []int) {
	t.Helper()
	now := make([]*source.Generation, len(workers))
	for ctx := within(t); ; {
		for i, w := range workers {
			for now[i] == nil || now[i].Context().Err() != nil {
				select {
				case now[i] = <-w.gens:
				case err := <-w.fail:
					t.Fatal(err)
				case <-ctx.Done():
					t.Fatalf("the group does not settle: %d workers, %v", len(workers), shares)
				}
			}
		}
		seen := make(map[source.Partition]bool)
		shares = shares[:0]
		same := true
		for _, g := range now {
			for _, p := range g.Partitions {
				seen[p] = true
			}
			shares = append(shares, len(g.Partitions))
			same = same && g.ID == now[0].ID
		}
		if same && len(seen) == n {
			slices.Sort(shares)
			return shares
		}
		time.Sleep(5 * time.Millisecond) // a member still holds an older generation
	}
}

func testGroup(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "group", 3, nil)
	c := open(t, b.Addrs()...)
	config := source.GroupConfig{Topics: []string{"group"}, Group: "workers", SessionTimeout: 6 * time.Second}
	one := join(t, c, config)
	if diff := cmp.Diff([]int{3}, settle(t, 3, one)); diff != "" {
		t.Error(diff)
	}
	two := join(t, c, config)
	if diff := cmp.Diff([]int{1, 2}, settle(t, 3, one, two)); diff != "" {
		t.Error(diff)
	}
	three := join(t, c, config)
	if diff := cmp.Diff([]int{1, 1, 1}, settle(t, 3, one, two, three)); diff != "" {
		t.Error(diff)
	}
	describe(t, c, "workers", 3)
	two.leave(t)
	one.leave(t)
	if diff := cmp.Diff([]int{3}, settle(t, 3, three)); diff != "" {
		t.Error(diff)
	}
	three.leave(t)
}

// describe reads the group as a lag tool does: through the bytes of the consumer protocol.
func describe(t *testing.T, c *kafkaconn.Cluster, group string, members int) {
	t.Helper()
	d, err := c.Client().DescribeGroups(within(t), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		t.Fatal(err)
	}
	var owned []string
	for _, m := range d.Groups[0].Members {
		for _, topic := range m.MemberAssignments.Topics {
			for _, p := range topic.Partitions {
				owned = append(owned, fmt.Sprintf("%s/%d", topic.Topic, p))
			}
		}
	}
	slices.Sort(owned)
	if len(d.Groups[0].Members) != members || strings.Join(owned, " ") != "group/0 group/1 group/2" {
		t.Errorf("%d members own %v, state %s", len(d.Groups[0].Members), owned, d.Groups[0].GroupState)
	}
}

// testStaticMember: a member with an instance id comes back to its partitions without a
// rebalance, and fences the process that still uses the id. New partitions are noticed also
// when all members have come back, none of them knowing that it leads.
func testStaticMember(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "static", 2, nil)
	c := open(t, b.Addrs()...)
	config := source.GroupConfig{Topics: []string{"static"}, Group: "static", InstanceID: "pod-0", SessionTimeout: 6 * time.Second, RefreshEvery: 100 * time.Millisecond}
	zero := join(t, c, config)
	config.InstanceID = "pod-1"
	one := join(t, c, config)
	if diff := cmp.Diff([]int{1, 1}, settle(t, 2, zero, one)); diff != "" {
		t.Error(diff)
	}
	again := join(t, c, config) // the other one with this id has not left
	gen := again.next(t)
	if len(gen.Partitions) != 1 || gen.Partitions[0].ID != 1 || gen.Claim().InstanceID != "pod-1" {
		t.Errorf("pod-1 came back to %v with the claim %+v, want partition 1", gen.Partitions, gen.Claim())
	}
	for range one.gens { // until Next fails
	}
	if err := <-one.fail; !errors.Is(err, source.ErrInstanceFenced) {
		t.Errorf("the fenced one got %v, want ErrInstanceFenced", err)
	}
	if err := one.group.Close(); err != nil {
		t.Error(err)
	}
	zero.leave(t) // it stays a member, and the leader of the group
	config.InstanceID = "pod-0"
	back := join(t, c, config)
	if gen := back.next(t); len(gen.Partitions) != 1 || gen.Partitions[0].ID != 0 {
		t.Errorf("pod-0 came back to %v, want partition 0", gen.Partitions)
	}
	b.AddPartitions(t, "static", 3)
	if diff := cmp.Diff([]int{1, 2}, settle(t, 3, again, back)); diff != "" {
		t.Error(diff)
	}
	again.leave(t)
	back.leave(t)
}

// testDerivedMember: with a name that was not configured, a member that closes leaves at once, as one without
// a name does, and one that stays away keeps its partitions for a session.
func testDerivedMember(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "derived", 2, nil)
	c := open(t, b.Addrs()...)
	config := source.GroupConfig{Topics: []string{"derived"}, Group: "derived", InstanceID: "host-0", SessionTimeout: 30 * time.Second}
	killed := join(t, c, config)
	if diff := cmp.Diff([]int{2}, settle(t, 2, killed)); diff != "" {
		t.Error(diff)
	}
	killed.leave(t) // with a name that was chosen: the group hears nothing, as of a process that is killed
	config.Derived = true
	again := join(t, c, config)
	if gen := again.next(t); len(gen.Partitions) != 2 || gen.Claim().InstanceID != "host-0" {
		t.Errorf("it came back to %v with the claim %+v", gen.Partitions, gen.Claim())
	}

	// Another host has the same name: it gets the partitions, and the former one becomes a member without
	// a name, so that both work and neither is forever taking the other's.
	other := join(t, c, config)
	if diff := cmp.Diff([]int{1, 1}, settle(t, 2, again, other)); diff != "" {
		t.Error(diff)
	}
	began := time.Now()
	other.leave(t)
	if diff := cmp.Diff([]int{2}, settle(t, 2, again)); diff != "" {
		t.Error(diff)
	}
	again.leave(t)
	last := join(t, c, config)
	if diff := cmp.Diff([]int{2}, settle(t, 2, last)); diff != "" {
		t.Error(diff)
	}
	if took := time.Since(began); took >= config.SessionTimeout {
		t.Errorf("partitions changed hands after %v: a session is %v", took, config.SessionTimeout)
	}
	last.leave(t)
}

// testLeaveWhileJoining: a member that is stopped before the group has answered it leaves too, although it
// has no id yet: only its name is known to both.
func testLeaveWhileJoining(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "joining", 2, nil)
	c := open(t, b.Addrs()...)
	config := source.GroupConfig{Topics: []string{"joining"}, Group: "joining", InstanceID: "host-0", Derived: true, SessionTimeout: 30 * time.Second}
	group, err := source.JoinGroup(within(t), source.GroupConfig{Cluster: c, Topics: config.Topics, Group: config.Group, InstanceID: "busy"})
	if err != nil {
		t.Fatal(err)
	}
	busy, err := group.Next(within(t)) // works, and so is long in joining again
	if err != nil {
		t.Fatal(err)
	}
	two := join(t, c, config)
	for len(b.Members(t, config.Group)) < 2 {
		time.Sleep(5 * time.Millisecond)
	}
	began := time.Now()
	two.leave(t)
	for len(b.Members(t, config.Group)) > 1 && time.Since(began) < config.SessionTimeout {
		time.Sleep(5 * time.Millisecond)
	}
	if took := time.Since(began); took > config.SessionTimeout/2 {
		t.Errorf("the group heard of it after %v", took)
	}
	busy.Done()
	if err := group.Close(); err != nil {
		t.Error(err)
	}
}
