package system

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/status"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// RebalanceTimeout is how long members may finish their work before a group divides its partitions without them. A
// loop gets less time, so that it is back in time.
const RebalanceTimeout = 30 * time.Second

// Members joins the consumer group of the transforms, or returns the static list of partitions.
func (s *Process) Members(ctx context.Context) (pipeline.Members, func(), error) {
	return s.MembersOf(ctx, s.Config.Source.Group, true)
}

// MembersOf does so for any group. shown: it is the one of the status page.
func (s *Process) MembersOf(ctx context.Context, group string, shown bool) (pipeline.Members, func(), error) {
	c := s.Config.Source
	if len(c.Partitions) > 0 {
		parts, err := s.Input(ctx)
		return &staticMembers{ctx: ctx, group: group, parts: parts}, func() {}, err
	}
	name, err := newInstance(s.Config, group)
	if err != nil {
		s.Log.Warn("this member of the group has no name: after a crash its partitions wait for the session to end", "error", err)
	}
	joining := source.GroupConfig{
		Cluster: s.Cluster, Topics: []string{c.Topic}, Group: group, InstanceID: name.id, Derived: name.id != "",
		RebalanceTimeout: RebalanceTimeout, RetryFor: patience,
	}
	if shown {
		joining.OnMembers = s.seen
	}
	g, err := source.JoinGroup(ctx, joining)
	if err != nil {
		name.release()
		return nil, nil, s.Cluster.Explain(err)
	}
	if shown {
		s.instance.Store(&name.id)
	}
	s.Log.Info("joining the group", "group", group, "instance_id", name.id)
	leave := func() {
		defer name.release()
		if err := g.Close(); err != nil {
			s.Log.Debug("leaving the group", "error", err)
		}
	}
	return &groupMembers{group: g}, leave, nil
}

// groupMembers returns the generations of a consumer group.
type groupMembers struct {
	group *source.Group
}

// Next waits for the next generation.
func (m *groupMembers) Next(ctx context.Context) (pipeline.Ownership, error) {
	g, err := m.group.Next(ctx)
	if err != nil {
		return nil, err
	}
	return generation{g}, nil
}

type generation struct{ *source.Generation }

// Owned returns the partitions of this member in this generation.
func (g generation) Owned() []source.Partition { return g.Partitions }

// staticMembers owns its partitions until the process ends.
type staticMembers struct {
	ctx   context.Context
	group string
	parts []source.Partition
	given bool
}

// Next returns the static list once, and then waits for the end.
func (m *staticMembers) Next(ctx context.Context) (pipeline.Ownership, error) {
	if m.given {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m.given = true
	return m, nil
}

// Context never ends before the process does.
func (m *staticMembers) Context() context.Context { return m.ctx }

// Claim returns the claim of a group without members.
func (m *staticMembers) Claim() source.Claim { return source.Claim{Group: m.group, Generation: -1} }

// Owned returns the static list.
func (m *staticMembers) Owned() []source.Partition { return m.parts }

// Done does nothing.
func (m *staticMembers) Done() {}

// mostInstances bounds what the status page lists.
const mostInstances = 100

// seen keeps the members of the group for the status page, and says which are not this program.
func (s *Process) seen(me string, members []source.Member) {
	s.foreign(source.Foreign(members))
	all := instances(me, s.Config.Source.Topic, members)
	s.sharing.Store(&all)
}

// instances describes members for the status page: first this one, and then the others by name.
func instances(me, topic string, members []source.Member) []status.Instance {
	all := make([]status.Instance, 0, len(members))
	for _, m := range members {
		one := status.Instance{Name: cmp.Or(m.InstanceID, m.ID), Host: m.Host, Partitions: []int32{}, This: m.ID == me, Foreign: !m.Ours}
		for _, p := range m.Partitions {
			if p.Topic == topic {
				one.Partitions = append(one.Partitions, p.ID)
			}
		}
		slices.Sort(one.Partitions)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b status.Instance) int {
		if a.This {
			return -1
		} else if b.This {
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return all
}

// foreign logs which members of the group are not this program.
func (s *Process) foreign(members []source.Member) {
	s.Stats.ForeignMembers.Store(int64(len(members)))
	if len(members) > 0 {
		s.Log.Warn("another application is a member of source.group: it takes partitions, whose records are not whitened; give it a group of its own",
			"group", s.Config.Source.Group, "members", MemberNames(members))
	}
}

// MemberNames returns the names of members, at most five of them.
func MemberNames(members []source.Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.String()
	}
	return app.Shortened(names, 5)
}
