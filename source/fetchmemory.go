package source

import "github.com/lca-stream/lca-stream/internal/recordbatch"

// What a fetcher of a lane may hold is its part of the process's memory. A batch that does not fit is left, and
// comes again once there is room for it; most are alike, so room for another one is taken before it is asked
// for, if there is any.

// largeError says that a batch takes more than the lane's part.
type largeError struct{ need int64 }

func (e *largeError) Error() string { return "a batch takes more memory than its reader's part" }

// blocks are where responses come from; nil: from the collector.
func (m *Memory) blocks() *blocks {
	if m == nil {
		return nil
	}
	return &m.spare
}

// share makes the fetcher one of those that m bounds; whole: it reads a range with an end.
func (f *Fetcher) share(m *Memory, whole bool) {
	f.memory, f.whole = m, whole
	f.decoder = recordbatch.NewDecoder(f.config.maxBatchBytes(), m.codecs)
}

// part is what a fetcher may hold: bytes of one response, bytes that its records hold in addition, and both of a
// batch that comes alone.
type part struct{ response, held, batch int }

// part is that of the next response.
func (f *Fetcher) part() part {
	whole := max(f.config.MaxBytes, f.config.maxBatchBytes())
	if f.memory == nil {
		return part{f.config.MaxBytes, whole, whole}
	}
	own := min(f.memory.lane(), f.config.MaxBytes)
	if f.whole {
		return part{own, own, whole}
	}
	if f.grant.size == 0 && f.usual > 0 {
		f.grant = f.memory.try(f.memory.batches, int64(f.usual))
	}
	own = max(own, int(f.grant.size))
	if f.grant.size >= f.memory.unit { // all there is: a batch may well need more than that
		return part{own, own, max(own, whole)}
	}
	return part{own, own, own}
}

// room is what one batch may hold in addition to its bytes.
func (f *Fetcher) room(p part) int { return min(p.batch, f.config.maxBatchBytes()) }

// settle gives the block what it needs of the grant, and the rest back.
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
