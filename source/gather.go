package source

import (
	"context"
	"time"
)

// gathering decides when a batch is complete.
//
// Without a Rate that is GatherWait after its first message. With one, a batch takes what the brokers have when it is
// asked for, and waits for no more: the messages that come while one batch is worked on are the next, so that sizes
// follow the load. A batch that is not full rests for half as long as the one before it was worked on, GatherWait at
// most. A broker refuses a transaction while it writes the markers of the last one, and the longer that takes, the
// more it costs to ask too early.
//
// To have all that the brokers have, a batch goes on in two cases. After a response that ends before its partition
// does, the next one comes at once. And a lane reads ahead, so that its response may be stale, which means older than
// the batch: then the lane asks again, and the broker answers at once even if there is nothing.
type gathering struct {
	k      *Kafka
	timer  *time.Timer // nil: no time limit
	begun  bool        // the batch has messages, or its claim has moved
	rested time.Time   // end of the rest
	turned bool        // the batch has had its turn of the Rate
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
	if !g.begun && g.k.config.End == nil {
		g.stop()
		g.timer = time.NewTimer(g.k.config.GatherWait)
	}
	g.begun = true
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
	if !g.begun || !hurried || k.config.Rate == nil {
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
	if g.turned || !g.begun || g.k.config.Rate == nil {
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
