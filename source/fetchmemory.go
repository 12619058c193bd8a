package source

import (
	"context"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// The memory of a lane's fetcher is its part of the process's memory. A batch that does not fit is left, and comes
// again once there is room. Most batches are alike, so a lane waits for room for another one before it requests it:
// otherwise its bytes would come twice.

// largeError reports that a batch takes more than the lane's part.
type largeError struct{ need int64 }

func (e *largeError) Error() string { return "a batch takes more memory than its reader's part" }

// blocks returns where the memory of responses comes from; nil: the garbage collector.
func (m *Memory) blocks() *blocks {
	if m == nil {
		return nil
	}
	return &m.spare
}

// share makes m bound the fetcher's memory. whole: it reads a range with an end.
func (f *Fetcher) share(m *Memory, whole bool) {
	f.memory, f.whole = m, whole
	f.decoder = recordbatch.NewDecoder(f.config.MaxBatchBytes, m.codecs)
}

// foresee waits for room for a batch like the last one, if that was larger than the lane's part.
func (f *Fetcher) foresee(ctx context.Context) (err error) {
	if f.memory != nil && !f.whole && f.grant.size == 0 && f.usual > 0 {
		f.grant, err = f.memory.batches.waitFor(ctx, int64(f.usual))
	}
	return err
}

// part is the memory that a fetcher may hold: the bytes of one response, what its records hold in addition, both for
// a batch that comes alone, and what a response holds besides records.
type part struct{ response, held, batch, overhead int }

// part returns the memory for the next response.
func (f *Fetcher) part() part {
	whole := max(f.config.MaxBytes, f.config.MaxBatchBytes)
	if f.memory == nil {
		return part{f.config.MaxBytes, whole, whole, responseOverhead}
	}
	own := min(f.memory.lane(), f.config.MaxBytes)
	if f.whole {
		return part{own, own, whole, responseOverhead}
	}
	own = max(own, int(f.grant.size))
	if f.grant.size >= f.memory.batches.all { // all there is: a batch may need more than that
		return part{own, own, max(own, whole), responseOverhead}
	}
	return part{own, own, own, min(own, responseOverhead-1)}
}

// room returns what one batch may hold in addition to its bytes.
func (f *Fetcher) room(p part) int { return min(p.batch, f.config.MaxBatchBytes) }

// settle moves what the block needs of the grant to it, and returns the rest.
func (f *Fetcher) settle(got *Fetched, held int) {
	if f.memory == nil || f.whole {
		return
	}
	takes := len(got.block.bytes) + held
	if takes <= 2*min(f.memory.lane(), f.config.MaxBytes) {
		takes = 0
	}
	f.usual = takes + takes/8
	f.grant.back(int64(takes))
	got.block.grant, f.grant = f.grant, grant{}
}
