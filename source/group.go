package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

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
		"give each host a name of its own", "group", g.config.Group, "instance_id", g.config.InstanceID)
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

const (
	// beatsPerSession is the least number of heartbeats in a session timeout. All but one of them may be late or
	// lost, while the processor is busy with mathematics, before the member is removed.
	beatsPerSession = 5

	// maxBeat bounds how long a member takes to notice a rebalance, for which all others wait.
	maxBeat = time.Second
)

// begin starts the goroutines of a generation: heartbeats, a look at the other members, and the watch for new
// partitions if the member leads the group or may lead it. Generation.end waits for all of them.
func (g *Group) begin(gen *Generation, topics map[string][]Partition) {
	gen.ctx, gen.cancel = context.WithCancelCause(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	gen.beating = cancel
	gen.wait.Go(func() { g.beat(ctx, gen) })
	if g.config.OnMembers != nil {
		gen.wait.Go(func() { g.lookAround(ctx, gen.Member) })
	}
	if gen.leader || gen.static != "" {
		gen.wait.Go(func() { g.watch(ctx, gen, topics) })
	}
}

// end ends the context and the goroutines of a generation.
func (g *Generation) end(why error) {
	g.cancel(why)
	g.beating()
	g.wait.Wait()
}

// beat tells the coordinator that the member is alive, also while it finishes its work after the generation's context
// has ended. The context ends when the coordinator says so, and when no heartbeat was answered for a session timeout:
// the partitions then belong to others, even if the network keeps that from us.
func (g *Group) beat(ctx context.Context, gen *Generation) {
	session := g.config.SessionTimeout
	every := min(session/beatsPerSession, maxBeat)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	alive := time.Now() // when the last answered request was sent
	expire := func() {
		if silent := time.Since(alive); silent >= session {
			gen.cancel(fmt.Errorf("%w: no heartbeat was answered for %s", ErrMemberLost, silent.Round(time.Millisecond)))
		}
	}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		expire() // first, because after a long suspension there may be no time for an answer
		sent := time.Now()
		err := g.heartbeat(ctx, gen, max(min(session/2, time.Until(alive.Add(session))), every))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			alive = sent
		case errors.Is(err, kafka.RebalanceInProgress):
			alive = sent
			gen.cancel(ErrRebalance)
		case errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.IllegalGeneration), errors.Is(err, kafka.FencedInstanceID):
			gen.cancel(fmt.Errorf("%w: %w", ErrMemberLost, err))
			return
		default:
			expire()
		}
	}
}

func (g *Group) heartbeat(ctx context.Context, gen *Generation, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := kmsg.NewPtrHeartbeatRequest()
	request.Group, request.Generation, request.MemberID = g.config.Group, gen.ID, gen.Member
	request.InstanceID = named(gen.static)
	m, err := g.ask(ctx, request)
	if err != nil {
		return err
	}
	return failure(m.(*kmsg.HeartbeatResponse).ErrorCode)
}

// leave removes the member from the group, so that the others divide its partitions at once.
func (g *Group) leave(ctx context.Context) error {
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.InstanceID = g.member, named(g.config.InstanceID)
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group, request.MemberID = g.config.Group, g.member // MemberID: for brokers before Kafka 2.4
	request.Members = append(request.Members, member)
	m, err := g.ask(ctx, request)
	if err != nil {
		return err
	}
	response := m.(*kmsg.LeaveGroupResponse)
	if err := failure(response.ErrorCode); err != nil {
		return err
	}
	for _, m := range response.Members {
		if err := failure(m.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// ask sends the coordinator a Heartbeat or LeaveGroup. kafka-go decodes the answers to these two with throttle time
// and error code swapped, so that it never sees an error. It also sends a Heartbeat to any broker.
func (g *Group) ask(ctx context.Context, request kmsg.Request) (kmsg.Response, error) {
	return g.config.Cluster.Ask(ctx, kafkaconn.Question{Request: request, Group: g.config.Group})
}

// named returns an instance id as kmsg takes it: nil is none.
func named(instance string) *string {
	if instance == "" {
		return nil
	}
	return &instance
}

func failure(code int16) error {
	if code == 0 {
		return nil
	}
	return kafka.Error(code)
}

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

func subscribedTopics(members []kafka.JoinGroupResponseMember) []string {
	var topics []string
	for _, m := range members {
		topics = append(topics, m.Metadata.Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

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
