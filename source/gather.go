package source

import (
	"context"
	"time"
)

// gathering decides when a batch is complete.
//
// Without a Rate that is GatherWait after its first message. With one, a batch has what the brokers had when it was
// asked for, and waits for no more: its size follows the load, because what comes while its owner is busy with it is
// the next one. The longer its owner is busy, the longer the next one rests before it is given: half that time. A
// broker refuses a transaction whose predecessor it is still writing to the log, and then waiting for some messages
// costs less than asking again.
//
// Two things make a batch go on. After a response that did not reach the end of its partition the next one comes at
// once. And a lane reads ahead: what it holds may have come long before the batch was asked for. After such a
// stale response the lane asks once more, and is answered at once even if there is nothing.
type gathering struct {
	k      *Kafka
	timer  *time.Timer // nil: there is no hurry
	begun  bool        // there is something in the batch, or its claim has moved
	rested time.Time   // until then it rests, unless it is full
	turned bool        // it has had its turn of the Rate
}

// gather begins a batch.
func (k *Kafka) gather() *gathering {
	k.reads.Add(1)
	g := &gathering{k: k}
	if !k.given.IsZero() {
		now := time.Now()
		g.rested = now.Add(min(now.Sub(k.given)/2, k.config.GatherWait))
	}
	if k.config.IdleWait > 0 && k.config.End == nil {
		g.timer = time.NewTimer(k.config.IdleWait)
	}
	return g
}

// begin notes a portion: from the first one on the batch may take GatherWait.
func (g *gathering) begin() {
	if g.begun || g.k.config.End != nil {
		g.begun = true
		return
	}
	g.begun = true
	if g.timer == nil {
		g.timer = time.NewTimer(0)
	}
	g.timer.Reset(g.k.config.GatherWait)
}

func (g *gathering) timeout() <-chan time.Time {
	if g.timer == nil {
		return nil
	}
	return g.timer.C
}

// next returns what comes into the batch next; nil: it is complete. hurried: there is something to write.
func (g *gathering) next(ctx context.Context, hurried bool) (*portion, error) {
	k := g.k
	if !g.begun || !hurried || k.config.Rate == nil || k.config.End != nil {
		return k.portion(ctx, g.timeout())
	}
	if k.due > 0 {
		if p, err := k.portion(ctx, g.timeout()); p != nil || err != nil {
			return p, err
		}
	}
	g.turn(ctx, g.rested)
	select { // what came while it waited for its turn
	case p := <-k.shared:
		g.timer.Reset(k.config.GatherWait)
		return k.received(p)
	default:
		return nil, nil
	}
}

// turn waits for the batch's turn of the Rate, and at least until then.
func (g *gathering) turn(ctx context.Context, then time.Time) {
	if g.turned || !g.begun || g.k.config.Rate == nil || g.k.config.End != nil {
		return
	}
	g.turned = true
	if d := max(g.k.config.Rate.reserve(time.Now()), time.Until(then)); d > 0 {
		_ = sleep(ctx, d) // at the end of ctx there is all the more reason to go on with what there is
		g.k.reads.Add(1)
	}
}

func (g *gathering) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
}
