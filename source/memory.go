package source

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// Memory bounds what all Kafka sources of a process hold together, independently of their number and that of their
// partitions. It is divided by a unit u: an eighth of the limit, but at most 24 MiB, because faster reading needs no
// more.
//
//	u/2   responses that are read ahead or taken apart, with all that their records take: a lane's part is for
//	      the two of them that it may have, and for what they hold in addition to their bytes
//	u/4   batches that Read has given and that have not been released, evenly among the readers; GatherParts times as much where that is set
//	u     batches of records that are larger than a lane's part: while one is larger than what is left of
//	      this, its lane waits, but one alone always fits. u/2 where two stages read the same rows, as `run` does: with small
//	      messages it then stays below 128 MiB
//	u     the same for messages that decode to more than a reader's part
//	u     what is made of batches until they are released: rows, outputs, requests. A batch waits for its part, and
//	      one alone always fits
//	u/4   memory of former responses, kept for the next, and as much again of outputs (Spare)
//	u/2   buffers of former requests, kept for the next (SpareRequests)
//
// A lane waits only for large batches, a reader only for large messages, and a batch only for what is made of it, in
// this order and while holding none of its kind. A batch that holds all three needs no more memory until it is
// released, so nothing waits forever.
//
// A range with an end is read in turn from all partitions and takes what its batches need: if its lanes waited for
// one another, they would wait forever.
type Memory struct {
	unit     int64
	codecs   *recordbatch.Codecs
	batches  room
	messages room
	made     room
	spare    blocks

	mu      sync.Mutex
	lanes   int
	readers int
}

const (
	leastUnit = 8 << 20
	mostUnit  = 24 << 20

	// leastPart and leastGather are lower bounds for a lane and a reader: less would save little memory for many more
	// requests and transactions.
	leastPart   = 64 << 10
	leastGather = 256 << 10

	// decompressors is the number of goroutines for which decompressors are kept.
	decompressors = 4
)

// NewMemory returns the memory bounds of a process that may take limit bytes, and in which that number of stages read.
func NewMemory(limit int64, stages int) *Memory {
	u := min(max(limit/8, leastUnit), mostUnit)
	return &Memory{
		unit: u, codecs: recordbatch.NewCodecs(decompressors),
		batches: newRoom(u / int64(stages)), messages: newRoom(u), made: newRoom(u),
		spare: blocks{mostBytes: int(u / 4)},
	}
}

// room is memory that is given in parts.
type room struct {
	*semaphore.Weighted
	all int64
}

func newRoom(bytes int64) room { return room{semaphore.NewWeighted(bytes), bytes} }

// Spare returns how many bytes of outputs may be kept for later use.
func (m *Memory) Spare() int { return m.spare.mostBytes }

// SpareRequests returns how many bytes of the buffers of requests may be kept for later use: about what the outputs of
// all batches take, with the new columns of their rows. A request that were not kept would cost more to allocate, to clear and
// to collect than to fill.
func (m *Memory) SpareRequests() int { return int(m.unit / 2) }

// join makes room for one more reader with the given number of lanes; leave undoes it.
func (m *Memory) join(lanes int) { m.count(lanes, 1) }

func (m *Memory) leave(lanes int) { m.count(-lanes, -1) }

func (m *Memory) count(lanes, readers int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lanes += lanes
	m.readers += readers
}

// lane returns the bytes of one response. Its records may hold as many bytes again.
func (m *Memory) lane() int {
	const responses, kinds = 2, 2
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(int(m.unit)/2/(responses*kinds)/max(m.lanes, 1), leastPart)
}

// reader returns the bytes of one batch that Read returns.
func (m *Memory) reader() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(int(m.unit)/4/max(m.readers, 1), leastGather)
}

// grant is a share of the memory for large batches or messages. The zero value is none.
type grant struct {
	of   *semaphore.Weighted
	size int64
}

// waitFor waits until size bytes are free. A size that is larger than all there is waits for all of it.
func (r room) waitFor(ctx context.Context, size int64) (grant, error) {
	size = min(size, r.all)
	if err := r.Acquire(ctx, size); err != nil {
		return grant{}, context.Cause(ctx)
	}
	return grant{r.Weighted, size}, nil
}

// back returns all of the grant except but bytes.
func (g *grant) back(but int64) {
	if over := g.size - but; g.of != nil && over > 0 {
		g.of.Release(over)
		g.size = but
	}
}

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
