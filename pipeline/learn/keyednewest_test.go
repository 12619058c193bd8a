package learn

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

var (
	fleetSnapshots = source.Partition{Topic: "snapshots", ID: 3}
	fleetStates    = source.Partition{Topic: "checkpoints", ID: 3}
)

// fleetRun is how the learners of these tests run.
func fleetRun() keyedRun {
	return keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, topicID: "1", clock: func() time.Time { return time.UnixMilli(0) }}
}

// others appends records of models of another id, as another pipeline on the same topic does.
func (w *world) others(at source.Partition, n int) {
	for i := range n {
		id := fmt.Sprintf("others/3/k%d", i)
		w.topics[at] = append(w.topics[at], sink.Message{
			Topic: at.Topic, Partition: at.ID, Key: []byte(id + "/0/model/0"), Value: []byte("x"), Headers: []source.Header{reject.Text("lca-model-id", id), reject.Text(reject.HeaderGroup, "others")},
		})
	}
}

// retired deletes the snapshots of a model, as its learner does.
func (w *world) retired(t *testing.T, id string) {
	t.Helper()
	var a snapshot.Assembler
	for _, m := range w.topics[fleetSnapshots] {
		if err := a.Add(m.Key, m.Value, m.Headers, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	gone := snapshot.Tombstones(id, "snapshots", a.Slots(id))
	if len(gone) == 0 {
		t.Fatalf("%s has no snapshot", id)
	}
	w.topics[fleetSnapshots] = append(w.topics[fleetSnapshots], gone...)
}

// manyOthers is more than a search that gives up looks at.
const manyOthers = checkpoint.RecentMost + 100

// What is newest in a partition is found behind any number of records of other pipelines, and however much was retired since: whose the models are, that the checkpoints are
// an older copy although they say that they were compared, and that settings do not fit.
func TestNewestModelBehindOthers(t *testing.T) {
	r := fleetRun()
	for name, c := range map[string]struct {
		behind func(t *testing.T, w *world)
		starts func(t *testing.T, w *world, before []sink.Message) error
		says   string
	}{
		"the owner, behind others":        {othersBehind, foreignStart, `belongs to the learner of topic "events" in group "g"`},
		"the owner, behind a retirement":  {retirementBehind, foreignStart, `belongs to the learner of topic "events" in group "g"`},
		"an older copy, behind others":    {othersBehind, olderStart, "versions would be published again"},
		"an older copy, and a retirement": {retirementBehind, olderStart, "versions would be published again"},
		"other settings, behind others": {othersBehind, func(t *testing.T, w *world, _ []sink.Message) error {
			other := r
			other.soon = true
			return w.keyedStage(other).Check(t.Context())
		}, "is of another configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
			w.learnFleet(t, r)
			before := slices.Clone(w.topics[fleetStates])
			w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
			w.learnFleet(t, r)
			c.behind(t, w)
			fixtures.WantStop(t, c.starts(t, w, before), c.says)
		})
	}
}

func othersBehind(_ *testing.T, w *world) {
	w.others(fleetSnapshots, manyOthers)
	w.others(fleetStates, manyOthers)
}

func retirementBehind(t *testing.T, w *world) { w.retired(t, w.newestSnapshot(t).ModelID) }

// foreignStart is the start of a learner of another group, which has a checkpoint topic of its own.
func foreignStart(t *testing.T, w *world, _ []sink.Message) error {
	own := newWorld()
	own.topics[fleetSnapshots] = w.topics[fleetSnapshots]
	stage := own.ofGroup(own.keyedStage(fleetRun()), "other")
	defer stage.Close()
	_, err := stage.Rewind(t.Context())
	return err
}

// olderStart is the start of a learner after the checkpoints have become those that were there before.
func olderStart(t *testing.T, w *world, before []sink.Message) error {
	w.topics[fleetStates] = before
	stage := w.keyedStage(fleetRun())
	defer stage.Close()
	_, err := stage.Rewind(t.Context())
	if stage.States.compared != "1" {
		t.Errorf("the copy says that the models of topic %q were compared: this test shows nothing", stage.States.compared)
	}
	return err
}

// A record that the models were compared counts where the newest version is there, and is in the checkpoints. Without any they are compared again.
func TestComparisonOfWhatIsNotThere(t *testing.T) {
	r, w := fleetRun(), newWorld()
	w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
	w.learnFleet(t, r)
	w.topics[fleetSnapshots] = nil
	w.others(fleetSnapshots, 20)
	w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
	stage, reads := w.keyedStage(r), 0
	open := stage.Snapshots.Open
	stage.Snapshots.Open = func(ctx context.Context, from int64) (checkpoint.TopicReader, error) {
		if from == 0 {
			reads++
		}
		return open(ctx, from)
	}
	if err := w.learnOnce(t, r, stage); err != nil {
		t.Fatal(err)
	}
	if reads != 2 {
		t.Errorf("the beginning of the snapshots was read %d times, want 2: for the newest of ours, and to compare", reads)
	}
}

// Whose the models are is asked while a learner publishes: only what is new is read for it, also where nothing is found or the newest model was retired. A topic that was
// made again is read again.
func TestOwnerIsLookedForInWhatIsNew(t *testing.T) {
	w, r := newWorld(), fleetRun()
	w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
	w.learnFleet(t, r)
	w.retired(t, w.newestSnapshot(t).ModelID)
	first := source.Partition{Topic: "snapshots", ID: 0}
	w.others(first, 500)
	read := 0
	var all []*checkpoint.ReadBack
	for _, p := range []source.Partition{first, fleetSnapshots} {
		back := w.readBack(p)
		back.Open = func(_ context.Context, at int64) (checkpoint.TopicReader, error) {
			return &countedLog{TopicReader: &keyedLog{w, p, at}, n: &read}, nil
		}
		all = append(all, back)
	}
	owner := ModelsOwner{Base: "fleet/a", Ours: checkpoint.Owner{Group: "g", Topic: "events"}}
	const overlap = 2 * 3 // a stretch may end with records of the one behind it
	for _, c := range []struct {
		why         string
		first       func()
		least, most int
		stops       bool
	}{
		{"at first", func() {}, 500, 600, false},
		{"nothing is new", func() {}, 0, 0, false},
		{"others have published", func() { w.others(first, 10); w.others(fleetSnapshots, 10) }, 20, 20 + 2*overlap, false},
		{"the topic is another one", func() { w.topics[first] = nil; w.others(first, 50) }, 50, 50 + 3*overlap, false},
		{"another pipeline has published", func() {
			w.topics[first] = append(w.topics[first], w.topics[fleetSnapshots][0])
			w.publishedBy("other")
		}, 1, overlap, true},
	} {
		c.first()
		read = 0
		err := owner.Check(t.Context(), all)
		if c.stops {
			fixtures.WantStop(t, err, `in group "other", and this one is of topic "events" in group "g"`)
		} else if err != nil {
			t.Errorf("%s: %v", c.why, err)
		}
		if read < c.least || read > c.most {
			t.Errorf("%s: %d records were read, want %d to %d", c.why, read, c.least, c.most)
		}
	}
}
