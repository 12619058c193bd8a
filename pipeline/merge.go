package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lca-stream/lca-stream/source"
)

// Merge reads several bounded sources, one per partition, as one. Messages come in the order of (timestamp,
// partition, offset). That order depends only on the data, so a range that is replayed twice is learnt in the same
// order twice (invariant 3), in whatever order brokers answer. It holds at most one batch of each source.
type Merge struct {
	parts   []source.Partition // in order
	sources []Source           // of the same number
	heads   []source.Batch
	ended   []bool
	claim   source.Claim
}

// NewMerge returns a Merge that owns the sources.
func NewMerge(sources map[source.Partition]Source) *Merge {
	m := &Merge{heads: make([]source.Batch, len(sources)), ended: make([]bool, len(sources))}
	for p := range sources {
		m.parts = append(m.parts, p)
	}
	slices.SortFunc(m.parts, source.Partition.Compare)
	for _, p := range m.parts {
		m.sources = append(m.sources, sources[p])
	}
	return m
}

// MergeMost bounds the messages of one Read, and mergeBytes the bytes of their values. A Read ends with the message
// that reaches a bound.
const (
	MergeMost  = 1024
	mergeBytes = 4 << 20
)

// Read returns the next messages in order, or source.ErrEnd when every source has ended.
func (m *Merge) Read(ctx context.Context) (source.Batch, error) {
	var out source.Batch
	for size := 0; len(out.Messages) < MergeMost && size < mergeBytes; {
		if err := m.fill(ctx); err != nil {
			out.Release()
			return source.Batch{}, err
		}
		first := m.first()
		if first < 0 {
			break
		}
		out.Messages = append(out.Messages, m.heads[first].Messages[0])
		size += len(m.heads[first].Messages[0].Value)
		m.heads[first].Messages = m.heads[first].Messages[1:]
	}
	if len(out.Messages) == 0 {
		return source.Batch{}, source.ErrEnd
	}
	out.Claim = m.claimed(out.Messages)
	m.claim = out.Claim
	return out, nil
}

// claimed returns the claim behind the messages. The epoch of a position is that of its source, which may have read
// farther: the check asks where that epoch, or the last one before it, ends.
func (m *Merge) claimed(messages []source.Message) source.Claim {
	c := m.claim
	c.Next, c.Epochs = maps.Clone(c.Next), source.Epochs{}
	for i := range messages {
		c.Next[messages[i].Partition] = messages[i].Offset + 1
	}
	for i, p := range m.parts {
		epoch, known := m.heads[i].Claim.Epochs[p]
		if _, begun := c.Next[p]; begun && known {
			c.Epochs[p] = epoch
		}
	}
	return c
}

// fill makes every source that has not ended show its next message.
func (m *Merge) fill(ctx context.Context) error {
	for i, s := range m.sources {
		for !m.ended[i] && len(m.heads[i].Messages) == 0 {
			b, err := s.Read(ctx)
			if errors.Is(err, source.ErrEnd) {
				m.ended[i] = true
				break
			}
			if err != nil {
				return err
			}
			m.heads[i] = b
			if m.claim.Next == nil {
				m.claim = b.Claim
				m.claim.Next = source.Offsets{}
			}
		}
	}
	return nil
}

// first returns the index of the source with the next message, or −1 when all have ended.
func (m *Merge) first() int {
	best := -1
	for i := range m.heads {
		if len(m.heads[i].Messages) > 0 && (best < 0 || before(&m.heads[i].Messages[0], &m.heads[best].Messages[0])) {
			best = i
		}
	}
	return best
}

func before(a, b *source.Message) bool {
	if !a.Time.Equal(b.Time) {
		return a.Time.Before(b.Time)
	}
	if a.Partition.Topic != b.Partition.Topic {
		return a.Partition.Topic < b.Partition.Topic
	}
	if a.Partition.ID != b.Partition.ID {
		return a.Partition.ID < b.Partition.ID
	}
	return a.Offset < b.Offset
}

// Seek starts over at the given offsets; those of other partitions are ignored.
func (m *Merge) Seek(ctx context.Context, to source.Offsets) error {
	m.drop()
	clear(m.ended)
	m.claim = source.Claim{}
	for i, p := range m.parts {
		next, ok := to[p]
		if !ok {
			return fmt.Errorf("pipeline: seek: no offset for %s", p)
		}
		if err := m.sources[i].Seek(ctx, source.Offsets{p: next}); err != nil {
			return err
		}
	}
	return nil
}

// Close closes every source.
func (m *Merge) Close() error {
	m.drop()
	var faults []error
	for _, s := range m.sources {
		faults = append(faults, s.Close())
	}
	return errors.Join(faults...)
}

func (m *Merge) drop() {
	for i := range m.heads {
		m.heads[i].Release()
		m.heads[i] = source.Batch{}
	}
}

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
