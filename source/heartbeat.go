package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/heartbeat"

	"github.com/lca-stream/lca-stream/internal/cluster"
)

const (
	// beatsPerSession is how many heartbeats fit into a session timeout at least: so many less one
	// may be late or lost, when the processor is busy with mathematics, before the member is out.
	beatsPerSession = 5

	// maxBeat bounds how long a member takes to notice a rebalance, for which all others wait.
	maxBeat = time.Second
)

// begin starts what accompanies a generation: heartbeats, and if it leads the group, or may, the watch
// for new partitions. Generation.end waits for both.
func (g *Group) begin(gen *Generation, topics map[string][]Partition) {
	gen.ctx, gen.cancel = context.WithCancelCause(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	gen.beating = cancel
	gen.wait.Go(func() { g.beat(ctx, gen) })
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

// beat tells the coordinator that the member lives, also while it finishes its work after the
// generation's context has ended. The context ends when the coordinator says so, and when no
// heartbeat was answered for a session timeout: the partitions then belong to others, whatever
// the network hides from us.
func (g *Group) beat(ctx context.Context, gen *Generation) {
	session := g.config.SessionTimeout
	every := min(session/beatsPerSession, maxBeat)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	alive := time.Now() // when the last request was sent that was answered
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
		expire() // first: after a long suspension there may be no time for an answer
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
	return g.tell(ctx, &heartbeat.Request{
		GroupID:         g.config.Group,
		GenerationID:    gen.ID,
		MemberID:        gen.Member,
		GroupInstanceID: g.config.InstanceID,
	})
}

// tell sends the coordinator a Heartbeat or LeaveGroup. kafka-go decodes the answers to these two
// with throttle time and error code the wrong way round, so that it never sees an error; and it
// sends a Heartbeat to any broker.
func (g *Group) tell(ctx context.Context, m protocol.Message) error {
	answer, err := g.config.Cluster.Send(ctx, cluster.Request{
		Group:   g.config.Group,
		Message: m,
		Read: func(in io.Reader, version int16) (protocol.Message, error) {
			return readAnswer(in, version, m.ApiKey())
		},
	})
	if err != nil {
		return err
	}
	if code := answer.(*groupAnswer).code; code != 0 {
		return code
	}
	return nil
}

// groupAnswer is the beginning, the same in both, of the responses to Heartbeat and LeaveGroup.
type groupAnswer struct {
	key  protocol.ApiKey
	code kafka.Error
}

// ApiKey makes it a protocol.Message.
func (a *groupAnswer) ApiKey() protocol.ApiKey { return a.key }

func readAnswer(in io.Reader, version int16, key protocol.ApiKey) (protocol.Message, error) {
	const enough = 64 << 10
	b, err := readResponse(in, enough, nil)
	if err != nil {
		return nil, err
	}
	w := wire{b: b.bytes}
	w.skip(4) // correlation id
	if version >= 4 {
		w.skip(1) // tagged fields of the header: none are defined
	}
	if version >= 1 {
		w.skip(4) // throttle time
	}
	a := &groupAnswer{key: key, code: kafka.Error(w.int16())}
	if w.failed {
		return nil, fmt.Errorf("the answer to %s does not parse", key)
	}
	return a, nil
}
