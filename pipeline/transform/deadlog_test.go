package transform

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// guarded is a buffer that timers write to.
type guarded struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buffer.Write(p)
}

// take returns what was written since the last time.
func (g *guarded) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.buffer.Reset()
	return g.buffer.String()
}

// After the first line a reason has one per minute, with the count since, in all partitions together. What an
// aborted batch has set aside is not said.
func TestDeadLogIsOneLineAMinute(t *testing.T) {
	var out bytes.Buffer
	now, counts := time.Unix(1000, 0), stats.NewStats()
	l := &reject.DeadLog{Log: fixtures.SaidLog(&out), Now: func() time.Time { return now }}
	batch := func(id int32, code string, offsets ...int64) {
		var p provisional
		p.dead(&source.RecordError{Partition: fixtures.Part(id), Offset: 999, Code: "aborted", Err: errors.New("no")})
		p.drop()
		for _, offset := range offsets {
			p.dead(&source.RecordError{Partition: fixtures.Part(id), Offset: offset, Code: code, Err: errors.New("why")})
		}
		p.keep(counts, l, now)
	}
	batch(0, "a", 1)
	batch(1, "a", 7, 8)
	batch(1, "b", 9)
	now = now.Add(59 * time.Second)
	batch(0, "a", 2)
	now = now.Add(time.Second)
	batch(0, "a", 3, 4)
	now = now.Add(time.Second)
	batch(0, "b", 5)
	const message = `msg="messages are set aside on dead_letter.topic" `
	want := message + "reason=a messages=1 last_partition=events/0 last_offset=1 last_error=why\n" +
		message + "reason=b messages=1 last_partition=events/1 last_offset=9 last_error=why\n" +
		message + "reason=a messages=5 last_partition=events/0 last_offset=4 last_error=why\n" +
		message + "reason=b messages=1 last_partition=events/0 last_offset=5 last_error=why\n"
	if out.String() != want {
		t.Errorf("said\n%s\nwant\n%s", &out, want)
	}
}

// What is held back is said when the minute is over, though nothing more comes, and a feature that no line has named is said at once: a key that a
// producer has renamed does not hide behind a few nulls of another.
func TestWhatIsHeldIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out guarded
		l := &reject.DeadLog{Log: fixtures.SaidLog(&out), Now: time.Now}
		rows := func(offset int64, n uint64, features ...string) {
			u := reject.Unusable{Counted: reject.Counted{Reason: "null", N: n}, Partition: fixtures.Part(0), Offset: offset}
			u.Blame(features)
			l.Rows(&u)
		}
		steps := []struct {
			do   func()
			want string
		}{
			{func() { rows(1, 1, "a") }, `rows=1 example="events/0@1, row 0" features=a`},
			{func() { time.Sleep(20 * time.Second); rows(2, 5, "a") }, ""},
			{func() { time.Sleep(20 * time.Second); rows(3, 7, "b", "a") }, `rows=12 example="events/0@3, row 0" features="a, b"`},
			{func() { rows(4, 2, "b") }, ""},
			{func() { time.Sleep(30 * time.Second) }, ""}, // the minute that has begun with the second line
			{func() { time.Sleep(31 * time.Second) }, `rows=2 example="events/0@4, row 0" features=b`},
			{func() { time.Sleep(time.Hour) }, ""},
			{func() { rows(5, 1, "b") }, `rows=1 example="events/0@5, row 0" features=b`},
		}
		for i, s := range steps {
			s.do()
			synctest.Wait()
			if s.want != "" {
				s.want = `msg="rows are not whitened" reason=null ` + s.want + "\n"
			}
			if got := out.take(); got != s.want {
				t.Errorf("step %d: said %q, want %q", i, got, s.want)
			}
		}
	})
}
