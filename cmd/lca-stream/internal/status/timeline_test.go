package status

import (
	"testing"
	"time"
)

// A process that runs for long keeps an hour, in a bounded number of moments; a young one has seconds.
func TestTimelineKeepsTheLastHour(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var past timeline
	for s := range 5 * 3600 {
		now := start.Add(time.Duration(s) * time.Second)
		past.add(moment{time: now, in: uint64(10 * s), out: uint64(5 * s)})
		if s > 2*timelineMoments && s%101 != 0 {
			continue
		}
		kept := past.since(now)
		if n := len(kept); n > timelineMoments || s < timelineMoments && n != s+1 {
			t.Fatalf("%d moments after %d s", n, s)
		}
		if covers := now.Sub(kept[0].time); covers < min(time.Duration(s)*time.Second, time.Hour-timelineCoarse) || covers > time.Hour {
			t.Fatalf("after %d s the last %v are known", s, covers)
		}
	}
	for _, p := range throughput(past.since(start.Add(5 * time.Hour))) {
		if p.In != 10 || p.Out != 5 {
			t.Fatalf("%+v, want 10 rows per second in and 5 out", p)
		}
	}
	if late := past.since(start.Add(7 * time.Hour)); late != nil {
		t.Errorf("%d moments of the last hour, after two without any", len(late))
	}
}
