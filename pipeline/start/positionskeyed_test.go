package start

import (
	"bytes"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// keyed are the positions of a learner of models by key, of the first partition.
func (t *town) keyed(start source.At, models string) *Positions { return t.keyedOf(start, models, 0) }

// keyedOf are those of any partition, or those of a transform where models is "".
func (t *town) keyedOf(start source.At, models string, partition int32) *Positions {
	p := t.positions(start, "")
	p.Models, p.Starts, p.Home = models, t.starts(partition), t.starts(0)
	return p
}

// opens is where a learner of models by key begins in the first partition, which is committed then.
func (t *town) opens(tt *testing.T, start source.At, models string, want int64) *Positions {
	tt.Helper()
	p := t.keyed(start, models)
	next, err := p.Open(tt.Context(), t, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0)})
	if err != nil {
		tt.Fatal(err)
	}
	if next[fixtures.Part(0)] != want || t.committed[fixtures.Part(0)].Next != want {
		tt.Errorf("models %s begin at %d, and %d is committed, want %d", models, next[fixtures.Part(0)], t.committed[fixtures.Part(0)].Next, want)
	}
	return p
}

// learns commits what a learner has learnt; renewed: its start marker says so.
func (t *town) learns(tt *testing.T, p *Positions, to int64, renewed bool) {
	tt.Helper()
	next, msgs := source.Offsets{fixtures.Part(0): to}, []sink.Message(nil)
	if renewed {
		msgs = p.Markers(next)
	}
	if err := t.Put(tt.Context(), msgs, source.Claim{Group: "g", Next: next, Metadata: p.Metadata([]source.Partition{fixtures.Part(0)})}); err != nil {
		tt.Fatal(err)
	}
}

// learnsOne is what a learner of one model for all rows does on the same topics: it begins, and commits.
func (t *town) learnsOne(tt *testing.T, start source.At, to int64) {
	tt.Helper()
	p := t.positions(start, "m")
	if _, err := p.Resume(tt.Context(), t, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0)}, nil); err != nil {
		tt.Fatal(err)
	}
	t.learns(tt, p, to, true)
}

// Models by key begin where a new group would, whatever another learner has committed in their group.
func TestModelsByKeyBeginAnew(t *testing.T) {
	for start, want := range map[source.At]int64{source.Earliest: 3, source.Latest: 9} {
		town := newTown()
		town.learnsOne(t, start, 7)
		p := town.opens(t, start, "checkpoints/m", want)
		town.learns(t, p, 9, true)
		town.end[fixtures.Part(0)] = 20
		town.opens(t, start, "checkpoints/m", 9) // what is committed is theirs by now
	}
	for what, metadata := range map[string]string{
		"another application":  "",
		"a transform":          (&source.Note{Version: 1, Since: source.Since{"out": 0}}).String(),
		"no name":              source.NewNote("one", "").String(),
		"models by another id": (&source.Note{Version: 1, Models: "checkpoints/n"}).String(),
		"another topic's":      (&source.Note{Version: 1, Models: "others/m"}).String(),
	} {
		t.Run(what, func(t *testing.T) {
			town := newTown()
			town.committed[fixtures.Part(0)] = source.Position{Next: 7, Epoch: -1, Metadata: metadata}
			town.opens(t, source.Earliest, "checkpoints/m", 3)
		})
	}
}

// A broker may show the offset of a transaction that was aborted, or one that is too old. The marker that is on the topic is that of the last committed one.
func TestModelsByKeyGoOnAtTheirMarker(t *testing.T) {
	for _, shown := range []int64{20, 41, 90} {
		town := newTown()
		town.end[fixtures.Part(0)] = 100
		p := town.opens(t, source.Earliest, "checkpoints/m", 3)
		town.learns(t, p, 41, true)
		c := town.committed[fixtures.Part(0)]
		c.Next = shown
		town.committed[fixtures.Part(0)] = c
		town.opens(t, source.Earliest, "checkpoints/m", 41)
	}
	// A marker of an earlier release is an hour old.
	town := newTown()
	town.end[fixtures.Part(0)] = 100
	p := town.opens(t, source.Earliest, "checkpoints/m", 3)
	town.learns(t, p, 90, false)
	for i := range town.log {
		town.log[i].Value = bytes.Replace(town.log[i].Value, []byte(`,"exact":true`), nil, 1)
	}
	town.opens(t, source.Earliest, "checkpoints/m", 90)
}

// After another learner, models by key go on where their start marker says, which is never ahead of them, wherever the other one is.
func TestModelsByKeyReturn(t *testing.T) {
	town := newTown()
	town.end[fixtures.Part(0)] = 100
	p := town.opens(t, source.Earliest, "checkpoints/m", 3)
	town.learns(t, p, 40, true)
	town.learns(t, p, 45, false)
	town.learnsOne(t, source.Earliest, 90)
	if k, err := town.keyed(source.Earliest, "checkpoints/m").Known(t.Context()); err != nil || !k.Others[fixtures.Part(0)] || k.Markers[fixtures.Part(0)].Offset != 40 {
		t.Errorf("known is %+v, %v", k, err)
	}
	p = town.opens(t, source.Earliest, "checkpoints/m", 40)
	town.learns(t, p, 50, true)
	other := town.opens(t, source.Earliest, "checkpoints/n", 3)
	town.learns(t, other, 60, true)
	town.opens(t, source.Latest, "checkpoints/m", 50)
	town.opens(t, source.Latest, "checkpoints/n", 60)
	if k, err := town.keyed(source.Earliest, "checkpoints/n").Known(t.Context()); err != nil || k.Others[fixtures.Part(0)] {
		t.Errorf("known is %+v, %v", k, err)
	}

	town.learnsOne(t, source.Earliest, 90)
	town.id = "two"
	_, err := town.keyed(source.Earliest, "checkpoints/m").Open(t.Context(), town, source.Claim{Group: "g"}, []source.Partition{fixtures.Part(0)})
	fixtures.WantStop(t, err, "deleted and created again", "one", "two")
}

// Models by key whose offsets have expired go on at their start marker, and pass over what they have learnt.
func TestModelsByKeyGoOnWithoutOffsets(t *testing.T) {
	for _, start := range []source.At{source.Earliest, source.Latest} {
		town := newTown()
		town.end[fixtures.Part(0)] = 100
		p := town.keyed(start, "checkpoints/m")
		if _, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0)}); err != nil {
			t.Fatal(err)
		}
		town.learns(t, p, 40, true)
		town.learns(t, p, 45, false)
		clear(town.committed)
		town.opens(t, start, "checkpoints/m", 40)
		clear(town.committed)
		town.id = "two"
		_, err := town.keyed(start, "checkpoints/m").Open(t.Context(), town, source.Claim{Group: "g"}, []source.Partition{fixtures.Part(0)})
		fixtures.WantStop(t, err, "deleted and created again", "start marker of partition 0")
	}
}

// Models by key go on where a reset says, also after another learner.
func TestModelsByKeyAfterAReset(t *testing.T) {
	town := newTown()
	town.end[fixtures.Part(0)] = 100
	town.learnsOne(t, source.Earliest, 90)
	if err := town.keyed(source.Earliest, "checkpoints/m").Reset(t.Context(), town, source.Offsets{fixtures.Part(0): 30}, nil); err != nil {
		t.Fatal(err)
	}
	town.opens(t, source.Earliest, "checkpoints/m", 30)
	town.learnsOne(t, source.Earliest, 95)
	town.opens(t, source.Latest, "checkpoints/m", 30)
}

// A transform does not begin at an offset of a learner of models by key.
func TestTransformInTheGroupOfModelsByKey(t *testing.T) {
	town := newTown()
	town.learns(t, town.opens(t, source.Earliest, "checkpoints/m", 3), 7, false)
	town.refuses(t, "learner of models by key", "offset 7", "another source.group")
}
