package pipeline

import (
	"fmt"
	"sync"
)

// openings says that a member is ready once each of its partitions is open, and not after the first: until
// then no process whitens the others.
type openings struct {
	stats *Stats // nil: it is not shown

	mu    sync.Mutex // a leaf: the notes must be in the order of what happened
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
	case o.owned == 0: // as must be where there are more instances than partitions
		r.Reason = "standby: no partitions"
	}
	o.stats.SetReady(r)
}

// left ends a generation: the next one may bring other partitions.
func (o *openings) left() {
	if o.stats != nil {
		o.stats.SetReady(Readiness{Reason: "waiting for partitions"})
	}
}
