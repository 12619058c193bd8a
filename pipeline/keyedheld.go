package pipeline

import (
	"container/list"
	"context"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// heldRows are rows that a model has not learnt yet. Those of a model in memory are learnt with the batch that they are of, at once.
// Others wait until they are worth to fetch the model for: it does not change before they fill a minibatch.
type heldRows struct {
	plan     *minibatch.Features // nil: there are none
	x        []float64
	ordinals []uint32 // of each row among the held ones, the invalid ones included
	offsets  []int64  // of each row's message: what a row completes has its place, wherever the rows behind it end
	all      uint32   // number of held rows with the invalid ones
}

const (
	fewestHeld = 8   // rows are held at least, before the model is fetched, however little memory there is
	mostFree   = 256 // empty buffers
)

func (h *heldRows) bytes() int64 { return int64(8*cap(h.x) + 4*cap(h.ordinals) + 8*cap(h.offsets)) }

// mostHeld is how many rows of a model that is not in memory are held at most: a minibatch, or fewer where held rows take too much.
func (k *KeyedLearn) mostHeld(dim int) int {
	rows := max(k.Learner.Minibatch, (dim+3)/4)
	return max(min(fewestHeld, rows), rows>>k.hurry)
}

// take holds rows of a message for their model: valid ones with their ordinals among all.
func (k *KeyedLearn) take(ctx context.Context, m *keyedModel, msg *source.Message, plan *minibatch.Features, x []float64, ordinals []uint32, all int) error {
	m.seen = msg.Time
	k.hear(m)
	if m.unsaved == nil {
		m.since, m.at, m.clock = msg.Offset, k.Now(), k.idle.before
		m.unsaved = k.addUnsaved(m)
	}
	h := &m.held
	if h.plan == nil {
		if n := len(k.free); n > 0 {
			*h, k.free = k.free[n-1], k.free[:n-1]
			k.weighHeld(h.bytes())
		}
		if h.plan = plan; m.one != nil {
			k.touched = append(k.touched, m)
		}
	}
	before := h.bytes()
	h.x = append(h.x, x...)
	for _, o := range ordinals {
		h.ordinals = append(h.ordinals, h.all+o)
		h.offsets = append(h.offsets, msg.Offset)
	}
	h.all += uint32(all)
	if after := h.bytes(); after != before {
		k.weighHeld(after - before)
	}
	if len(h.ordinals) >= k.mostHeld(plan.Dim()) {
		return k.learnHeld(ctx, m)
	}
	return nil
}

// addUnsaved puts a model among the unsaved ones, in the order of their first rows that are in no checkpoint. A batch is learnt model by model, in the
// order of their first messages. Where that of a model was passed over, its first row comes before one of another model that was written earlier.
func (k *KeyedLearn) addUnsaved(m *keyedModel) *list.Element {
	for e := k.unsaved.Back(); e != nil; e = e.Prev() {
		if e.Value.(*keyedModel).since <= m.since {
			return k.unsaved.InsertAfter(m, e)
		}
	}
	return k.unsaved.PushFront(m)
}

// learnHeld learns the rows that are held for a model.
func (k *KeyedLearn) learnHeld(ctx context.Context, m *keyedModel) error {
	h := m.held
	if h.plan == nil {
		return nil
	}
	if err := k.load(ctx, m, h.plan); err != nil {
		return err
	}
	m.held = heldRows{}
	err := k.learn(ctx, m, &h)
	k.weighHeld(-h.bytes())
	if len(k.free) < mostFree && h.bytes() < sliceNumbers {
		k.free = append(k.free, heldRows{x: h.x[:0], ordinals: h.ordinals[:0], offsets: h.offsets[:0]})
	}
	return err
}

// learnTouched learns what is held for models in memory.
func (k *KeyedLearn) learnTouched(ctx context.Context) error {
	for _, m := range k.touched {
		if err := k.learnHeld(ctx, m); err != nil {
			return err
		}
	}
	k.touched = k.touched[:0]
	return nil
}

func (k *KeyedLearn) weighHeld(bytes int64) {
	k.held += bytes
	k.share.add(bytes)
}
