package stats

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink/snapshot"
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
		s.Taken("transform", read(a, a))
		time.Sleep(2 * time.Second)
		s.Taken("transform", read(a)) // once more, after an aborted put
		time.Sleep(time.Second)
		behind(0, 0)
		want("read, and not committed", 3*time.Second, 0)
		s.Committed("transform", source.Claim{Next: source.Offsets{a: 7}})
		behind(5, 9)
		time.Sleep(time.Second)
		want("more to read", time.Second, time.Second)
		time.Sleep(4 * time.Second)
		behind(9, 9)
		s.Committed("transform", source.Claim{Next: source.Offsets{b: 9}})
		want("not read", 5*time.Second, 0)
		s.SetBehind("transform", nil) // its readers are closed, and the group has not said where its partitions are
		time.Sleep(time.Minute)
		want("the group is lost", 65*time.Second, 0)
		s.Taken("transform", read(b))
		time.Sleep(time.Second)
		s.Resumed("transform", source.Offsets{a: 9, b: 9})
		want("open again, and no word from a broker", 66*time.Second, time.Second)
		behind(5, 0)
		want("the put before was kept after all", 66*time.Second, 0)
		s.SetBehind("learn", map[source.Partition]int64{a: 0})
		s.SetOwned("transform", []source.Partition{b})
		if diff := cmp.Diff(map[StagePartition]time.Duration{{"learn", a}: 0, {"transform", b}: 0}, s.SinceCommit()); diff != "" {
			t.Errorf("a partition that has moved away: %s", diff)
		}
	})
}

// What a loop has read and not committed is known, with the place from which it waits: a put that hangs is lag too.
func TestUncommitted(t *testing.T) {
	a, b := source.Partition{Topic: "events", ID: 0}, source.Partition{Topic: "events", ID: 1}
	s := NewStats()
	want := func(when string, at source.Offsets) {
		t.Helper()
		if diff := cmp.Diff(at, s.Uncommitted("transform")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	s.Resumed("transform", source.Offsets{a: 5, b: 7})
	want("nothing was read", source.Offsets{})
	s.Taken("transform", &source.Batch{Messages: []source.Message{{Partition: a, Offset: 5}, {Partition: a, Offset: 6}}})
	want("two were read", source.Offsets{a: 5})
	s.Committed("transform", source.Claim{Next: source.Offsets{a: 7}})
	want("they are committed", source.Offsets{})
	s.Taken("transform", &source.Batch{Messages: []source.Message{{Partition: a, Offset: 7}, {Partition: b, Offset: 7}}})
	want("and more were read", source.Offsets{a: 7, b: 7})
	s.SetOwned("transform", []source.Partition{b})
	want("a is another process's", source.Offsets{b: 7})
	if got := s.Uncommitted("learn"); len(got) > 0 {
		t.Errorf("another stage has %v", got)
	}
}

// A process whose commits hang is not ready, although brokers answer. Before the first model it waits for that.
func TestNotReadyWithoutCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := source.Partition{Topic: "events", ID: 0}
		s := NewStats()
		s.SetReady(Readiness{Ready: true})
		s.SetBroker(Readiness{Ready: true})
		s.SetBehind("transform", map[source.Partition]int64{a: 5})
		s.SetBehind("learn", map[source.Partition]int64{a: 5})
		time.Sleep(2 * stuckAfter)
		if r := s.Ready(); !r.Ready {
			t.Errorf("before the first model: %+v", r)
		}
		s.SetCurrentModel(&PublishedModel{Snapshot: &snapshot.Snapshot{Model: &lca.Model{}}}, nil)
		if r := s.Ready(); r.Ready || !strings.Contains(r.Reason, "committed for 2m0s") {
			t.Errorf("while nothing is committed: %+v", r)
		}
		s.Committed("transform", source.Claim{Next: source.Offsets{a: 5}})
		if r := s.Ready(); !r.Ready {
			t.Errorf("after a commit, of which the learner has none: %+v", r)
		}
	})
}

// A process that ends says so, whatever else is wrong.
func TestReadyWhileStopping(t *testing.T) {
	var s Stats
	s.SetReady(Readiness{Ready: true})
	s.SetBroker(Readiness{Reason: "no broker answers"})
	s.SetStopping()
	if got, want := s.Ready(), (Readiness{Reason: "it is stopping"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
