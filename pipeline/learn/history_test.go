package learn

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/source"
)

// boundedSource reads one partition of the world up to an offset.
type boundedSource struct {
	*memorySource
	end int64
}

func (b *boundedSource) Read(ctx context.Context) (source.Batch, error) {
	for p, next := range b.next {
		if next >= b.end {
			return source.Batch{}, source.ErrEnd
		}
		step := b.step
		b.step = int(min(int64(step), b.end-next))
		defer func() { b.step = step }()
		batch, err := b.memorySource.Read(ctx)
		batch.Claim.Epochs = source.Epochs{p: 7}
		return batch, err
	}
	return source.Batch{}, source.ErrEnd
}

// historyLoop is learnLoop with a backlog that ends at the given offset of each partition, from the same offset of each
// process.
func (w *world) historyLoop(t *testing.T, step int, end func() int64, changes ...func(*Learn)) (*pipeline.Loop, *Learn) {
	t.Helper()
	loop, stage := w.learnLoop(t, step, append(changes, func(l *Learn) {
		l.SkipWhenBehind, l.Lag = true, func() int64 { return 1 << 40 }
		l.Backlog = func(context.Context) (source.Offsets, error) {
			ends := source.Offsets{}
			for _, p := range w.partitions("events") {
				ends[p] = end()
			}
			return ends, nil
		}
	})...)
	live := loop.Source.(*memorySource)
	loop.Source = &History{
		Past: func(_ context.Context, from, to source.Offsets) (pipeline.Source, error) {
			each := map[source.Partition]pipeline.Source{}
			for p, next := range from {
				each[p] = &boundedSource{&memorySource{w: w, next: source.Offsets{p: next}, claim: live.claim, step: step, keeps: true}, to[p]}
			}
			return pipeline.NewMerge(each), nil
		},
		Live: func(_ context.Context, from source.Offsets) (pipeline.Source, error) {
			return &memorySource{w: w, next: from, claim: live.claim, step: step}, nil
		},
		End: stage.HistoryEnd(), Next: live.next.Clone(), Claim: live.claim,
	}
	return loop, stage
}

// versionsOf lists the versions on the snapshot topic in their order.
func versionsOf(w *world) (all []string) {
	for _, m := range w.topics[source.Partition{Topic: "snapshots"}] {
		if v := fixtures.Header(m, "lca-model-version"); v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// TestHistoryIsLearntFirst holds what --from-history promises: no version before the backlog has been learnt, one as soon
// as it has, and no row of it skipped, however far behind the learner is.
func TestHistoryIsLearntFirst(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions int
		end        int64 // of the backlog, in each partition of 40 messages in all
		first      string
	}{
		{"one partition", 1, 20, "600"},
		{"several partitions", 2, 15, "900"},
		{"all there is", 2, 20, "1200"},
		{"a backlog that is too short for a model", 1, 1, "60"},
		{"no backlog", 1, 0, "60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.events(t, c.partitions, 40, 30)
			loop, stage := w.historyLoop(t, 2, func() int64 { return c.end })
			if err := loop.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if all := versionsOf(w); len(all) == 0 || all[0] != c.first {
				t.Errorf("the versions are %v, want the first at %s rows", all, c.first)
			}
			if n := stage.Stats.SkippedRows.Load(); n > 0 {
				t.Errorf("%d rows were skipped", n)
			}
		})
	}
}

// TestAlarmInTheHistory holds that an alarm, which publishes at once later on, publishes nothing in the middle of a backlog.
func TestAlarmInTheHistory(t *testing.T) {
	w := newWorld()
	w.topics[fixtures.Events] = nil
	random := rand.New(rand.NewPCG(3, 4))
	w.jsonRows(60, 30, func(i int) string {
		shift := 0.0
		if i >= 900 {
			shift = 50
		}
		return twoColumns(shift+random.NormFloat64(), random.NormFloat64())
	})
	loop, stage := w.historyLoop(t, 2, func() int64 { return 60 })
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := stage.Stats.Learning().Alarms; n == 0 {
		t.Fatal("no alarm: the rows do not change enough to prove anything")
	}
	if all := versionsOf(w); len(all) != 1 || all[0] != "1800" {
		t.Errorf("the versions are %v, want one of 1800 rows", all)
	}
}

// TestHistoryGoesOnAfterACrash stops the learner at every call, before or after its effect. What it leaves is byte for
// byte what an undisturbed learner does: the end of the history is that of the first start, though each later one finds
// more, and of several partitions the records come in the order of time.
func TestHistoryGoesOnAfterACrash(t *testing.T) {
	const partitions, messages, step = 2, 16, 2
	run := func(failAt int, after bool) *world {
		w := newWorld()
		w.failAt, w.after = failAt, after
		w.events(t, partitions, messages, 30)
		began := false
		end := func() int64 {
			if began && len(w.topics[source.Partition{Topic: "checkpoints"}]) > 0 {
				return messages / partitions
			}
			began = true
			return 6
		}
		restart(t, func() *pipeline.Loop { l, _ := w.historyLoop(t, step, end); return l })
		return w
	}
	undisturbed := run(0, false)
	if all := versionsOf(undisturbed); len(all) < 2 || all[0] != "360" {
		t.Fatalf("the versions are %v, want the first at 360 rows, and more after the history", all)
	}
	for k := 1; k <= undisturbed.calls; k++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after=%v", k, after), func(t *testing.T) { compare(t, undisturbed, run(k, after)) })
		}
	}
}

// TestHistoryIsInTheOrderOfTime learns two partitions with different cuts into batches, one of them older throughout.
func TestHistoryIsInTheOrderOfTime(t *testing.T) {
	learn := func(step int) *world {
		w := newWorld()
		w.events(t, 2, 24, 30)
		for i := range w.topics[source.Partition{Topic: "events", ID: 1}] {
			w.topics[source.Partition{Topic: "events", ID: 1}][i].Time = time.UnixMilli(int64(i))
		}
		loop, _ := w.historyLoop(t, step, func() int64 { return 12 })
		if err := loop.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		return w
	}
	snapshots := source.Partition{Topic: "snapshots"}
	a, b := learn(1).topics[snapshots], learn(5).topics[snapshots]
	if len(a) == 0 || len(a) != len(b) {
		t.Fatalf("%d and %d messages", len(a), len(b))
	}
	for i := range a {
		if !fixtures.Same(a[i], b[i]) {
			t.Errorf("message %d differs", i)
		}
	}
}

// stopping asks for the end after a number of reads.
type stopping struct {
	pipeline.Source
	reads int
	stop  func()
}

func (s *stopping) Read(ctx context.Context) (source.Batch, error) {
	if s.reads == 0 {
		s.stop()
		return source.Batch{}, ctx.Err()
	}
	s.reads--
	return s.Source.Read(ctx)
}

// TestHistorySaysWhatIsLeft stops a learner in the middle of a backlog: until then it says how much is left and publishes
// nothing. Started again with the flag it goes on; without it the model does not wait; and where there is a model, nothing does.
func TestHistorySaysWhatIsLeft(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 2*pipeline.MergeMost+100, 1)
	end := func() int64 { return 2*pipeline.MergeMost + 50 }
	var log bytes.Buffer
	logged := func(l *Learn) { l.Log = slog.New(slog.NewTextHandler(&log, nil)) }
	ctx, stop := context.WithCancel(context.Background())
	loop, stage := w.historyLoop(t, 100, end, logged)
	loop.Source = &stopping{Source: loop.Source, reads: 2, stop: stop}
	if err := loop.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if all := versionsOf(w); len(all) > 0 {
		t.Fatalf("versions %v before the end of the history", all)
	}
	if w := stage.Stats.Waiting(); w == nil || w.String() != "no model yet: the history is learnt first, 50 records are left of it" {
		t.Errorf("it waits for %v", w)
	}
	before := maps.Clone(w.topics)
	for _, c := range []struct {
		name, first string
		start       func() (*pipeline.Loop, *Learn)
	}{
		{"with the flag", "2080", func() (*pipeline.Loop, *Learn) { return w.historyLoop(t, 100, end, logged) }},
		{"without", "2060", func() (*pipeline.Loop, *Learn) { return w.learnLoop(t, 100, logged) }},
	} {
		w.topics = maps.Clone(before)
		loop, _ := c.start()
		if err := loop.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if all := versionsOf(w); len(all) == 0 || all[0] != c.first {
			t.Errorf("%s: versions %v, want the first at %s rows", c.name, all, c.first)
		}
	}
	if _, stage := w.historyLoop(t, 2, end, logged); stage.HistoryEnd() != nil {
		t.Error("it waits where there is a model")
	}
	for _, line := range []string{"records=2098", "records=50", "the history is learnt\"", "there is a model already"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("it does not say %q\n%s", line, &log)
		}
	}
}

// TestMergeClaimsEpochs holds that a merged claim has the leader epochs of its sources, of partitions that it has.
func TestMergeClaimsEpochs(t *testing.T) {
	w := newWorld()
	w.events(t, 2, 8, 3)
	each := map[source.Partition]pipeline.Source{}
	for _, p := range w.partitions("events") {
		each[p] = &boundedSource{&memorySource{w: w, next: source.Offsets{p: 0}, step: 1}, 4}
	}
	b, err := pipeline.NewMerge(each).Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range w.partitions("events") {
		if b.Claim.Epochs[p] != 7 || b.Claim.Next[p] != 4 {
			t.Errorf("%s is claimed at %d, epoch %d", p, b.Claim.Next[p], b.Claim.Epochs[p])
		}
	}
}
