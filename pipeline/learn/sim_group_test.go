package learn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// The times of source.GroupConfig and of a broker.
const (
	simSession   = 10 * time.Second
	simRebalance = 30 * time.Second
	simTimeout   = 60 * time.Second // of transactions
)

// simGroup is a group's coordinator: the eager protocol, static members included.
type simGroup struct {
	topic      string
	generation int32
	members    map[string]*simMember // by member id
	preparing  bool
	since      time.Time // when it began to prepare
	names      int
}

type simMember struct {
	id, instance string
	p            *proc
	heard        time.Time // of its last heartbeat
	joined       bool      // waits for the next generation
	share        []source.Partition
	divided      int // partitions that the topic had then
}

var errInstanceFenced = &reject.Stop{Err: source.ErrInstanceFenced}

func (g *simGroup) prepare() {
	if !g.preparing {
		g.preparing, g.since = true, time.Now()
	}
}

// join takes a member in, one that comes again, or one that takes the place of a static one.
func (g *simGroup) join(m *simMember, id string) string {
	if known := g.members[id]; known != nil {
		known.joined, known.heard = true, time.Now()
		g.prepare()
		return id
	}
	g.names++
	m.id, m.heard = fmt.Sprintf("%s-%d", m.instance, g.names), time.Now()
	for old, o := range g.members {
		if m.instance != "" && o.instance == m.instance {
			delete(g.members, old)
			m.share, m.divided = o.share, o.divided
			g.members[m.id] = m
			if !g.preparing && o.share != nil {
				return m.id // the others notice nothing
			}
		}
	}
	g.members[m.id] = m
	m.joined = true
	g.prepare()
	return m.id
}

// tick lets sessions expire, and divides the partitions when all members are there, or has had the time.
func (g *simGroup) tick(b *simBroker) {
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		if m := g.members[id]; !m.p.dead && !m.p.ended && m.p.frozen == 0 {
			m.heard = time.Now()
		} else if time.Since(m.heard) >= simSession {
			delete(g.members, id)
			g.prepare()
		}
	}
	if !g.preparing {
		return
	}
	late := time.Since(g.since) >= simRebalance
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		switch {
		case g.members[id].joined:
		case late:
			delete(g.members, id)
		default:
			return
		}
	}
	g.divide(b.partitions(g.topic))
}

// divide gives each member a run of neighbouring partitions, as Kafka's range assignor does.
func (g *simGroup) divide(parts []source.Partition) {
	g.generation++
	g.preparing = false
	members := slices.SortedFunc(maps.Values(g.members), func(a, b *simMember) int {
		return strings.Compare(a.instance+a.id, b.instance+b.id)
	})
	for i, m := range members {
		from := func(i int) int { return i*(len(parts)/len(members)) + min(i, len(parts)%len(members)) }
		m.share, m.joined, m.divided = parts[from(i):from(i+1)], false, len(parts)
		if m.share == nil {
			m.share = []source.Partition{}
		}
	}
}

// refuses reports whether offsets of a claim are not taken.
func (g *simGroup) refuses(c source.Claim) bool {
	return g.members[c.Member] == nil || g.generation != c.Generation
}

// simMembers is membership of a process, as cmd's is over source.Group.
type simMembers struct {
	p        *proc
	group    string
	topic    string
	instance string
	id       string
	current  *simOwnership
}

// simOwnership is a generation of one member.
type simOwnership struct {
	ctx    context.Context
	cancel context.CancelFunc
	claim  source.Claim
	share  []source.Partition
	count  int
}

func (o *simOwnership) Context() context.Context { return o.ctx }

func (o *simOwnership) Claim() source.Claim { return o.claim }

func (o *simOwnership) Owned() []source.Partition { return o.share }

func (o *simOwnership) Done() { o.cancel() }

func (m *simMembers) Next(ctx context.Context) (pipeline.Ownership, error) {
	m.current = nil
	s := m.p.sim
	if s.groups[m.group] == nil {
		s.groups[m.group] = &simGroup{topic: m.topic, members: map[string]*simMember{}}
	}
	g := s.groups[m.group]
	for {
		err := m.p.ask(ctx, " group", "join", nil, func() {
			m.id = g.join(&simMember{instance: m.instance, p: m.p}, m.id)
		})
		if err == nil {
			var o *simOwnership
			settled := func() bool { mine := g.members[m.id]; return mine == nil || !mine.joined }
			err = m.p.ask(ctx, " group", "sync", settled, func() { o = m.owned(g) })
			if err == nil && o != nil {
				m.current = o
				return o, nil
			}
		}
		switch {
		case errors.Is(err, fixtures.ErrCrash):
			if !retry.Sleep(ctx, 100*time.Millisecond) {
				return nil, ctx.Err()
			}
		case err != nil:
			return nil, err
		case m.replaced(g):
			return nil, errInstanceFenced
		default:
			m.id = "" // removed meanwhile: join as a new member
		}
	}
}

func (m *simMembers) owned(g *simGroup) *simOwnership {
	mine := g.members[m.id]
	if mine == nil {
		return nil
	}
	o := &simOwnership{share: mine.share, count: mine.divided}
	o.claim = source.Claim{Group: m.group, Member: m.id, InstanceID: m.instance, Generation: g.generation}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// replaced reports whether another process has joined with the same instance id.
func (m *simMembers) replaced(g *simGroup) bool {
	for _, o := range g.members {
		if m.instance != "" && o.instance == m.instance && o.p != m.p {
			return true
		}
	}
	return false
}

// heartbeat ends the generation when the coordinator says so, or when it must have a new one by now.
func (m *simMembers) heartbeat(g *simGroup, partitions int) {
	o := m.current
	if o == nil {
		return
	}
	if g.preparing || g.refuses(o.claim) || partitions > o.count {
		o.cancel()
	}
}

// oneOwner is a static list of partitions, as cmd's staticMembers.
type oneOwner struct {
	ctx   context.Context
	group string
	parts []source.Partition
	given bool
}

func (o *oneOwner) Next(ctx context.Context) (pipeline.Ownership, error) {
	if o.given {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	o.given = true
	return o, nil
}

func (o *oneOwner) Context() context.Context { return o.ctx }

func (o *oneOwner) Claim() source.Claim { return source.Claim{Group: o.group, Generation: -1} }

func (o *oneOwner) Owned() []source.Partition { return o.parts }

func (o *oneOwner) Done() {}
