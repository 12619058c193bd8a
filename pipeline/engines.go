package pipeline

import (
	"context"
	"sync"
)

// Engines is what the transforms of a process whiten with, however many partitions they have: as many engines as can
// work at a time, and memory for what is on its way to the sink. A transform has an engine for the time of one Do, in
// which it waits for nothing, and the memory until its batch is put.
type Engines struct {
	free chan *engine // nil: not made yet
	most int          // bytes of spare memory

	mu    sync.Mutex
	spare []*made
	bytes int // of spare

	registered registrations // of all outputs
}

// NewEngines returns Engines with at most n engines at a time, which keep at most spareBytes of memory for later batches.
func NewEngines(n, spareBytes int) *Engines {
	e := &Engines{free: make(chan *engine, n), most: spareBytes}
	for range n {
		e.free <- nil
	}
	return e
}

// take waits until an engine is free.
func (e *Engines) take(ctx context.Context) (*engine, error) {
	select {
	case one := <-e.free:
		if one == nil {
			one = &engine{}
		}
		return one, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *Engines) give(one *engine) {
	one.forget()
	e.free <- one
}

// made returns memory for a batch, which another one may have used.
func (e *Engines) made() *made {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.spare)
	if n == 0 {
		return &made{}
	}
	d := e.spare[n-1]
	e.spare[n-1], e.spare = nil, e.spare[:n-1]
	e.bytes -= d.bytes()
	return d
}

// keep takes the memory of a batch that is put, or never will be.
func (e *Engines) keep(d *made) {
	d.forget()
	size := d.bytes()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes+size <= e.most {
		e.spare = append(e.spare, d)
		e.bytes += size
	}
}
