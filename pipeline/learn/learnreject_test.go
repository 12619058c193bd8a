package learn

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// Before the first model the transform has not begun: what cannot be used is said by the learner, which stops where
// the transform would.
func TestLearnerRejects(t *testing.T) {
	for _, c := range []struct {
		name    string
		rejects *reject.DeadLetter
		row     bool   // source.on_invalid: stop
		spoil   string // of each of these
		bad     []int
		stops   string // "" = not
		warns   int
	}{
		{"a replay", nil, false, "garbage", []int{0, 1, 2, 3, 4, 5}, "", 0},
		{"no dead-letter topic", &reject.DeadLetter{}, false, "garbage", []int{3}, "set dead_letter.topic", 1},
		{"few", &reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 2}, false, "garbage", []int{0, 1, 12, 13}, "", 4},
		{"too many", &reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 2}, false, "garbage", []int{0, 4, 8}, "3 of the last 10 messages were rejected", 3},
		{"as many as there may be", &reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 10}, false, "garbage", []int{0, 4, 8}, "", 3},
		{"nothing but", &reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 2}, false, `["text"]`, []int{1, 2, 3, 4, 5, 6}, "3 of the last 10", 3},
		{"a null", &reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 2}, false, `{"a":null,"b":1,"c":1}`, []int{7}, "", 0},
		{"a null, on_invalid: stop", &reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 2}, true, `{"a":null,"b":1,"c":1}`, []int{7}, "source.on_invalid", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.events(t, 1, 20, 30)
			for _, i := range c.bad {
				w.topics[fixtures.Events][i].Value = []byte(c.spoil)
			}
			loop, stage := w.learnLoop(t, 2)
			var log bytes.Buffer
			if c.row {
				stage.OnInvalid = reject.StopAtRow
			}
			stage.Rejects, stage.Log = c.rejects, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			err := loop.Run(context.Background())
			if c.stops == "" && err != nil {
				t.Errorf("it stops: %v", err)
			}
			if c.stops != "" {
				fixtures.WantStop(t, err, c.stops)
			}
			if n := strings.Count(log.String(), "a record cannot be learnt from"); n != c.warns {
				t.Errorf("%d warnings, want %d", n, c.warns)
			}
		})
	}
}

// A checkpoint from before the newest version of its own learner is another one: versions would be published again.
func TestOlderCheckpoint(t *testing.T) {
	for _, c := range []struct {
		name  string
		group string
		later uint64
		stops bool
	}{
		{"the last one", "g", 0, false},
		{"an older one", "g", 100, true},
		{"of the first edition, which has imports too", "", 100, false},
		{"another group publishes too", "h", 100, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.events(t, 1, 40, 30)
			loop, _ := w.learnLoop(t, 2)
			if err := loop.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprint(w.topics[source.Partition{Topic: "checkpoints"}])
			_, stage := w.learnLoop(t, 2)
			newest, _ := assembled(t, w).Newest("m")
			stage.Checkpoints.Owner = checkpoint.Owner{Group: "g", Topic: "events"}
			stage.Newest = func(context.Context) (*snapshot.Snapshot, error) {
				s := *newest
				s.Group, s.Version = c.group, s.Version+c.later
				return &s, nil
			}
			_, err := stage.Rewind(context.Background())
			if c.stops {
				fixtures.WantStop(t, err, "this is an older checkpoint", "checkpoint.topic", "snapshot import")
			} else if err != nil {
				t.Error(err)
			}
			if fmt.Sprint(w.topics[source.Partition{Topic: "checkpoints"}]) != before {
				t.Error("it has written a checkpoint")
			}
		})
	}
}
