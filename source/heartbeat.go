package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

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
