package source_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source"
)

// next returns the worker's next generation.
func (w *worker) next(t *testing.T) *source.Generation {
	t.Helper()
	select {
	case gen, more := <-w.gens:
		if !more {
			t.Fatal(<-w.fail)
		}
		return gen
	case err := <-w.fail:
		t.Fatal(err)
	case <-within(t).Done():
		t.Fatal("no generation")
	}
	return nil
}

func groupOf() source.GroupConfig {
	return source.GroupConfig{Topics: []string{"t"}, Group: "g", SessionTimeout: time.Second}
}

// TestJoinRetries: joining gets over what passes by itself.
func TestJoinRetries(t *testing.T) {
	for name, trouble := range map[string]func(*testing.T, *kfake.Cluster){
		"coordinator loads":      faults(kmsg.JoinGroup, kerr.CoordinatorLoadInProgress),
		"no coordinator yet":     faults(kmsg.FindCoordinator, kerr.CoordinatorNotAvailable),
		"coordinator moved":      faults(kmsg.JoinGroup, kerr.NotCoordinator),
		"removed while joining":  faults(kmsg.SyncGroup, kerr.UnknownMemberID),
		"group moved on":         faults(kmsg.SyncGroup, kerr.RebalanceInProgress),
		"generation is over":     faults(kmsg.SyncGroup, kerr.IllegalGeneration),
		"coordinator moved late": faults(kmsg.SyncGroup, kerr.NotCoordinator),
	} {
		t.Run(name, func(t *testing.T) {
			c := fake(t)
			trouble(t, c)
			w := join(t, open(t, c.ListenAddrs()...), groupOf())
			if gen := w.next(t); len(gen.Partitions) != 3 {
				t.Errorf("partitions %v", gen.Partitions)
			}
			w.leave(t)
		})
	}
}

// A member that could read joins again once its right to the group is back.
func TestJoinWaitsForARightThatItHad(t *testing.T) {
	c := fake(t)
	faults(kmsg.JoinGroup, kerr.GroupAuthorizationFailed)(t, c)
	cluster := open(t, c.ListenAddrs()...)
	cluster.Allow()
	w := join(t, cluster, groupOf())
	if gen := w.next(t); len(gen.Partitions) != 3 {
		t.Errorf("partitions %v", gen.Partitions)
	}
	w.leave(t)
}

// TestTroubleDuringARebalance: a broker that hangs up after the group has moved on is waited for like any other.
func TestTroubleDuringARebalance(t *testing.T) {
	for _, first := range []*kerr.Error{kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.IllegalGeneration} {
		t.Run(first.Message, func(t *testing.T) {
			c := fake(t)
			asked := 0
			c.ControlKey(int16(kmsg.SyncGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				switch asked++; asked {
				case 1:
					res := r.ResponseKind().(*kmsg.SyncGroupResponse)
					res.ErrorCode = first.Code
					return res, nil, true
				case 2:
					return nil, errors.New("cut"), true
				}
				return nil, nil, false
			})
			w := join(t, open(t, c.ListenAddrs()...), groupOf())
			if gen := w.next(t); len(gen.Partitions) != 3 || asked < 3 {
				t.Errorf("partitions %v after %d requests", gen.Partitions, asked)
			}
			w.leave(t)
		})
	}
}

func TestJoinErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*kfake.Cluster, *source.GroupConfig)
		want   error
		text   string
	}{
		{"session timeout", func(_ *kfake.Cluster, g *source.GroupConfig) { g.SessionTimeout = time.Millisecond }, kafka.InvalidSessionTimeout, "group.min.session.timeout.ms"},
		{"not allowed", func(c *kfake.Cluster, _ *source.GroupConfig) {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1})
		}, kafka.GroupAuthorizationFailed, "needs READ on the group"},
		{"other members", func(c *kfake.Cluster, _ *source.GroupConfig) {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.InconsistentGroupProtocol, Count: -1})
		}, kafka.InconsistentGroupProtocol, "source.group"},
		{"forever", func(c *kfake.Cluster, g *source.GroupConfig) {
			g.RetryFor = 20 * time.Millisecond
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorNotAvailable, Count: -1})
		}, kafka.GroupCoordinatorNotAvailable, "gave up after"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker := fake(t)
			config := groupOf()
			c.change(broker, &config)
			config.Cluster = open(t, broker.ListenAddrs()...)
			g, err := source.JoinGroup(within(t), config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Next(within(t))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), `join group "g"`) {
				t.Errorf("got %v, want one that says %q", err, c.text)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	broker := fake(t)
	_, err := source.JoinGroup(within(t), source.GroupConfig{Cluster: open(t, broker.ListenAddrs()...), Group: "g", Topics: []string{"missing"}})
	if !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("an unknown topic: %v", err)
	}
}

// TestHeartbeatsReachTheCoordinator: of three brokers only one will do, also after it has changed.
func TestHeartbeatsReachTheCoordinator(t *testing.T) {
	c := fake(t)
	w := join(t, open(t, c.ListenAddrs()...), groupOf())
	gen := w.next(t)
	for range 3 {
		beats := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Nodes: []int32{c.CoordinatorFor("g")}, Observe: true, Count: -1})
		if err := beats.Wait(within(t), 3); err != nil {
			t.Fatal(err)
		}
		beats.Remove()
		c.RehashCoordinators()
	}
	if err := gen.Context().Err(); err != nil {
		t.Errorf("the generation has ended: %v", context.Cause(gen.Context()))
	}
	w.leave(t)
}

// TestMemberLost: however membership is lost, the generation ends, and the member joins again.
func TestMemberLost(t *testing.T) {
	for name, trouble := range map[string]func(*testing.T, *kfake.Cluster) (cured func()){
		"unknown": func(t *testing.T, c *kfake.Cluster) func() {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID})
			return func() {}
		},
		"generation is over": func(t *testing.T, c *kfake.Cluster) func() {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.IllegalGeneration})
			return func() {}
		},
		"no answer for a session": func(t *testing.T, c *kfake.Cluster) func() {
			silent := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.NotCoordinator, Count: -1})
			return silent.Remove
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake(t)
			w := join(t, open(t, c.ListenAddrs()...), groupOf())
			gen := w.next(t)
			cured := trouble(t, c)
			select {
			case <-gen.Context().Done():
			case <-within(t).Done():
				t.Fatal("the generation does not end")
			}
			if err := context.Cause(gen.Context()); !errors.Is(err, source.ErrMemberLost) {
				t.Errorf("ended with %v, want ErrMemberLost", err)
			}
			cured()
			if again := w.next(t); len(again.Partitions) != 3 || again.ID <= gen.ID && again.Member == gen.Member {
				t.Errorf("came back as %+v, was %+v", again.Claim(), gen.Claim())
			}
			w.leave(t)
		})
	}
}

// TestTopicGrows: the leader notices new partitions, and they are read.
func TestTopicGrows(t *testing.T) {
	c := fake(t)
	cl := open(t, c.ListenAddrs()...)
	config := groupOf()
	config.RefreshEvery = 10 * time.Millisecond
	w := join(t, cl, config)
	gen := w.next(t)
	res, err := cl.Client().CreatePartitions(within(t), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: "t", Count: 5}}})
	if err != nil || res.Errors["t"] != nil {
		t.Fatal(err, res)
	}
	if again := w.next(t); len(again.Partitions) != 5 {
		t.Errorf("partitions %v, want 5", again.Partitions)
	}
	if err := context.Cause(gen.Context()); !errors.Is(err, source.ErrRebalance) || !strings.Contains(err.Error(), "from 3 to 5") {
		t.Errorf("the first ended with %v", err)
	}
	w.leave(t)
}

// TestNextWaitsForDone: the partitions are not given up before the work on them is.
func TestNextWaitsForDone(t *testing.T) {
	c := fake(t)
	config := groupOf()
	config.Cluster = open(t, c.ListenAddrs()...)
	g, err := source.JoinGroup(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	gen, err := g.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	joins := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Observe: true, Count: -1})
	beats := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, Count: -1})
	<-gen.Context().Done()
	if err := context.Cause(gen.Context()); !errors.Is(err, source.ErrRebalance) {
		t.Errorf("ended with %v, want ErrRebalance", err)
	}
	came := make(chan error, 1)
	go func() {
		_, err := g.Next(within(t))
		came <- err
	}()
	if err := beats.Wait(within(t), beats.Hits()+2); err != nil { // it still says that it lives
		t.Fatal(err)
	}
	if joins.Hits() != 0 {
		t.Error("it joined before Done")
	}
	beats.Remove()
	gen.Done()
	if err := <-came; err != nil {
		t.Fatal(err)
	}
	if joins.Hits() == 0 {
		t.Error("it did not join after Done")
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
