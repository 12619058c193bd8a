package learn

import (
	"context"
	"errors"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

var (
	plant = checkpoint.Owner{Group: "plant", Topic: "events"}
	other = checkpoint.Owner{Group: "other", Topic: "clicks"}
)

func (w *world) checkpointsOf(o checkpoint.Owner) *checkpoint.Checkpoints {
	c := w.checkpoints()
	c.Owner = o
	return c
}

// whenPut runs something before its sink puts, once.
type whenPut struct {
	pipeline.Sink
	before func()
}

func (s *whenPut) Put(ctx context.Context, msgs []sink.Message, claim source.Claim) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Sink.Put(ctx, msgs, claim)
}

// One pipeline has a model, from its first start on: with another group, topic or both it is refused by name.
func TestModelHasOneOwner(t *testing.T) {
	for _, c := range []struct {
		name    string
		second  checkpoint.Owner
		refused bool
	}{
		{"the same", plant, false},
		{"another topic", checkpoint.Owner{Group: "plant", Topic: "clicks"}, true},
		{"another group", checkpoint.Owner{Group: "other", Topic: "events"}, true},
		{"another pipeline", other, true},
		// Written as one text these two would be the same.
		{"a group and a topic that only look alike", checkpoint.Owner{Group: "plant/events", Topic: "x"}, true},
	} {
		for _, saved := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				w, ctx := newWorld(), context.Background()
				first := w.checkpointsOf(plant)
				if err := first.Own(ctx, w.open("plant")); err != nil {
					t.Fatal(err)
				}
				if saved {
					msgs, err := first.Messages(&checkpoint.Checkpoint{Sequence: 1, ModelID: "m", Owner: plant, Offsets: source.Offsets{fixtures.Events: 1}})
					if err != nil {
						t.Fatal(err)
					}
					w.put(msgs...)
				}
				before := len(w.topics[checkpointLog])
				second := w.checkpointsOf(c.second)
				_, errPeek := second.Peek(ctx)
				for _, err := range []error{errPeek, second.Own(ctx, w.open("second"))} {
					if c.refused {
						fixtures.WantStop(t, err, `model "m" on topic checkpoints belongs to the learner of topic "events" in group "plant"`, "snapshot.model_id")
					} else if err != nil {
						t.Fatal(err)
					}
				}
				if n := len(w.topics[checkpointLog]); n != before {
					t.Errorf("%d records were written in vain", n-before)
				}
				if err := w.checkpointsOf(plant).Own(ctx, w.open("plant")); err != nil {
					t.Errorf("its owner is refused: %v", err)
				}
			})
		}
	}
}

// Two pipelines start at the same moment on an empty topic. However their claims fall, one has the model and
// the other is refused, also when a compaction or a restart comes between.
func TestTwoClaimAtOnce(t *testing.T) {
	w, ctx := newWorld(), context.Background()
	a, b := w.checkpointsOf(plant), w.checkpointsOf(other)
	var second error
	// B reads an empty topic, claims, and finds itself first, all while A is about to put its claim.
	err := a.Own(ctx, &whenPut{Sink: w.open("plant"), before: func() { second = b.Own(ctx, w.open("other")) }})
	fixtures.WantStop(t, err, `in group "other"`)
	if second != nil {
		t.Errorf("the first claim does not hold: %v", second)
	}
	if n := len(w.topics[checkpointLog]); n != 3 {
		t.Errorf("%d records, want two claims and one withdrawn", n)
	}
	if err := w.checkpointsOf(plant).Own(ctx, w.open("plant")); err == nil {
		t.Error("the loser gets it at its next start")
	}
	if err := w.checkpointsOf(other).Own(ctx, w.open("other")); err != nil {
		t.Errorf("the winner loses it at its next start: %v", err)
	}

	// Both claims are on the topic before either reads it again.
	w = newWorld()
	a, b = w.checkpointsOf(plant), w.checkpointsOf(other)
	w.put(a.Claim(false), b.Claim(false))
	if err := a.Own(ctx, w.open("plant")); err != nil {
		t.Errorf("the first of two claims does not hold: %v", err)
	}
	fixtures.WantStop(t, b.Own(ctx, w.open("other")), `in group "plant"`)
}

// A claim whose outcome is not known is looked for before it is repeated; a fenced claimant stops.
func TestClaimIsRetried(t *testing.T) {
	for _, after := range []bool{false, true} {
		w := newWorld()
		w.failAt, w.after = 1, after
		if err := w.checkpointsOf(plant).Own(context.Background(), w.open("plant")); err != nil {
			t.Fatal(err)
		}
		if n := len(w.topics[checkpointLog]); n != 1 || !w.failed {
			t.Errorf("%d claims, want 1", n)
		}
	}
	w := newWorld()
	fenced := w.open("plant")
	w.open("plant")
	if err := w.checkpointsOf(plant).Own(context.Background(), fenced); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("a fenced claimant ends with %v", err)
	}
}

// Checkpoints of the first release name no group: the first to claim them has them, if its topic is theirs.
func TestFirstFormatIsTakenOver(t *testing.T) {
	w, ctx := newWorld(), context.Background()
	w.topics[checkpointLog] = readWire(t, 1).topics[checkpointLog]
	fixtures.WantStop(t, w.checkpointsOf(other).Own(ctx, w.open("other")), `belongs to the learner of topic "events", and this one is of topic "clicks"`)
	mine := w.checkpointsOf(plant)
	if err := mine.Own(ctx, w.open("plant")); err != nil {
		t.Fatal(err)
	}
	if c, err := mine.Load(ctx); err != nil || c == nil {
		t.Fatalf("then it loads %v, %v", c, err)
	}
	fixtures.WantStop(t, w.checkpointsOf(checkpoint.Owner{Group: "late", Topic: "events"}).Own(ctx, w.open("late")), `in group "plant"`)

	// A learner of the first release does not see claims. What it writes into a model of another topic is not taken for ours.
	w = newWorld()
	if err := w.checkpointsOf(other).Own(ctx, w.open("other")); err != nil {
		t.Fatal(err)
	}
	w.put(readWire(t, 1).topics[checkpointLog]...)
	fixtures.WantStop(t, w.checkpointsOf(other).Own(ctx, w.open("other")), `topic "events"`)
}

// A learner reads the last records of its topic, not all that was never compacted; farther back only where
// those do not suffice.
func TestLoadReadsTheTail(t *testing.T) {
	for _, c := range []struct {
		name  string
		after int // records of other models since
		most  int // records to read
	}{
		{"its own are the last", 0, checkpoint.TailRecords},
		{"others have written since", 100, checkpoint.TailRecords * (1 + checkpoint.TailGrows)},
		{"others have written much", 2000, 4000 + 40 + checkpoint.TailRecords*(1+checkpoint.TailGrows+checkpoint.TailGrows*checkpoint.TailGrows)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			noise := func(n int) {
				for range n {
					w.put(sink.Message{Topic: "checkpoints", Key: []byte("x/0/0"), Value: []byte("x")})
				}
			}
			noise(2000)
			cp := w.checkpointsOf(plant)
			for n := range uint64(20) {
				msgs, err := cp.Messages(&checkpoint.Checkpoint{Sequence: n + 1, ModelID: "m", Owner: plant, Offsets: source.Offsets{fixtures.Events: int64(n)}})
				if err != nil {
					t.Fatal(err)
				}
				w.put(msgs...)
			}
			noise(c.after)
			read := 0
			cp = w.checkpointsOf(plant)
			cp.Open = func(_ context.Context, from int64) (checkpoint.TopicReader, error) {
				return &countedLog{TopicReader: &memoryLog{w: w, p: checkpointLog, n: int(from)}, n: &read}, nil
			}
			got, err := cp.Load(context.Background())
			if err != nil || got.Sequence != 20 || cp.Chunks != [2]int{1, 1} {
				t.Fatalf("loaded %v with %v chunks, %v", got, cp.Chunks, err)
			}
			if read > c.most || read == 0 {
				t.Errorf("%d of %d records were read, want at most %d", read, len(w.topics[checkpointLog]), c.most)
			}
		})
	}
}

// countedLog counts the records that a log gives.
type countedLog struct {
	checkpoint.TopicReader
	n *int
}

func (l *countedLog) Fetch(ctx context.Context) (source.Fetched, error) {
	got, err := l.TopicReader.Fetch(ctx)
	*l.n += len(got.Records)
	return got, err
}
