package pipeline

import (
	"fmt"
	"sync"
)

// openings reports a member as ready once all of its partitions are open. Until then the rows of the others are not
// whitened by any process.
type openings struct {
	stats *Stats // nil: not shown

	mu    sync.Mutex // a leaf in the lock order; keeps the notes in the order of events
	owned int
	open  int
}

// own begins a generation.
func (o *openings) own(partitions int) { o.change(func() { o.owned, o.open = partitions, 0 }) }

func (o *openings) opened() { o.change(func() { o.open++ }) }

func (o *openings) closed() { o.change(func() { o.open-- }) }

func (o *openings) change(how func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	how()
	if o.stats == nil {
		return
	}
	r := Readiness{Ready: o.open == o.owned}
	switch {
	case !r.Ready:
		r.Reason = fmt.Sprintf("opening partitions: %d of %d are open", o.open, o.owned)
	case o.owned == 0: // not a fault: there are more instances than partitions
		r.Reason = "standby: no partitions"
	}
	o.stats.SetReady(r)
}

// left ends a generation; the next one may bring other partitions.
func (o *openings) left() {
	if o.stats != nil {
		o.stats.SetReady(Readiness{Reason: "waiting for partitions"})
	}
}
