package pipeline

import (
	"context"
	"sync"

	"github.com/lca-stream/lca-stream/source"
)

// Ahead reads a source one batch ahead, in a goroutine of its own, so that the batches of several sources are decoded side by side,
// and next to what is made of them. It holds one batch more than the source. Its methods are for one goroutine.
type Ahead struct {
	source Source

	out  chan arrival // nil: nothing is read
	stop context.CancelFunc
	wait sync.WaitGroup
}

// arrival is what a Read returned.
type arrival struct {
	batch source.Batch
	err   error
}

// ReadAhead begins to read a source, which the Ahead then owns.
func ReadAhead(s Source) *Ahead {
	a := &Ahead{source: s}
	a.start()
	return a
}

// Read returns the next batch. An error ends the reading ahead, and the Read after it begins again.
func (a *Ahead) Read(ctx context.Context) (source.Batch, error) {
	if a.out == nil {
		a.start()
	}
	select {
	case got := <-a.out:
		if got.err != nil {
			a.halt()
		}
		return got.batch, got.err
	case <-ctx.Done():
		return source.Batch{}, ctx.Err()
	}
}

func (a *Ahead) start() {
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan arrival) // without a buffer: one batch waits here
	a.out, a.stop = out, cancel
	a.wait.Go(func() {
		for {
			var got arrival
			got.batch, got.err = a.source.Read(ctx)
			select {
			case out <- got:
			case <-ctx.Done():
				got.batch.Release()
				return
			}
			if got.err != nil {
				return
			}
		}
	})
}

// halt ends the goroutine, and drops what it has read.
func (a *Ahead) halt() {
	if a.out == nil {
		return
	}
	a.stop()
	a.wait.Wait()
	a.out = nil
}

// Seek begins to read at offsets.
func (a *Ahead) Seek(ctx context.Context, to source.Offsets) error {
	a.halt()
	if err := a.source.Seek(ctx, to); err != nil {
		return err
	}
	a.start()
	return nil
}

// Close closes the source.
func (a *Ahead) Close() error {
	a.halt()
	return a.source.Close()
}
