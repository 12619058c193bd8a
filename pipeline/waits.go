package pipeline

import (
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
// are all committed does not wait, however long ago its last commit was.
type waits struct {
	since sync.Map // StagePartition → *atomic.Int64, unix nanoseconds; 0: it does not wait
}

func (w *waits) of(p StagePartition) *atomic.Int64 {
	since, ok := w.since.Load(p)
	if !ok {
		since, _ = w.since.LoadOrStore(p, new(atomic.Int64))
	}
	return since.(*atomic.Int64)
}

// begin notes that there is a record to be committed. The wait begins with the first one.
func (w *waits) begin(p StagePartition) { w.of(p).CompareAndSwap(0, time.Now().UnixNano()) }

// taken notes the partitions of a batch that was read.
func (w *waits) taken(stage string, b *source.Batch) {
	for i := range b.Messages {
		if p := b.Messages[i].Partition; i == 0 || p != b.Messages[i-1].Partition {
			w.begin(StagePartition{stage, p})
		}
	}
}

// committed notes a put of a stage, and when it was.
func (s *Stats) committed(stage string, c source.Claim) {
	s.lastCommit.Store(time.Now().UnixNano())
	s.waits.committed(stage, c)
}

// LastCommit returns when this process committed last; false before the first time.
func (s *Stats) LastCommit() (time.Time, bool) {
	at := s.lastCommit.Load()
	return time.Unix(0, at), at != 0
}

// committed notes that everything read so far is committed. Records behind it begin to wait when they are read, or
// seen to exist.
func (w *waits) committed(stage string, c source.Claim) {
	for p := range c.Next {
		w.of(StagePartition{stage, p}).Store(0)
	}
}

// SetBehind stores how many records each partition of a stage has that were not read yet: they wait too while a
// broker does not return them. Partitions that are not in the map belong to other processes by now.
func (s *Stats) SetBehind(stage string, behind map[source.Partition]int64) {
	for p, n := range behind {
		if w := (StagePartition{stage, p}); n > 0 {
			s.waits.begin(w)
		} else {
			s.waits.of(w)
		}
	}
	s.waits.since.Range(func(key, _ any) bool {
		p := key.(StagePartition)
		if _, ours := behind[p.Partition]; !ours && p.Stage == stage {
			s.waits.since.Delete(p)
		}
		return true
	})
}

// SinceCommit returns how long the records of each partition have waited for a commit; 0 if none wait.
func (s *Stats) SinceCommit() map[StagePartition]time.Duration {
	all := map[StagePartition]time.Duration{}
	now := time.Now()
	s.waits.since.Range(func(key, since any) bool {
		all[key.(StagePartition)] = 0
		if at := since.(*atomic.Int64).Load(); at != 0 {
			all[key.(StagePartition)] = now.Sub(time.Unix(0, at))
		}
		return true
	})
	return all
}
