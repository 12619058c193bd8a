package learn

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/source"
)

// heldLog is a log whose readable end is held back by a transaction that was left open, until a time.
type heldLog struct {
	*memoryLog
	before int // the first offset of the open transaction
	ends   time.Time
}

func (l *heldLog) Fetch(ctx context.Context) (source.Fetched, error) {
	open := time.Now().Before(l.ends)
	if open && l.n >= l.before {
		if !retry.Sleep(ctx, 500*time.Millisecond) {
			return source.Fetched{}, ctx.Err()
		}
		return source.Fetched{Next: int64(l.n)}, nil
	}
	got, err := l.memoryLog.Fetch(ctx)
	if cut := got.Next - int64(l.before); err == nil && open && cut > 0 {
		got.Records, got.Next, l.n = got.Records[:len(got.Records)-int(cut)], int64(l.before), l.before
	}
	return got, err
}

// hold lets a transaction be open on the checkpoint topic from an offset on, for so long.
func hold(t *checkpoint.Checkpoints, w *world, before int, d time.Duration) {
	ends := time.Now().Add(d)
	t.Open = func(_ context.Context, from int64) (checkpoint.TopicReader, error) {
		return &heldLog{memoryLog: &memoryLog{w: w, p: source.Partition{Topic: t.Topic}, n: int(from)}, before: before, ends: ends}, nil
	}
}

// A learner starts while the transaction of another producer on the shared topic is open, and its own newest
// checkpoint lies behind: it waits and says so, rather than go back and give versions another content.
func TestForeignTransactionHidesNoCheckpoint(t *testing.T) {
	w := newWorld()
	w.events(t, 2, 60, 30)
	loop, first := w.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	log := source.Partition{Topic: "checkpoints"}
	synctest.Test(t, func(t *testing.T) {
		_, stage := w.learnLoop(t, 5)
		var said bytes.Buffer
		stage.Checkpoints.Log = slog.New(slog.NewTextHandler(&said, nil))
		hold(stage.Checkpoints, w, len(w.topics[log])-6, 70*time.Second)
		began := time.Now()
		at, err := stage.Rewind(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if stage.state.Sequence != first.state.Sequence || stage.state.Published != first.state.Published {
			t.Errorf("went on from checkpoint %d with version %d, want %d and %d", stage.state.Sequence, stage.state.Published, first.state.Sequence, first.state.Published)
		}
		if fmt.Sprint(at) != fmt.Sprint(first.offsets) {
			t.Errorf("reads on at %v, want %v", at, first.offsets)
		}
		if waited := time.Since(began); waited < 70*time.Second || waited > 72*time.Second {
			t.Errorf("waited for %v, want the 70 s that the transaction was open", waited)
		}
		if n := strings.Count(said.String(), "waiting for a transaction"); n != 3 || !strings.Contains(said.String(), "topic=checkpoints") {
			t.Errorf("said %d times, want after 2 s and then every 30 s, with the topic:\n%s", n, said.String())
		}
	})
}

// A transaction that never ends is waited for until the process is asked to stop.
func TestHangingTransactionCanBeInterrupted(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 14, 30)
	loop, _ := w.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		_, stage := w.learnLoop(t, 2)
		hold(stage.Checkpoints, w, 1, 365*24*time.Hour)
		ctx, stop := context.WithTimeout(context.Background(), time.Hour)
		defer stop()
		if _, err := stage.Rewind(ctx); err == nil || ctx.Err() == nil {
			t.Errorf("ended with %v, want the context's end", err)
		}
	})
}

// A log that hides nothing is read without a wait and without a word in the log.
func TestReadBackOfEmptyTopic(t *testing.T) {
	w := newWorld()
	back := w.readBackOf("none")
	if err := back.Read(context.Background(), func(*source.Fetched) error { t.Error("a record"); return nil }); err != nil {
		t.Fatal(err)
	}
}
