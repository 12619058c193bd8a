package start

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// town is one topic of two partitions or three, one group, and a checkpoint topic.
type town struct {
	id        string
	parts     int
	start     source.Offsets
	end       source.Offsets
	committed map[source.Partition]source.Position
	log       []sink.Message
	reads     int // of the checkpoint topic
	puts      int
	fails     int       // puts that fail, after they took effect
	forgets   bool      // … except for their offsets
	drops     int       // puts that succeed and lose their offsets
	asked     func()    // what happens before the end of the topic is asked for
	meanwhile func()    // what another process does before the offsets of all partitions are asked for
	remade    time.Time // when the topic is deleted and created again; zero: never
}

func newTown() *town {
	t := &town{id: "one", parts: 2, start: source.Offsets{}, end: source.Offsets{}, committed: map[source.Partition]source.Position{}}
	for id := range int32(3) {
		t.start[fixtures.Part(id)], t.end[fixtures.Part(id)] = 3, 9
	}
	return t
}

func (t *town) Committed(_ context.Context, _ string, parts []source.Partition) (map[source.Partition]source.Position, error) {
	if do := t.meanwhile; do != nil && len(parts) > 1 {
		t.meanwhile = nil
		do()
	}
	found := map[source.Partition]source.Position{}
	for _, p := range parts {
		found[p] = source.Position{Next: -1, Epoch: -1}
		if c, ok := t.committed[p]; ok {
			found[p] = c
		}
	}
	return found, nil
}

func (t *town) Offsets(_ context.Context, parts []source.Partition, place source.At) (source.Offsets, error) {
	if do := t.asked; do != nil && place == source.Latest {
		t.asked = nil
		do()
	}
	found := source.Offsets{}
	for _, p := range parts {
		found[p] = t.start[p]
		if place == source.Latest {
			found[p] = t.end[p]
		}
	}
	return found, nil
}

func (t *town) Topic(context.Context, string) (topic source.Topic, err error) {
	if topic.ID = t.id; !t.remade.IsZero() && time.Now().After(t.remade) {
		topic.ID = "two"
	}
	for id := range int32(t.parts) {
		topic.Partitions = append(topic.Partitions, fixtures.Part(id))
	}
	return topic, nil
}

func (t *town) Put(_ context.Context, msgs []sink.Message, claim source.Claim) error {
	t.puts++
	t.log = append(t.log, msgs...)
	for p, next := range claim.Next {
		if t.forgets && t.fails > 0 || t.drops > 0 {
			break
		}
		t.committed[p] = source.Position{Next: next, Epoch: -1, Metadata: claim.Metadata[p]}
	}
	t.drops = max(t.drops-1, 0)
	if t.fails > 0 {
		t.fails--
		return fixtures.ErrCrash
	}
	return nil
}

func (t *town) Close() error { return nil }

func (t *town) positions(start source.At, model string) *Positions {
	return &Positions{Places: t, Starts: t.starts(0), Group: "g", Topic: "events", Start: start, Model: model, Log: fixtures.Quiet()}
}

// starts are the start markers on a partition of the checkpoint topic.
func (t *town) starts(partition int32) *Starts {
	return &Starts{
		Partition: partition,
		ReadBack: checkpoint.ReadBack{
			Topic: "checkpoints",
			Open: func(_ context.Context, next int64) (checkpoint.TopicReader, error) {
				return &townLog{town: t, partition: partition, next: int(next)}, nil
			},
			End: func(context.Context) (int64, error) { t.reads++; return int64(len(t.log)), nil },
		},
	}
}

type townLog struct {
	*town
	partition int32
	next      int
}

func (l *townLog) Fetch(context.Context) (got source.Fetched, err error) {
	for ; l.next < len(l.log); l.next++ {
		if l.log[l.next].Partition != l.partition {
			continue
		}
		got.Records = append(got.Records, recordbatch.Record{Offset: int64(l.next), Key: l.log[l.next].Key, Value: l.log[l.next].Value})
	}
	got.Next = int64(l.next)
	return got, nil
}

func (t *town) open(tt *testing.T, start source.At, parts ...source.Partition) source.Offsets {
	tt.Helper()
	next, err := t.positions(start, "").Open(tt.Context(), t, source.Claim{Group: "g", Generation: -1}, parts)
	if err != nil {
		tt.Fatal(err)
	}
	return next
}

func (t *town) refuses(tt *testing.T, says ...string) {
	tt.Helper()
	before := maps.Clone(t.committed)
	_, err := t.positions(source.Latest, "").Open(tt.Context(), t, source.Claim{Group: "g"}, []source.Partition{fixtures.Part(0)})
	fixtures.WantStop(tt, err, says...)
	if diff := cmp.Diff(before, t.committed); diff != "" {
		tt.Errorf("what is refused changes nothing (-was +is):\n%s", diff)
	}
}

// Where a group begins is resolved once, whatever happens to it after that.
func TestFirstStart(t *testing.T) {
	town := newTown()
	want := source.Offsets{fixtures.Part(0): 9}
	if diff := cmp.Diff(want, town.open(t, source.Latest, fixtures.Part(0))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	note := source.NewNote("one", "").String()
	if c := town.committed[fixtures.Part(0)]; c.Next != 9 || c.Metadata != note {
		t.Errorf("committed is %+v", c)
	}
	town.end[fixtures.Part(0)], town.end[fixtures.Part(1)] = 20, 20
	town.parts = 3 // a partition is added
	reads, puts := town.reads, town.puts
	if diff := cmp.Diff(want, town.open(t, source.Latest, fixtures.Part(0))); diff != "" || town.reads != reads || town.puts != puts {
		t.Errorf("a second start reads the markers %d times and puts %d times (-want +got):\n%s", town.reads-reads, town.puts-puts, diff)
	}
	// The second partition was there at the first start, the third one was not.
	if diff := cmp.Diff(source.Offsets{fixtures.Part(1): 9, fixtures.Part(2): 3}, town.open(t, source.Latest, fixtures.Part(1), fixtures.Part(2))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A put whose outcome is not known is looked at again.
func TestFirstStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		town := newTown()
		town.fails = 2
		if next := town.open(t, source.Latest, fixtures.Part(0)); next[fixtures.Part(0)] != 9 || town.committed[fixtures.Part(0)].Next != 9 {
			t.Errorf("begins at %v, committed is %v", next, town.committed)
		}
	})
}

// What the first edition has committed is taken as it is, and gets what this one needs.
func TestFirstEdition(t *testing.T) {
	town := newTown()
	town.committed[fixtures.Part(0)] = source.Position{Next: 5, Epoch: 2}
	if next := town.open(t, source.Latest, fixtures.Part(0)); next[fixtures.Part(0)] != 5 || town.reads != 1 { // one look, to say what is known of an offset that this edition has not committed
		t.Errorf("goes on at %v, after %d looks at the checkpoint topic", next, town.reads)
	}
	if c := town.committed[fixtures.Part(0)]; c.Next != 5 || c.Metadata != source.NewNote("one", "").String() {
		t.Errorf("committed is %+v", c)
	}
	if next := town.open(t, source.Latest, fixtures.Part(1)); next[fixtures.Part(1)] != 3 {
		t.Errorf("a partition next to one that was begun begins at %v, want its first record", next)
	}
	delete(town.committed, fixtures.Part(0))
	town.refuses(t, "no committed offset", "offset 5", "lca-stream offsets reset")
}

// Offsets that are gone, another topic of the name, and what a newer program has written.
func TestPositionsRefuse(t *testing.T) {
	begun := func(t *testing.T) *town {
		town := newTown()
		town.open(t, source.Earliest, fixtures.Part(0))
		return town
	}
	t.Run("the offsets are gone", func(t *testing.T) {
		town := begun(t)
		clear(town.committed)
		town.refuses(t, "no committed offset in events/0", "offsets.retention.minutes", "lca-stream offsets")
	})
	t.Run("the group is that of a learner", func(t *testing.T) {
		town := newTown()
		town.committed[fixtures.Part(0)] = source.Position{Next: 7, Epoch: -1, Metadata: source.NewNote("one", "m").String()}
		town.refuses(t, `learner of model "m"`, "offset 7", "another source.group")
	})
	t.Run("the topic is another one", func(t *testing.T) {
		town := begun(t)
		town.id = "two"
		town.refuses(t, "deleted and created again", "one", "two", "lca-stream offsets")
	})
	t.Run("and its offsets went with it", func(t *testing.T) {
		town := begun(t)
		clear(town.committed)
		town.id = "two"
		town.refuses(t, "deleted and created again", "one", "two")
		delete(town.committed, fixtures.Part(1))
		_, err := town.positions(source.Earliest, "").Open(t.Context(), town, source.Claim{Group: "g"}, []source.Partition{fixtures.Part(1)})
		fixtures.WantStop(t, err, "deleted and created again") // a partition that had not begun
	})
	t.Run("the brokers have no ids any more", func(t *testing.T) {
		town := begun(t)
		town.id = ""
		if next := town.open(t, source.Earliest, fixtures.Part(0)); next[fixtures.Part(0)] != 3 {
			t.Errorf("goes on at %v", next)
		}
	})
	t.Run("newer metadata", func(t *testing.T) {
		town := newTown()
		town.committed[fixtures.Part(0)] = source.Position{Next: 5, Metadata: `{"v":2}`}
		town.refuses(t, "newer lca-stream")
	})
	t.Run("a newer marker", func(t *testing.T) {
		town := newTown()
		town.log = []sink.Message{{Key: []byte("start/g/events/0"), Value: []byte(`{"v":2,"offset":7}`)}}
		town.refuses(t, "newer lca-stream")
	})
	t.Run("another one under way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			town := begun(t)
			p := town.positions(source.Earliest, "")
			if err := p.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			town.remade = began.Add(time.Minute)
			fixtures.WantStop(t, p.Watch(t.Context(), 10*time.Second), "deleted and created again")
			if after := time.Since(began); after > 71*time.Second {
				t.Errorf("noticed after %v", after)
			}
		})
	})
}

// A learner goes on where its checkpoint is; without one, where its model has begun.
func TestResume(t *testing.T) {
	claim, parts := source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0), fixtures.Part(1)}
	resume := func(t *testing.T, town *town, model string, start source.At, saved source.Offsets) source.Offsets {
		t.Helper()
		next, err := town.positions(start, model).Resume(t.Context(), town, claim, parts, saved)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	town := newTown()
	for _, end := range []int64{9, 30} { // it dies before its first checkpoint
		town.end[fixtures.Part(0)], town.end[fixtures.Part(1)] = end, end
		if diff := cmp.Diff(source.Offsets{fixtures.Part(0): 9, fixtures.Part(1): 9}, resume(t, town, "m", source.Latest, nil)); diff != "" {
			t.Errorf("without a checkpoint, end at %d (-want +got):\n%s", end, diff)
		}
	}
	town.start[fixtures.Part(1)] = 12
	if diff := cmp.Diff(source.Offsets{fixtures.Part(0): 9, fixtures.Part(1): 12}, resume(t, town, "m", source.Latest, nil)); diff != "" {
		t.Errorf("nothing is learnt, so nothing is missing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(source.Offsets{fixtures.Part(0): 3, fixtures.Part(1): 12}, resume(t, town, "new", source.Earliest, nil)); diff != "" {
		t.Errorf("another model (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(source.Offsets{fixtures.Part(0): 25, fixtures.Part(1): 12}, resume(t, town, "m", source.Latest, source.Offsets{fixtures.Part(0): 25})); diff != "" {
		t.Errorf("a partition that the checkpoint does not know (-want +got):\n%s", diff)
	}
	for _, start := range []source.At{source.Earliest, source.Latest} {
		if err := town.positions(start, "new").Reset(t.Context(), town, source.Offsets{fixtures.Part(0): 7}, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(source.Offsets{fixtures.Part(0): 7, fixtures.Part(1): 12}, resume(t, town, "new", start, nil)); diff != "" {
			t.Errorf("an operator has said where a model begins that has no checkpoint, start %v (-want +got):\n%s", start, diff)
		}
	}
	clear(town.committed)
	if next := resume(t, town, "m", source.Latest, source.Offsets{fixtures.Part(0): 25, fixtures.Part(1): 26}); next[fixtures.Part(0)] != 25 {
		t.Errorf("without committed offsets the checkpoint is not enough: %v", next)
	}
	clear(town.committed)
	town.id = "two"
	_, err := town.positions(source.Latest, "m").Resume(t.Context(), town, claim, parts, source.Offsets{fixtures.Part(0): 25})
	fixtures.WantStop(t, err, "deleted and created again", "checkpoint at offset 25")
}
