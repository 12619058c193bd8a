package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Why a generation's context ended, from context.Cause.
var (
	ErrRebalance  = errors.New("source: the group is dividing its partitions again")
	ErrMemberLost = errors.New("source: the group has removed this member")
	ErrGroupLeft  = errors.New("source: the group was left")
)

// ErrInstanceFenced is returned by Next when another process has joined with the same instance id.
// It owns the partitions now: stop.
var ErrInstanceFenced = errors.New("source: another process has joined the group with this instance id")

// GroupConfig says which group to join. Zero times take their defaults.
type GroupConfig struct {
	Cluster *kafkaconn.Cluster
	Topics  []string // topics whose partitions are shared out
	Group   string

	// InstanceID makes the member static: when it restarts within SessionTimeout it gets its partitions back, without
	// a rebalance (KIP-345). It must be unique, like the name of a StatefulSet's pod. If it is empty, a member that leaves
	// gives its partitions to the others at once.
	InstanceID string

	// Derived says that InstanceID was derived, not configured. Then a member that closes leaves the group at once,
	// and one whose name is also another process's stays a member without it.
	Derived bool

	// OnMembers, unless nil, is called in each generation with this member's id and all members of the group. Those
	// that are not this program get partitions too, whose records this program does not see: see Foreign.
	OnMembers func(me string, all []Member)

	SessionTimeout   time.Duration // without a heartbeat for this long the member is out; default 10 s
	RebalanceTimeout time.Duration // time that members have to finish their work; default 30 s
	RefreshEvery     time.Duration // how often the leader looks for new partitions; default 30 s
	RetryFor         time.Duration // brokers may be away this long; default 1 min
}

// Group is membership in a consumer group. One goroutine calls Next, works, and calls Next again:
//
//	for {
//		gen, err := group.Next(ctx)
//		if err != nil { … }
//		work(gen.Context(), gen.Partitions) // until the context ends
//		gen.Done()
//	}
//
// A rebalance is eager, as in Kafka's first protocol: all members stop, then the partitions are
// divided. That fits partitions whose owner must be fenced by a transactional id first.
type Group struct {
	config  GroupConfig
	member  string // id given by the coordinator; "" before that
	joining bool   // joining and not answered yet: the coordinator may know a member with our InstanceID
	current *Generation
}

// Generation is the time between two rebalances: the partitions are divided in one way.
type Generation struct {
	ID         int32
	Member     string
	Partitions []Partition // partitions to read, in order; may be empty

	group  string
	static string
	leader bool
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	once   sync.Once

	beating context.CancelFunc // ends the goroutines of begin
	wait    sync.WaitGroup
}

// Context ends when the partitions must be given up. Work that is under way may be finished within RebalanceTimeout:
// until Done, the coordinator is told that the member is alive.
func (g *Generation) Context() context.Context { return g.ctx }

// Done says that nothing is read or written for this generation any more. Next waits for it.
func (g *Generation) Done() { g.once.Do(func() { close(g.done) }) }

// Claim returns the claim that a sink commits for this generation. The caller fills in Next.
func (g *Generation) Claim() Claim {
	return Claim{Group: g.group, Member: g.Member, InstanceID: g.static, Generation: g.ID}
}

// JoinGroup checks the configuration and the topics. The first call of Next joins.
func JoinGroup(ctx context.Context, c GroupConfig) (*Group, error) {
	if c.Group == "" || len(c.Topics) == 0 {
		return nil, errors.New("source: a group needs a name and topics")
	}
	c.SessionTimeout = orDefault(c.SessionTimeout, 10*time.Second)
	c.RebalanceTimeout = orDefault(c.RebalanceTimeout, 30*time.Second)
	c.RefreshEvery = orDefault(c.RefreshEvery, 30*time.Second)
	c.RetryFor = orDefault(c.RetryFor, retryFor)
	for _, topic := range c.Topics {
		if _, err := Partitions(ctx, c.Cluster, topic); err != nil {
			return nil, err
		}
	}
	return &Group{config: c}, nil
}

// Next waits for the former generation's Done, joins, and returns when the partitions are divided.
func (g *Group) Next(ctx context.Context) (*Generation, error) {
	if g.current != nil {
		select {
		case <-g.current.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		g.current.end(ErrRebalance)
		g.current = nil
	}
	r := newRetry(g.config.Cluster, g.config.RetryFor, fmt.Sprintf("join group %q", g.config.Group))
	for {
		gen, err := g.join(ctx)
		if err == nil {
			r.succeeded()
			g.current = gen
			return gen, nil
		}
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, kafka.FencedInstanceID) && g.config.Derived:
			g.nameless()
			err = r.answered(ctx)
		case errors.Is(err, kafka.FencedInstanceID):
			err = fmt.Errorf("%w: group %q, instance %q", ErrInstanceFenced, g.config.Group, g.config.InstanceID)
		case errors.Is(err, kafka.MemberIDRequired): // KIP-394: the answer holds the id
			r.succeeded()
			err = nil
		case errors.Is(err, kafka.UnknownMemberId): // removed meanwhile: join as a new member
			g.member = ""
			err = r.answered(ctx)
		case errors.Is(err, kafka.RebalanceInProgress), errors.Is(err, kafka.IllegalGeneration): // the group has moved on
			err = r.answered(ctx)
		default:
			err = r.again(ctx, explainGroup(err))
		}
		if err != nil {
			return nil, err
		}
	}
}

// nameless removes the instance id of a member whose derived name another process has too, on a host of the same
// name. Joining again under it would take the partitions from the other process, which would then do the same.
func (g *Group) nameless() {
	g.config.Cluster.Log().Warn("another process is a member under the derived instance id; going on without one: "+
		"set source.instance_id to a name of its own for each process", "group", g.config.Group, "instance_id", g.config.InstanceID)
	g.config.InstanceID, g.config.Derived, g.member = "", false, ""
}

// Close leaves the group, so that the others get the partitions at once. A member with a configured InstanceID stays
// in the group until SessionTimeout, so that it can come back. Call it after Done.
func (g *Group) Close() error {
	if g.current != nil {
		g.current.end(ErrGroupLeft)
		g.current = nil
	}
	chosen := g.config.InstanceID != "" && !g.config.Derived
	if chosen || g.member == "" && !(g.joining && g.config.Derived) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := g.leave(ctx)
	g.member = ""
	if err != nil && !errors.Is(err, kafka.UnknownMemberId) {
		return fmt.Errorf("source: leave group %q: %w", g.config.Group, g.config.Cluster.Explain(err))
	}
	return nil
}

// join runs one round of the protocol: join, divide the partitions if elected leader, and receive the assignment.
func (g *Group) join(ctx context.Context) (*Generation, error) {
	c := g.config
	waiting, cancel := context.WithTimeout(ctx, c.RebalanceTimeout+kafkaconn.RequestTimeout)
	defer cancel()
	// The broker answers when all members have joined.
	g.joining = true
	joined, err := c.Cluster.Patient().JoinGroup(waiting, &kafka.JoinGroupRequest{
		GroupID:          c.Group,
		SessionTimeout:   c.SessionTimeout,
		RebalanceTimeout: c.RebalanceTimeout,
		MemberID:         g.member,
		GroupInstanceID:  c.InstanceID,
		ProtocolType:     "consumer",
		Protocols:        []kafka.GroupProtocol{{Name: rangeProtocol, Metadata: kafka.GroupProtocolSubscription{Topics: c.Topics, UserData: []byte(ourSubscription)}}},
	})
	if err != nil {
		return nil, err
	}
	g.joining = false
	if joined.MemberID != "" {
		g.member = joined.MemberID
	}
	if joined.Error != nil {
		return nil, joined.Error
	}
	gen := &Generation{
		ID:     int32(joined.GenerationID),
		Member: g.member,
		group:  c.Group,
		static: c.InstanceID,
		leader: joined.LeaderID == g.member,
		done:   make(chan struct{}),
	}
	request := &kafka.SyncGroupRequest{
		GroupID:         c.Group,
		GenerationID:    joined.GenerationID,
		MemberID:        g.member,
		GroupInstanceID: c.InstanceID,
		ProtocolType:    "consumer",
		ProtocolName:    rangeProtocol,
	}
	var topics map[string][]Partition
	if gen.leader {
		if topics, err = g.partitions(waiting, subscribedTopics(joined.Members)); err != nil {
			return nil, err
		}
		for id, share := range assignRange(joined.Members, topics) {
			request.Assignments = append(request.Assignments, kafka.SyncGroupRequestAssignment{
				MemberID:   id,
				Assignment: kafka.GroupProtocolAssignment{AssignedPartitions: share},
			})
		}
	}
	synced, err := c.Cluster.Patient().SyncGroup(waiting, request)
	if err != nil {
		return nil, err
	}
	if synced.Error != nil {
		return nil, synced.Error
	}
	for topic, ids := range synced.Assignment.AssignedPartitions {
		for _, id := range ids {
			gen.Partitions = append(gen.Partitions, Partition{Topic: topic, ID: int32(id)})
		}
	}
	slices.SortFunc(gen.Partitions, Partition.Compare)
	g.begin(gen, topics)
	return gen, nil
}

// partitions looks up the topics. Those that do not exist are left out, because another member may subscribe to one
// that is not there yet.
func (g *Group) partitions(ctx context.Context, names []string) (map[string][]Partition, error) {
	if len(names) == 0 {
		return nil, nil
	}
	found, err := g.config.Cluster.Metadata(ctx, names...)
	if err != nil {
		return nil, err
	}
	topics := make(map[string][]Partition)
	for name, topic := range found {
		for _, id := range slices.Sorted(maps.Keys(topic.Partitions)) {
			topics[name] = append(topics[name], Partition{Topic: name, ID: id})
		}
	}
	return topics, nil
}

// explainGroup adds advice to refusals that only a change of configuration can cure.
func explainGroup(err error) error {
	switch {
	case errors.Is(err, kafka.InvalidSessionTimeout):
		return fmt.Errorf("%w: the session timeout must lie between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms", err)
	case errors.Is(err, kafka.InconsistentGroupProtocol):
		return fmt.Errorf("%w: members with another way of dividing partitions are in this group: choose another source.group", err)
	}
	return err
}
