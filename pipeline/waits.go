package pipeline

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// StagePartition names what a loop works on, for metrics.
type StagePartition struct {
	Stage     string // learn or transform
	Partition source.Partition
}

// waits knows since when each partition has had records whose offsets are not committed. A partition whose records
// are all committed does not wait, however long ago its last commit was. One that is lost in an outage goes on waiting:
// until the group has given it to another process, this one answers for it.
type waits struct {
	parts sync.Map // StagePartition → *wait
}

// wait is that of one partition.
type wait struct {
	since atomic.Int64 // unix nanoseconds; 0: it does not wait
	held  atomic.Bool  // a record was read, and is neither committed nor given back
	next  atomic.Int64 // what is committed, or where it was resumed; noNext: not known
}

const noNext = -1

func (w *waits) of(p StagePartition) *wait {
	one, ok := w.parts.Load(p)
	if !ok {
		fresh := new(wait)
		fresh.next.Store(noNext)
		one, _ = w.parts.LoadOrStore(p, fresh)
	}
	return one.(*wait)
}

// begin notes that there is a record to be committed. The wait begins with the first one.
func (w *wait) begin() { w.since.CompareAndSwap(0, time.Now().UnixNano()) }

// taken notes the partitions of a batch that was read.
func (w *waits) taken(stage string, b *source.Batch) {
	for i := range b.Messages {
		if p := b.Messages[i].Partition; i == 0 || p != b.Messages[i-1].Partition {
			one := w.of(StagePartition{stage, p})
			one.held.Store(true)
			one.begin()
		}
	}
}

// resumed notes that partitions are read from their committed offsets. What was read before is read again, unless it
// was committed after all: then SetBehind finds nothing to read, and the wait is over.
func (w *waits) resumed(stage string, at source.Offsets) {
	for p, next := range at {
		one := w.of(StagePartition{stage, p})
		one.held.Store(false)
		one.next.Store(next)
	}
}

// committed notes a put of a stage, and when it was.
func (s *Stats) committed(stage string, c source.Claim) {
	s.lastCommit.Store(time.Now().UnixNano())
	s.waits.committed(stage, c)
}

// Taken notes the partitions of a batch that a stage has read.
func (s *Stats) Taken(stage string, b *source.Batch) { s.waits.taken(stage, b) }

// Resumed notes that a stage reads partitions from their committed offsets.
func (s *Stats) Resumed(stage string, at source.Offsets) { s.waits.resumed(stage, at) }

// LastCommit returns when this process committed last; false before the first time.
func (s *Stats) LastCommit() (time.Time, bool) {
	at := s.lastCommit.Load()
	return time.Unix(0, at), at != 0
}

// committed notes that everything read so far is committed. Records behind it begin to wait when they are read, or
// seen to exist.
func (w *waits) committed(stage string, c source.Claim) {
	for p, next := range c.Next {
		one := w.of(StagePartition{stage, p})
		one.held.Store(false)
		one.next.Store(next)
		one.since.Store(0)
	}
}

// SetBehind stores how many records each partition of a stage has that were not read yet: they wait too while a
// broker does not return them. Partitions that are not in the map have no reader that knows, and stay as they were.
func (s *Stats) SetBehind(stage string, behind map[source.Partition]int64) {
	for p, n := range behind {
		one := s.waits.of(StagePartition{stage, p})
		if n > 0 || one.held.Load() {
			one.begin()
		} else {
			one.since.Store(0)
		}
	}
}

// Uncommitted returns where a stage is committed in the partitions of which it has read more than that.
func (s *Stats) Uncommitted(stage string) source.Offsets {
	at := source.Offsets{}
	s.waits.parts.Range(func(key, value any) bool {
		p, one := key.(StagePartition), value.(*wait)
		if next := one.next.Load(); p.Stage == stage && next != noNext && one.held.Load() {
			at[p.Partition] = next
		}
		return true
	})
	return at
}

// SetOwned stores which partitions a stage has by the latest word of its group. The others belong to other processes
// by now.
func (s *Stats) SetOwned(stage string, owned []source.Partition) {
	s.owned.Store(stage, owned)
	s.waits.parts.Range(func(key, _ any) bool {
		if p := key.(StagePartition); p.Stage == stage && !slices.Contains(owned, p.Partition) {
			s.waits.parts.Delete(p)
		}
		return true
	})
}

// Owned returns the partitions that SetOwned has stored.
func (s *Stats) Owned(stage string) []source.Partition {
	owned, _ := s.owned.Load(stage)
	parts, _ := owned.([]source.Partition)
	return parts
}

// SinceCommit returns how long the records of each partition have waited for a commit; 0 if none wait.
func (s *Stats) SinceCommit() map[StagePartition]time.Duration {
	all := map[StagePartition]time.Duration{}
	now := time.Now()
	s.waits.parts.Range(func(key, one any) bool {
		all[key.(StagePartition)] = 0
		if at := one.(*wait).since.Load(); at != 0 {
			all[key.(StagePartition)] = now.Sub(time.Unix(0, at))
		}
		return true
	})
	return all
}
