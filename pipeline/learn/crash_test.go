package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Every call to the outside fails once, before or after its effect, and either the loop goes on or
// the process starts again. What is on the topics in the end is, byte for byte, what an undisturbed
// run leaves: no snapshot, checkpoint, row, alarm or offset too many or too few (invariants 1 to 3).
func TestCrashAtEveryCall(t *testing.T) {
	const partitions, messages, rows, step = 2, 14, 30, 2
	stream := func() *world {
		w := newWorld()
		w.alarms = transform.Alarms{Topic: "alarms", ModelID: "m"}
		w.events(t, partitions, messages, rows)
		w.changed(partitions, 8, rows)
		return w
	}
	undisturbed := stream()
	drive(t, undisturbed, step)
	calls := undisturbed.calls
	if calls < 20 || len(undisturbed.topics[source.Partition{Topic: "snapshots"}]) == 0 {
		t.Fatalf("%d calls and no snapshot: the run is too small to prove anything", calls)
	}
	told := map[string]int{}
	for _, m := range undisturbed.topics[source.Partition{Topic: "alarms"}] {
		var a transform.Alarm
		if err := json.Unmarshal(m.Value, &a); err != nil {
			t.Fatal(err)
		}
		told[a.Type]++
	}
	if told[transform.AlarmDrift] != 1 {
		t.Fatalf("the alarms are %v: one drift is wanted", told)
	}
	for k := 1; k <= calls; k++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after=%v", k, after), func(t *testing.T) {
				w := stream()
				w.failAt, w.after = k, after
				drive(t, w, step)
				if !w.failed {
					t.Fatal("nothing failed: the call was never made")
				}
				compare(t, undisturbed, w)
			})
		}
	}
}

// changed appends messages of another law than events, as JSON.
func (w *world) changed(partitions, messages, rows int) {
	rng := rand.New(rand.NewPCG(2, 9))
	for i := range messages {
		p := source.Partition{Topic: "events", ID: int32(i % partitions)}
		var value []byte
		for range rows {
			value = fmt.Appendf(value, `{"a": %g, "b": %g, "c": %g}`+"\n", 50+rng.NormFloat64(), 9*rng.NormFloat64(), rng.NormFloat64())
		}
		w.topics[p] = append(w.topics[p], sink.Message{Topic: "events", Partition: p.ID, Value: value, Time: time.UnixMilli(int64(2000 + i))})
	}
}

// drive learns to the end, then whitens every partition to the end, restarting what crashes.
func drive(t *testing.T, w *world, step int) {
	t.Helper()
	restart(t, func() *pipeline.Loop { l, _ := w.learnLoop(t, step); return l })
	for _, p := range w.partitions("events") {
		restart(t, func() *pipeline.Loop { return w.transformLoop(t, p, step) })
	}
}

func restart(t *testing.T, start func() *pipeline.Loop) {
	t.Helper()
	for range 4 {
		err := start().Run(context.Background())
		if err == nil {
			return
		}
		if !errors.Is(err, fixtures.ErrCrash) {
			t.Fatal(err)
		}
	}
	t.Fatal("the loop does not come to its end")
}

// compare looks at everything but the slots of superseded checkpoints: of those the newest counts.
func compare(t *testing.T, want, got *world) {
	t.Helper()
	for p, log := range want.topics {
		if p.Topic == "checkpoints" {
			compareCheckpoints(t, want, got)
			continue
		}
		if len(got.topics[p]) != len(log) {
			t.Fatalf("%v has %d messages, want %d", p, len(got.topics[p]), len(log))
		}
		for i := range log {
			if !fixtures.Same(log[i], got.topics[p][i]) {
				t.Fatalf("%v: message %d differs: key %q, want %q", p, i, got.topics[p][i].Key, log[i].Key)
			}
		}
	}
	for group, offsets := range want.committed {
		for p, next := range offsets {
			if got.committed[group][p] != next {
				t.Errorf("group %s stands at %d of %v, want %d", group, got.committed[group][p], p, next)
			}
		}
	}
}

func compareCheckpoints(t *testing.T, want, got *world) {
	t.Helper()
	load := func(w *world) *checkpoint.Checkpoint {
		c, err := (&checkpoint.Checkpoints{ReadBack: w.readBackOf("checkpoints"), ModelID: "m"}).Load(context.Background())
		if err != nil || c == nil {
			t.Fatalf("no checkpoint: %v", err)
		}
		c.Sequence = 0 // counts attempts to publish, not what is learnt
		return c
	}
	a, errA := load(want).AppendBinary(nil)
	b, errB := load(got).AppendBinary(nil)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Fatal("the newest checkpoint differs")
	}
}

// A second learner takes over, and the first one stops without another word (invariant 5).
func TestFencedLearnerStops(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 14, 30)
	first, _ := w.learnLoop(t, 2)
	second, _ := w.learnLoop(t, 2)
	if err := first.Run(context.Background()); !errors.Is(err, sink.ErrFenced) {
		t.Fatalf("the first learner ended with %v, want ErrFenced", err)
	}
	if n := len(w.topics[source.Partition{Topic: "snapshots"}]); n != 0 {
		t.Fatalf("the fenced learner wrote %d messages", n)
	}
	if err := second.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// The cut into batches changes nothing that is learnt (invariant 3).
func TestBatchCutChangesNoSnapshot(t *testing.T) {
	var want []sink.Message
	for _, step := range []int{1, 2, 5, 14} {
		w := newWorld()
		w.events(t, 1, 14, 30)
		loop, _ := w.learnLoop(t, step)
		if err := loop.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		got := w.topics[source.Partition{Topic: "snapshots"}]
		if want == nil {
			want = got
		}
		if len(got) != len(want) {
			t.Fatalf("step %d: %d snapshot messages, want %d", step, len(got), len(want))
		}
		for i := range got {
			if !fixtures.Same(got[i], want[i]) {
				t.Fatalf("step %d: snapshot message %d differs (key %s)", step, i, got[i].Key)
			}
		}
	}
}
