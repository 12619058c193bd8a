package start

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/source"
)

// begins is where a partition is read from first, with a model for each key.
func (t *town) begins(tt *testing.T, start source.At, models string, partition int32, want int64) {
	tt.Helper()
	next, err := t.keyedOf(start, models, partition).Open(tt.Context(), t, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(partition)})
	if err != nil {
		tt.Fatal(err)
	}
	if next[fixtures.Part(partition)] != want {
		tt.Errorf("partition %d of models %q begins at %d, want %d", partition, models, next[fixtures.Part(partition)], want)
	}
}

// With a model for each key, too, a group resolves once where it begins: a partition that is taken later begins there, and one that is added later at
// its first record.
func TestKeyedGroupsBeginOnce(t *testing.T) {
	for _, models := range []string{"", "checkpoints/m"} {
		for _, taken := range []int32{0, 1} { // before the others
			town := newTown()
			town.begins(t, source.Latest, models, taken, 9)
			for id := range int32(3) {
				town.end[fixtures.Part(id)] = 50
			}
			town.begins(t, source.Latest, models, 1-taken, 9)
			town.parts = 3
			reads := town.reads
			town.begins(t, source.Latest, models, 2, 3)
			if reads = town.reads - reads; reads > 2 {
				t.Errorf("the markers are read %d times, want those of the partition and of the first one", reads)
			}
			town.begins(t, source.Latest, models, 0, 9)
		}
	}
}

// A group that has committed in any partition has begun, although nothing on the checkpoint topic says so: it is another topic since the change from one
// model to models by key. So partitions that are taken later begin at their first record.
func TestCommittedElsewhere(t *testing.T) {
	town := newTown()
	town.committed[fixtures.Part(0)] = source.Position{Next: 7, Epoch: -1, Metadata: source.NewNote("one", "").String()}
	town.begins(t, source.Latest, "", 1, 3)
	town.begins(t, source.Latest, "checkpoints/m", 1, 9) // of other models
}

// Two that begin at the same time do not take each other for a group whose record is gone.
func TestBeganMeanwhile(t *testing.T) {
	town := newTown()
	p := town.keyedOf(source.Latest, "", 1)
	town.meanwhile = func() { town.begins(t, source.Latest, "", 0, 9) }
	next, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(1)})
	if diff := cmp.Diff(source.Offsets{fixtures.Part(1): 9}, next); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Another process has begun, and rows have come, since the markers were read: they are not skipped.
func TestBeganBeforeTheEndWasAskedFor(t *testing.T) {
	for _, open := range []func(*town, int32){
		func(w *town, part int32) { w.begins(t, source.Latest, "", part, 9) },
		func(w *town, part int32) { w.begins(t, source.Latest, "checkpoints/m", part, 9) },
		func(w *town, part int32) {
			if next := w.open(t, source.Latest, fixtures.Part(part)); next[fixtures.Part(part)] != 9 {
				t.Errorf("partition %d begins at %d, want 9", part, next[fixtures.Part(part)])
			}
		},
		func(w *town, part int32) {
			next, err := w.positions(source.Latest, "m").Resume(t.Context(), w, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(part)}, nil)
			if err != nil || next[fixtures.Part(part)] != 9 {
				t.Errorf("a learner begins partition %d at %d, want 9: %v", part, next[fixtures.Part(part)], err)
			}
		},
	} {
		town := newTown()
		town.asked = func() {
			open(town, 0)
			town.end[fixtures.Part(0)], town.end[fixtures.Part(1)] = 50, 50
		}
		open(town, 1)
	}
}

// The reset of a group that has not begun is its first start: what it does not name begins where a first start would.
func TestResetBeforeKeyedGroupsBegin(t *testing.T) {
	for _, models := range []string{"", "checkpoints/m"} {
		town := newTown()
		if err := town.keyedOf(source.Latest, models, 1).Reset(t.Context(), town, source.Offsets{fixtures.Part(1): 5}, nil); err != nil {
			t.Fatal(err)
		}
		town.end[fixtures.Part(0)] = 50
		town.begins(t, source.Latest, models, 1, 5)
		town.begins(t, source.Latest, models, 0, 9)
	}
}

// A group that has written has begun, although nothing else is known of it: what a reset does not name begins at its first record, so that nothing is
// left out.
func TestResetOfWhatHasWritten(t *testing.T) {
	for _, who := range []string{"g", "another"} {
		town, logs := newTown(), newWrittenLogs()
		logs.add("out", logs.of(who, fixtures.Part(1), 7))
		p := town.positions(source.Latest, "")
		p.Written = logs.written("out")
		if err := p.Reset(t.Context(), town, source.Offsets{fixtures.Part(1): 8}, nil); err != nil {
			t.Fatal(err)
		}
		want := source.Offsets{fixtures.Part(0): 3, fixtures.Part(1): 8}
		if who == "another" {
			want[fixtures.Part(0)] = 9
		}
		if diff := cmp.Diff(want, town.open(t, source.Latest, fixtures.Part(0), fixtures.Part(1))); diff != "" {
			t.Errorf("written by %s (-want +got):\n%s", who, diff)
		}
	}
}

// A reset of one partition leaves it as it is where a learner without a checkpoint begins in others.
func TestResetOfALearnerLeavesOthers(t *testing.T) {
	town := newTown()
	resume := func() source.Offsets {
		next, err := town.positions(source.Latest, "m").Resume(t.Context(), town, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0), fixtures.Part(1)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	resume()
	town.end[fixtures.Part(0)], town.end[fixtures.Part(1)] = 50, 50
	if err := town.positions(source.Latest, "m").Reset(t.Context(), town, source.Offsets{fixtures.Part(1): 5}, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(source.Offsets{fixtures.Part(0): 9, fixtures.Part(1): 5}, resume()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
