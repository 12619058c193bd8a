package learn

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// jsonRows puts messages of rows of two columns on the topic, as row(i) gives them.
func (w *world) jsonRows(messages, rows int, row func(i int) string) {
	for m := range messages {
		var value strings.Builder
		for i := range rows {
			fmt.Fprintln(&value, row(m*rows+i))
		}
		w.topics[fixtures.Events] = append(w.topics[fixtures.Events], sink.Message{Value: []byte(value.String())})
	}
}

func twoColumns(a, b float64) string { return fmt.Sprintf(`{"a":%v,"b":%v}`, a, b) }

// TestTheWarmupSaysWhatItWaitsFor goes through the streams that have no model for long: /ready, the log and the figures
// say why, also after a restart.
func TestTheWarmupSaysWhatItWaitsFor(t *testing.T) {
	random, walk := rand.New(rand.NewPCG(1, 2)), 0.0
	for _, c := range []struct {
		name           string
		messages, rows int
		row            func(i int) string
		ready          string // "" = there is a model
		wanted         int
	}{
		{"nothing", 0, 0, nil, "no model yet: no message with rows has come", 0},
		{"three rows", 1, 3, func(i int) string { return twoColumns(float64(i), 1) }, "no model yet: 3 of 200 rows collected", 200},
		{"constant columns", 10, 100, func(int) string { return twoColumns(4, 5) }, "no model yet: 200 of 200 rows collected; no column varies: a model comes once one does, or after source.features names others", 200},
		{"a random walk", 15, 100, func(int) string {
			walk += random.NormFloat64()
			return twoColumns(walk, random.NormFloat64()+walk)
		}, "rows are autocorrelated over ", 3000},
		{"nulls", 2, 20, func(int) string { return `{"a":null,"b":1}` }, "no model yet: 0 of 200 rows collected", 200},
		{"text", 2, 20, func(int) string { return `{"a":"text","b":1}` }, "no model yet: 0 of 200 rows collected", 200},
		{"rows that vary", 10, 100, func(int) string { return twoColumns(random.NormFloat64(), random.NormFloat64()) }, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.topics[fixtures.Events] = nil
			w.jsonRows(c.messages, c.rows, c.row)
			for _, when := range []string{"at first", "started again"} {
				var log bytes.Buffer
				loop, stage := w.learnLoop(t, 1, func(l *Learn) {
					l.Learner.Minibatch, l.Learner.WarmupRows, l.Learner.Neighbours = 100, lca.Auto, 3000
					l.Rejects, l.Columns = &reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 5}, []string{"a", "b"}
					l.Log = slog.New(slog.NewTextHandler(&log, nil))
				})
				if err := loop.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
				if _, err := stage.Do(context.Background(), source.Batch{}); err != nil { // the clock of a stream that pauses
					t.Fatal(err)
				}
				wantWaiting(t, when, stage, &log, c.ready, c.wanted)
			}
		})
	}
}

func wantWaiting(t *testing.T, when string, stage *Learn, log *bytes.Buffer, ready string, wanted int) {
	t.Helper()
	counts := stage.Stats
	counts.SetReady(stats.Readiness{Ready: true})
	w := counts.Waiting()
	if ready == "" {
		if got := counts.Ready(); w != nil || !got.Ready || got.Reason != "" {
			t.Errorf("%s: there is a model, and it waits for %v: %+v", when, w, got)
		}
		return
	}
	if got := counts.Ready(); w == nil || !got.Ready || !strings.Contains(got.Reason, ready) || w.Wanted != wanted {
		t.Errorf("%s: a learner alone says %+v, %+v; want %q and %d rows", when, got, w, ready, wanted)
	}
	counts.SetHold("snapshots")
	if got := counts.Ready(); got.Ready || !strings.Contains(got.Reason, ready) {
		t.Errorf("%s: next to a transform it says %+v, want %q", when, got, ready)
	}
	if n := strings.Count(log.String(), "there is no model yet"); n < 1 || n > int(stats.WaitingKinds) {
		t.Errorf("%s: %d lines\n%s", when, n, log)
	}
}

// TestTheWarmupSaysWhatIsUnusable holds what is said of rows that do not count.
func TestTheWarmupSaysWhatIsUnusable(t *testing.T) {
	w := newWorld()
	w.topics[fixtures.Events] = nil
	w.jsonRows(2, 20, func(i int) string {
		if i == 0 {
			return twoColumns(1, 2)
		}
		return `{"a":null,"b":1}`
	})
	loop, stage := w.learnLoop(t, 1)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got, want := stage.Stats.Waiting().String(), "no model yet: 1 of 40 rows collected; rows with a feature that is null, text, NaN or infinite: 39 (`lca-stream inspect` shows which; they are not learnt)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTheWaitIsLoggedOnceAMinute holds how many lines a long warm-up makes: one for each kind of wait at once, and then
// one per minute while rows come.
func TestTheWaitIsLoggedOnceAMinute(t *testing.T) {
	w := newWorld()
	w.topics[fixtures.Events] = nil
	w.jsonRows(100, 1, func(i int) string { return twoColumns(float64(i*i%7), float64(i)) })
	var log bytes.Buffer
	loop, stage := w.learnLoop(t, 1)
	stage.Log = slog.New(slog.NewTextHandler(&log, nil))
	stage.Learner.WarmupRows = 1000
	now := time.UnixMilli(0)
	stage.Now = func() time.Time { return now }
	loop.Source = &ticking{Source: loop.Source, tick: func() { now = now.Add(3 * time.Second) }}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "there is no model yet"); n != 5 { // 300 s: at once, and 4 full minutes after that
		t.Errorf("%d lines in 5 minutes\n%s", n, &log)
	}
	if !strings.Contains(log.String(), "rows=81 wanted=1000") {
		t.Errorf("it does not say how many rows there are\n%s", &log)
	}
}
