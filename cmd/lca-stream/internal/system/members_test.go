package system

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// The status page lists this process first and the others by name, with their partitions of the source, and of a large
// group only the first.
func TestInstancesOfAGroup(t *testing.T) {
	s := &Process{System: &System{Topics: &Topics{Config: config.Default(), Stats: stats.NewStats(), Log: slog.New(slog.DiscardHandler)}}}
	s.Config.Source.Topic = "events"
	if n := s.names(); n.Members != 0 || n.Instances == nil || len(n.Instances) > 0 {
		t.Errorf("before the group is known: %+v", n)
	}
	members := []source.Member{
		{ID: "b-1", InstanceID: "b", Host: "10.0.0.2", Ours: true, Partitions: []source.Partition{{Topic: "events", ID: 10}, {Topic: "other", ID: 1}, {Topic: "events", ID: 2}}},
		{ID: "a-1", Host: "10.0.0.1"},
		{ID: "me-1", InstanceID: "me", Ours: true},
	}
	s.seen("me-1", members)
	all := s.names().Instances
	if len(all) != 3 || all[0].Name != "me" || !all[0].This || all[0].Partitions == nil || all[1].Name != "a-1" || !all[1].Foreign || all[1].This {
		t.Errorf("instances are %+v", all)
	} else if b := all[2]; b.Name != "b" || b.Host != "10.0.0.2" || b.Foreign || !slices.Equal(b.Partitions, []int32{2, 10}) {
		t.Errorf("the third instance is %+v", b)
	}
	if n := s.Stats.ForeignMembers.Load(); n != 1 {
		t.Errorf("%d members are of another program, want 1", n)
	}
	for i := range 200 {
		members = append(members, source.Member{ID: fmt.Sprint("more-", i), Ours: true})
	}
	s.seen("me-1", members)
	if n := s.names(); n.Members != 203 || len(n.Instances) != 100 || !n.Instances[0].This {
		t.Errorf("%d of %d members are listed", len(n.Instances), n.Members)
	}
}
