package learn

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// ofGroup gives a stage to the learner of a group.
func (w *world) ofGroup(stage *KeyedLearn, group string) *KeyedLearn {
	stage.States.Owner.Group = group
	owner := &ModelsOwner{Base: "fleet/a", Ours: stage.States.Owner}
	stage.Owns = func(ctx context.Context) error {
		var all []*checkpoint.ReadBack
		for id := range int32(4) {
			all = append(all, w.readBack(source.Partition{Topic: "snapshots", ID: id}))
		}
		return owner.Check(ctx, all)
	}
	return stage
}

// A pipeline that learns models by key next to another one's, on checkpoint topics of its own, is refused by name: at its start, and while it works once the
// newest version is another's. Both started again, the one goes on that has published last.
func TestModelsByKeyHaveOneOwner(t *testing.T) {
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
	w := newWorld()
	w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
	if err := w.learnOnce(t, r, w.ofGroup(w.keyedStage(r), "g")); err != nil {
		t.Fatal(err)
	}
	begins := func(group string) error {
		own := newWorld()
		own.topics[source.Partition{Topic: "snapshots", ID: 3}] = w.topics[source.Partition{Topic: "snapshots", ID: 3}]
		stage := own.ofGroup(own.keyedStage(r), group)
		defer stage.Close()
		_, err := stage.Rewind(t.Context())
		return err
	}
	fixtures.WantStop(t, begins("other"), `belongs to the learner of topic "events" in group "g"`, `and this one is of topic "events" in group "other"`, "snapshot.model_id")

	// It published in the end all the same, as a learner of an earlier release does.
	w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
	stage := w.ofGroup(w.keyedStage(r), "g")
	owns, asked := stage.Owns, 0
	stage.Owns = func(ctx context.Context) error {
		if asked++; asked == 2 {
			at := source.Partition{Topic: "snapshots", ID: 3}
			last := w.topics[at][len(w.topics[at])-1]
			last.Headers = slices.Clone(last.Headers)
			for i := range last.Headers {
				if last.Headers[i].Key == reject.HeaderGroup {
					last.Headers[i].Value = []byte("other")
				}
			}
			w.topics[at] = append(w.topics[at], last)
		}
		return owns(ctx)
	}
	fixtures.WantStop(t, w.learnOnce(t, r, stage), `in group "other", and this one is of topic "events" in group "g"`, "snapshot.model_id")
	if asked < 2 {
		t.Errorf("asked %d times: before it published nothing was looked at", asked)
	}
	fixtures.WantStop(t, begins("g"), `in group "other"`)
	if err := begins("other"); err != nil {
		t.Errorf("none of the two goes on: %v", err)
	}
}

// The first partition that has models decides for all: otherwise two pipelines that have published last in one partition each would never go on again.
func TestOnePartitionSaysWhoseModelsTheyAre(t *testing.T) {
	w := newWorld()
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
	w.fleetMessages(r.by, fleetRows(80, "pump"))
	w.learnFleet(t, r)
	in := func(id int32, group string) {
		at, from := source.Partition{Topic: "snapshots", ID: id}, source.Partition{Topic: "snapshots", ID: 3}
		for _, m := range w.topics[from] {
			m.Headers = slices.Clone(m.Headers)
			for i := range m.Headers {
				if m.Headers[i].Key == reject.HeaderGroup {
					m.Headers[i].Value = []byte(group)
				}
			}
			w.topics[at] = append(w.topics[at], m)
		}
	}
	in(1, "first")
	in(2, "second")
	goOn := 0
	for _, group := range []string{"first", "second"} {
		if err := w.ofGroup(w.keyedStage(r), group).Owns(t.Context()); err == nil {
			goOn++
		} else {
			fixtures.WantStop(t, err, `belongs to the learner of topic "events" in group "first"`)
		}
	}
	if goOn != 1 {
		t.Errorf("%d of two go on", goOn)
	}
}

// Two pipelines begin at the same moment on one checkpoint topic. One of them has the models, also later, and no partition goes to the other.
func TestTwoClaimModelsByKey(t *testing.T) {
	w := newWorld()
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
	stageOf := func(group string, before func()) *KeyedLearn {
		stage := w.keyedStage(r)
		stage.States.Owner.Group = group
		stage.Claim = func(ctx context.Context) error {
			c := w.checkpointsOf(stage.States.Owner)
			c.Topic, c.ModelID, c.By = "checkpoints", "fleet/a", "key"
			return c.Own(ctx, &whenPut{Sink: w.open("claim of " + group), before: before})
		}
		return stage
	}
	begin := func(stage *KeyedLearn) error {
		defer stage.Close()
		_, err := stage.Rewind(t.Context())
		return err
	}
	var second error
	err := begin(stageOf("one", func() { second = begin(stageOf("two", nil)) }))
	fixtures.WantStop(t, err, `in group "two", and this one is of topic "events" in group "one"`, "snapshot.model_id")
	if strings.Contains(err.Error(), "--from-snapshot") { // which there is not for these
		t.Errorf("the remedy is of one model for all rows: %v", err)
	}
	if second != nil {
		t.Errorf("the first claim does not hold: %v", second)
	}
	if err := begin(stageOf("one", nil)); err == nil {
		t.Error("the loser has the models at its next start")
	}
	w.fleetMessages(r.by, fleetRows(80, "pump"))
	if err := w.learnOnce(t, r, stageOf("two", nil)); err != nil {
		t.Errorf("the winner loses them at its next start: %v", err)
	}
	for at, log := range w.topics {
		if i := slices.IndexFunc(log, func(m sink.Message) bool { return source.LastHeader(m.Headers, "lca-model-id") == "fleet/a" }); i >= 0 {
			t.Errorf("record %d of %v looks like one of a model of all rows", i, at)
		}
	}
}
