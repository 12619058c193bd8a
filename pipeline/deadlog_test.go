package pipeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// saidLog is a log of lines without times and levels.
func saidLog(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

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

// Messages that are set aside are said, with the reason and the place of the last.
func TestDeadLettersAreSaid(t *testing.T) {
	var out bytes.Buffer
	w := learnt(t)
	for _, i := range []int{2, 3, 5} {
		w.topics[events][i].Value = []byte("garbage")
	}
	w.topics[events][7].Value = lacking(t)
	loop := w.transformLoop(t, events, 100)
	loop.Stage.(*Transform).DeadLog = &DeadLog{Log: saidLog(&out), Now: time.Now}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"reason=format_unknown messages=3 last_partition=events/0 last_offset=5 last_error=",
		`reason=feature_missing messages=1 last_partition=events/0 last_offset=7 last_error="column \"`,
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, &out)
		}
	}
}

// After the first line a reason has one per minute, with the count since, in all partitions together. What an
// aborted batch has set aside is not said.
func TestDeadLogIsOneLineAMinute(t *testing.T) {
	var out bytes.Buffer
	now, counts := time.Unix(1000, 0), NewStats()
	l := &DeadLog{Log: saidLog(&out), Now: func() time.Time { return now }}
	batch := func(id int32, code string, offsets ...int64) {
		var p provisional
		p.dead(&source.RecordError{Partition: at(id), Offset: 999, Code: "aborted", Err: errors.New("no")})
		p.drop()
		for _, offset := range offsets {
			p.dead(&source.RecordError{Partition: at(id), Offset: offset, Code: code, Err: errors.New("why")})
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

// dead_letter.on_threshold: warn does warn.
func TestThresholdWarns(t *testing.T) {
	var out bytes.Buffer
	w := learnt(t)
	for i := range 8 {
		w.topics[events][i].Value = []byte("garbage")
	}
	loop := w.transformLoop(t, events, 1)
	stage := loop.Stage.(*Transform)
	stage.DeadLetter.WarnOnly, stage.Log = true, saidLog(&out)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "rejected=6 of_the_last=10 max_rejects=5") {
		t.Errorf("no warning:\n%s", &out)
	}
}

// Rows that are not whitened are said once a minute for each reason, with an example and the features to blame.
func TestUnusableRowsAreSaid(t *testing.T) {
	var out bytes.Buffer
	w := learnt(t)
	w.topics[events][2].Value = []byte(`[{"a":1,"b":2,"c":3},{"a":1,"b":null,"c":3},{"a":1,"b":2}]`)
	w.topics[events][3].Value = []byte(`{"a":null,"b":null,"c":null}`)
	w.topics[events][4].Value = []byte(`{"a":1e999,"b":1,"c":2}`)
	loop := w.transformLoop(t, events, 100)
	loop.Stage.(*Transform).DeadLog = &DeadLog{Log: saidLog(&out), Now: time.Now}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`msg="rows are not whitened" reason=null rows=3 example="events/0@2, row 1" features="b, c, a"` + "\n",
		`msg="rows are not whitened" reason=inf rows=1 example="events/0@4, row 0" features=a` + "\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, &out)
		}
	}
}

// What is held back is said when the minute is over, though nothing more comes, and a feature that no line has named is said at once: a key that a
// producer has renamed does not hide behind a few nulls of another.
func TestWhatIsHeldIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out guarded
		l := &DeadLog{Log: saidLog(&out), Now: time.Now}
		rows := func(offset int64, n uint64, features ...string) {
			u := unusable{counted: counted{"null", n}, partition: at(0), offset: offset}
			u.blame(features)
			l.rows(&u)
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
