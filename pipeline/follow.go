package pipeline

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// Follow keeps the model in force: the newest whole snapshot of one model id on the snapshot
// topic, swapped atomically. Readers never wait for it.
type Follow struct {
	Open    func(context.Context) (Log, error)   // a reader from the topic's beginning
	End     func(context.Context) (int64, error) // the topic's last stable offset
	ModelID string
	Pin     uint64 // follow this version only; 0 = the newest
	Stats   *Stats
	Log     *slog.Logger

	current atomic.Pointer[InForce]

	mu    sync.Mutex // guards next and moved; never held while waiting
	next  int64
	moved chan struct{} // closed and replaced whenever next or current moves
}

// InForce is a model and the moment it was published.
type InForce struct {
	*snapshot.Snapshot
}

// Age is the time since it was published, by its Kafka timestamp.
func (m *InForce) Age(now time.Time) time.Duration { return now.Sub(m.Time) }

// Encode writes it as a snapshot file: the model part and the neighbours, each an Arrow stream.
func (m *InForce) Encode(w io.Writer) error { return snapshot.WriteFile(w, m.Snapshot) }

// Run reads the snapshot topic until ctx ends, and then returns nil. A faulty chunk is logged and
// passed over: the last whole snapshot stays in force. The error is what no retry mends, such as a
// right that is missing.
func (f *Follow) Run(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 2*time.Second) {
		err := f.tail(ctx, &wait)
		if ctx.Err() != nil {
			break
		}
		if sink.Permanent(err) {
			return fmt.Errorf("pipeline: follow the snapshot topic: %w", err)
		}
		f.Log.Warn("cannot follow the snapshot topic; the model in force stays", "error", err, "retry_in", wait)
		sleep(ctx, wait)
	}
	return nil
}

func (f *Follow) tail(ctx context.Context, wait *time.Duration) error {
	log, err := f.Open(ctx)
	if err != nil {
		return err
	}
	f.advance(0)
	assembler := &snapshot.Assembler{Retain: 2, Pin: f.Pin}
	for {
		got, err := log.Fetch(ctx)
		if err != nil {
			return err
		}
		*wait = 100 * time.Millisecond
		for _, r := range got.Records {
			if err := assembler.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)); err != nil {
				f.Log.Error("a snapshot chunk is unusable; the model in force stays", "offset", r.Offset, "error", err)
			}
		}
		if len(got.Records) > 0 {
			f.choose(assembler)
		}
		f.advance(got.Next)
	}
}

// choose puts the newest whole snapshot in force, never an older one (versions never go back).
func (f *Follow) choose(a *snapshot.Assembler) {
	version, ok := a.NewestVersion(f.ModelID)
	if now := f.current.Load(); !ok || (now != nil && now.Version >= version) {
		return
	}
	s, ok := a.Newest(f.ModelID)
	if f.Pin != 0 {
		var err error
		if s, err = a.Version(f.ModelID, f.Pin); err != nil {
			return // not there yet
		}
	}
	if now := f.current.Load(); !ok || (now != nil && now.Version >= s.Version) {
		return
	}
	in := &InForce{Snapshot: s}
	before := f.current.Swap(in)
	f.Stats.setInForce(in, turned(before, in))
}

// Current returns the model in force, or nil before the first.
func (f *Follow) Current() *InForce { return f.current.Load() }

// CatchUp waits until everything that was committed to the snapshot topic when it was called has
// been read. A partition's new owner does this before its first output, so that versions never go
// back within a partition.
//
// The last stable offset is the right end here: the former owner, too, saw nothing that lies behind a
// transaction that is still open, because that offset only grows. So nobody has whitened with what is
// hidden, and a partition need not stand still while somebody else's transaction is open.
func (f *Follow) CatchUp(ctx context.Context) error {
	end, err := f.End(ctx)
	if err != nil {
		return fmt.Errorf("pipeline: end of the snapshot topic: %w", err)
	}
	return f.await(ctx, func() bool { return f.next >= end })
}

// AwaitModel waits until a model is in force.
func (f *Follow) AwaitModel(ctx context.Context) error {
	return f.await(ctx, func() bool { return f.current.Load() != nil })
}

func (f *Follow) await(ctx context.Context, done func() bool) error {
	for {
		f.mu.Lock()
		ok, moved := done(), f.movedLocked()
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

func (f *Follow) advance(next int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
	close(f.movedLocked())
	f.moved = nil
}

func (f *Follow) movedLocked() chan struct{} {
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return f.moved
}
