package learn

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// versions puts versions of model m onto the topic, each as its group publishes it ("" as the first edition did).
func versions(t *testing.T, w *world, groups ...string) {
	t.Helper()
	from := learntSnapshots(t)
	a := &snapshot.Assembler{}
	for _, r := range from.topics[snapshotLog] {
		if err := a.Add(r.Key, r.Value, r.Headers, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	model, ok := a.Newest("m")
	if !ok {
		t.Fatal("no model")
	}
	var slots snapshot.Slots
	for i, group := range groups {
		s := *model
		s.Number, s.Version, s.Group = uint64(i), uint64(100*(i+1)), group
		learnt := *s.Model
		learnt.Info.Rows = s.Version
		s.Model = &learnt
		var msgs []sink.Message
		var err error
		if msgs, slots, err = snapshot.Messages(&s, "snapshots", 4, slots); err != nil {
			t.Fatal(err)
		}
		w.put(msgs...)
	}
}

// A transform whose group has published models follows those alone; one of a group that has none follows the
// model of another group that reads the same topic. What it passes over is in its readiness.
func TestFollowsItsOwnGroup(t *testing.T) {
	for _, c := range []struct {
		name   string
		groups []string // of versions 100, 200, …
		want   uint64
		passed string
	}{
		{"its own", []string{"plant", "plant"}, 200, ""},
		{"those of the first edition", []string{"", ""}, 200, ""},
		{"its own after those of the first edition", []string{"", "plant"}, 200, ""},
		{"another group's, and none of its own", []string{"other", "other"}, 200, ""},
		{"its own are older", []string{"plant", "other"}, 100, `version 200 of model "m" was published by group "other"`},
		{"its own are newer", []string{"other", "plant"}, 200, ""},
		{"both in turn", []string{"plant", "other", "plant", "other"}, 300, "version 400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, read := newWorld(), 0
			versions(t, w, c.groups...)
			f := w.follow(&read)
			f.Group = "plant"
			f.Stats.SetReady(stats.Readiness{Ready: true})
			if err := follow(t, f); err != nil {
				t.Fatal(err)
			}
			if now := f.Current(); now == nil || now.Version != c.want {
				t.Errorf("version %v is current, want %d", now, c.want)
			}
			r := f.Stats.Ready()
			if !r.Ready || (r.Reason != "") != (c.passed != "") || !strings.Contains(r.Reason, c.passed) {
				t.Errorf("readiness %+v, want it to say %q", r, c.passed)
			}
		})
	}
}

// While there is no model the reason says that there is one, and whose.
func TestNotReadySaysWhatIsPassedOver(t *testing.T) {
	w, read := learntSnapshots(t), 0
	f := w.follow(&read)
	f.Source = "clicks"
	f.Stats.SetReady(stats.Readiness{Reason: "no model yet on topic snapshots"})
	if err := follow(t, f); err != nil {
		t.Fatal(err)
	}
	r := f.Stats.Ready()
	for _, word := range []string{"no model yet", "a model of another pipeline is passed over", `learnt from topic "events"`, "snapshot.model_id"} {
		if r.Ready || !strings.Contains(r.Reason, word) {
			t.Errorf("readiness %+v does not say %q", r, word)
		}
	}
	versions(t, w, "", "", "", "") // another model comes, and is the newest for a transform of that topic
	same := w.follow(&read)
	same.Stats = f.Stats
	if err := follow(t, same); err != nil {
		t.Fatal(err)
	}
	if r := f.Stats.Ready(); r.Reason != "no model yet on topic snapshots" {
		t.Errorf("it is still said: %q", r.Reason)
	}
}

// Two learners with checkpoint topics of their own publish one model id: the one that sees that the newest version is
// the other's stops by name, and the one whose version is the newest goes on.
func TestContestedModel(t *testing.T) {
	for _, c := range []struct {
		groups    []string
		contested bool
	}{
		{[]string{"plant"}, false},
		{[]string{"", "plant"}, false},
		{[]string{"", ""}, false},
		{[]string{"other", "plant"}, false},
		{[]string{"plant", "other"}, true},
		{[]string{"other"}, true},
	} {
		t.Run(strings.Join(c.groups, ", "), func(t *testing.T) {
			w, read := newWorld(), 0
			versions(t, w, c.groups...)
			f := w.follow(&read)
			f.Group, f.Learns, f.Topic = "plant", true, "snapshots"
			err := follow(t, f)
			if !c.contested {
				if err != nil || f.Contested() != nil {
					t.Errorf("it stops: %v", err)
				}
				return
			}
			fixtures.WantStop(t, err, `model "m" on topic snapshots belongs to the learner of topic "events" in group "other"`, `in group "plant"`, "snapshot.model_id")
			if f.Contested() == nil {
				t.Error("it is not known as contested")
			}
		})
	}
}

// published is what the snapshot topic holds of the model.
func (w *world) published(context.Context, bool) (*snapshot.Snapshot, snapshot.Slots, error) {
	a := &snapshot.Assembler{}
	for _, r := range w.topics[snapshotLog] {
		if err := a.Add(r.Key, r.Value, r.Headers, time.Time{}); err != nil {
			return nil, nil, err
		}
	}
	newest, _ := a.Newest("m")
	return newest, a.Slots("m"), nil
}

// A learner without a checkpoint does not go on from what a learner of another group publishes, and says so before
// it fences a process.
func TestOtherGroupsModelIsNotAdopted(t *testing.T) {
	for _, group := range []string{"", "plant", "other"} {
		w := newWorld()
		versions(t, w, group)
		w.events(t, 1, 1, 1)
		_, learn := w.learnLoop(t, 1)
		learn.Checkpoints.Owner, learn.Checkpoints.Stable = plant, w.end("checkpoints")
		learn.Published = w.published
		errCheck := learn.Check(context.Background())
		_, errRewind := learn.Rewind(context.Background())
		for _, err := range []error{errCheck, errRewind} {
			if group == "other" {
				fixtures.WantStop(t, err, `belongs to the learner of topic "events" in group "other"`)
			} else if err != nil {
				t.Errorf("group %q: %v", group, err)
			}
		}
	}
}
