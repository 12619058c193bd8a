package learn

import (
	"context"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// What has been learnt is published and saved when the stream pauses, too, and once only.
func TestIdleStreamIsPublished(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 14, 30)
	loop, stage := w.learnLoop(t, 14)
	now := time.UnixMilli(0)
	stage.Now = func() time.Time { return now }
	stage.SnapshotRows, stage.CheckpointRows = 1<<40, 1<<40
	stage.SnapshotEvery, stage.CheckpointEvery = 10*time.Second, 30*time.Second
	ctx := context.Background()
	b, err := loop.Source.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	idle := source.Batch{Claim: b.Claim}
	for _, step := range []struct {
		Part time.Duration
		name string
		b    source.Batch
		want bool // something is put
	}{
		{0, "the first model", b, true},
		{9 * time.Second, "too early", idle, false},
		{11 * time.Second, "the rows since the first model", idle, true},
		{42 * time.Second, "nothing new", idle, false},
	} {
		now = time.UnixMilli(0).Add(step.Part)
		work, err := stage.Do(ctx, step.b)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if work.Commit != step.want {
			t.Errorf("%s: put is %v, want %v", step.name, work.Commit, step.want)
		}
		if work.Commit {
			if err := loop.Sink.Put(ctx, work.Messages, step.b.Claim); err != nil {
				t.Fatal(err)
			}
			stage.Kept()
		}
	}
	if got := stage.state.Published; got != 420 {
		t.Errorf("%d rows are published, want all 420", got)
	}
}
