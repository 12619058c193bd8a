package pipeline

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source"
)

// The time since the last commit counts while there are records to commit, and only then.
func TestSinceCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := source.Partition{Topic: "events", ID: 0}, source.Partition{Topic: "events", ID: 1}
		s := NewStats()
		want := func(when string, wantA, wantB time.Duration) {
			t.Helper()
			all := map[StagePartition]time.Duration{{"transform", a}: wantA, {"transform", b}: wantB}
			if diff := cmp.Diff(all, s.SinceCommit()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		behind := func(a0, b0 int64) { s.SetBehind("transform", map[source.Partition]int64{a: a0, b: b0}) }
		read := func(parts ...source.Partition) *source.Batch {
			var batch source.Batch
			for _, p := range parts {
				batch.Messages = append(batch.Messages, source.Message{Partition: p})
			}
			return &batch
		}
		behind(0, 0)
		time.Sleep(time.Hour)
		behind(0, 0)
		want("idle for an hour", 0, 0)
		s.waits.taken("transform", read(a, a))
		time.Sleep(2 * time.Second)
		s.waits.taken("transform", read(a)) // once more, after an aborted put
		time.Sleep(time.Second)
		behind(0, 0)
		want("read, and not committed", 3*time.Second, 0)
		s.waits.committed("transform", source.Claim{Next: source.Offsets{a: 7}})
		behind(5, 9)
		time.Sleep(time.Second)
		want("more to read", time.Second, time.Second)
		time.Sleep(4 * time.Second)
		behind(9, 9)
		s.waits.committed("transform", source.Claim{Next: source.Offsets{b: 9}})
		want("no process reads it", 5*time.Second, 0)
		s.SetBehind("learn", map[source.Partition]int64{a: 0})
		s.SetBehind("transform", map[source.Partition]int64{b: 0})
		if diff := cmp.Diff(map[StagePartition]time.Duration{{"learn", a}: 0, {"transform", b}: 0}, s.SinceCommit()); diff != "" {
			t.Errorf("a partition that has moved away: %s", diff)
		}
	})
}
