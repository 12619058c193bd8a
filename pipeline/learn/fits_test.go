package learn

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// named puts versions of model m onto the topic, each with its own names of the three features.
func named(t *testing.T, w *world, slots snapshot.Slots, from int, features ...string) snapshot.Slots {
	t.Helper()
	a := assembled(t, learntSnapshots(t))
	model, ok := a.Newest("m")
	if !ok {
		t.Fatal("no model")
	}
	for i, names := range features {
		s := *model
		s.Number, s.Version, s.Features = uint64(from+i), uint64(100*(from+i+1)), strings.Fields(names)
		learnt := *s.Model
		learnt.Info.Rows = s.Version
		s.Model = &learnt
		var msgs []sink.Message
		var err error
		if msgs, slots, err = snapshot.Messages(&s, "snapshots", 8, slots); err != nil {
			t.Fatal(err)
		}
		w.put(msgs...)
	}
	return slots
}

// A model of other features than source.features never becomes current; without source.features none of others than
// the current model has does. Where a process that starts finds nothing else, it ends, and both lists are said.
func TestOtherFeaturesAreNotFollowed(t *testing.T) {
	for _, c := range []struct {
		name    string
		columns string   // source.features
		before  []string // features of versions 100, 200, … when it starts
		after   []string // features of the versions that come while it runs
		want    uint64   // the current version, 0: none
		passed  string   // what is said
		stops   bool
	}{
		{"its own", "a b c", []string{"a b c"}, []string{"a b c"}, 200, "", false},
		{"others come", "a b c", []string{"a b c"}, []string{"x y z"}, 100, "features [x, y, z], and source.features now says [a, b, c]", false},
		{"others come, then its own", "a b c", []string{"a b c"}, []string{"x y z", "a b c"}, 300, "", false},
		{"the same in another order", "a b c", []string{"a b c"}, []string{"b a c"}, 100, "[b, a, c]", false},
		{"others are newer at the start", "a b c", []string{"a b c", "x y z"}, nil, 100, "[x, y, z]", false},
		{"there are only others at the start", "a b c", []string{"x y z", "a b d"}, nil, 0, "features [a, b, d], and source.features now says [a, b, c]", true},
		{"others come before the first model", "a b c", nil, []string{"x y z"}, 0, "[x, y, z]", false},
		{"a list", "v", []string{"v[0] v[1] v[2]"}, []string{"v[0] v[1] v[2]"}, 200, "", false},
		{"no choice", "", []string{"a b c"}, []string{"a b c"}, 200, "", false},
		{"no choice, others come", "", []string{"a b c"}, []string{"x y z", "x y z"}, 100, "features [x, y, z], and version 100, which is current, has [a, b, c]", false},
		{"no choice, the newest decides at the start", "", []string{"a b c", "x y z"}, nil, 200, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, read := newWorld(), 0
			slots := named(t, w, nil, 0, c.before...)
			f := w.follow(&read)
			f.Features = strings.Fields(c.columns)
			f.Stats.SetReady(stats.Readiness{Ready: true})
			var said bytes.Buffer
			f.Log = slog.New(slog.NewTextHandler(&said, nil))
			err := follow(t, f)
			if c.stops {
				fixtures.WantStop(t, err, c.passed, "snapshot.model_id", "source.features")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(c.after) > 0 {
				for i, names := range c.after {
					slots = named(t, w, slots, len(c.before)+i, names)
					if err := follow(t, f); err != nil {
						t.Fatal(err)
					}
				}
			}
			if now := f.Current(); (now == nil) != (c.want == 0) || now != nil && now.Version != c.want {
				t.Errorf("%+v is current, want version %d", now, c.want)
			}
			if r := f.Stats.Ready(); !r.Ready || !strings.Contains(r.Reason, c.passed) || (c.passed == "") != (r.Reason == "") {
				t.Errorf("readiness %+v, want it to say %q", r, c.passed)
			}
			if n := strings.Count(said.String(), "level=ERROR"); c.passed != "" && !strings.Contains(said.String(), c.passed) || n > len(c.before)+len(c.after) {
				t.Errorf("logged %d errors, want one for each version at most, with %q: %s", n, c.passed, said.String())
			}
		})
	}
}

// A pinned version of other features is refused by its number, not said to be gone.
func TestPinnedVersionOfOtherFeatures(t *testing.T) {
	for _, at := range []uint64{100, 200} {
		w, read := newWorld(), 0
		named(t, w, nil, 0, "x y z", "x y z", "a b c")
		f := w.follow(&read)
		f.Features, f.Pin = []string{"a", "b", "c"}, at
		fixtures.WantStop(t, follow(t, f), "transform.pin_version", fmt.Sprintf("version %d", at), "[x, y, z]", "[a, b, c]")
	}
	w, read := newWorld(), 0
	named(t, w, nil, 0, "x y z", "a b c", "x y z")
	f := w.follow(&read)
	f.Features, f.Pin = []string{"a", "b", "c"}, 200
	if err := follow(t, f); err != nil || f.Current() == nil || f.Current().Version != 200 {
		t.Errorf("the pinned version is not current: %v", err)
	}
}

// A transform that waits for the start goes on as soon as it is known that there is no model yet, and not before.
func TestAwaitStart(t *testing.T) {
	w, read := newWorld(), 0
	f := w.follow(&read)
	before, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.AwaitStart(before); err == nil {
		t.Error("nothing is read, and it has started")
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	if err := f.AwaitStart(ctx); err != nil || f.Current() != nil {
		t.Errorf("%v, %v", err, f.Current())
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Rows that come after a model of other features are whitened as those before, in the same width, and none is a dead
// letter.
func TestWidthStaysInMidTopic(t *testing.T) {
	for _, features := range []string{"a b", "x y z"} {
		w := learnt(t)
		loop := w.transformLoop(t, fixtures.Events, 3)
		stage := loop.Stage.(*transform.Transform)
		now := stage.Follow.Current()
		other := *now.Snapshot
		other.Version, other.Features = now.Version+1000, strings.Fields(features)
		if err := stage.Follow.Accept(&other); err == nil {
			t.Errorf("features %v are accepted next to %v", other.Features, now.Features)
		}
		if err := loop.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		used, err := stage.Engines.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if stage.Follow.Current() != now || !slices.Equal(used.Features.Names, now.Features) || len(w.topics[fixtures.Dead]) > 0 {
			t.Errorf("version %d is current, %d dead letters", stage.Follow.Current().Version, len(w.topics[fixtures.Dead]))
		}
	}
}
