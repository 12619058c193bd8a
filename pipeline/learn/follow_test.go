package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

var snapshotLog = source.Partition{Topic: "snapshots"}

// follow runs a Follow until it has caught up, or ends by itself with an error.
func follow(t *testing.T, f *models.Follow) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx); cancel() }()
	err := errors.Join(f.AwaitStart(ctx), f.CatchUp(ctx))
	cancel()
	if ended := <-ran; ended != nil {
		return ended
	}
	return err
}

func (w *world) follow(read *int) *models.Follow {
	open := func(_ context.Context, from int64) (checkpoint.TopicReader, error) {
		return &countedLog{TopicReader: &memoryLog{w: w, p: snapshotLog, n: int(from)}, n: read}, nil
	}
	return &models.Follow{
		Open: open,
		End:  w.end("snapshots"), ModelID: "m", Source: "events", Stats: stats.NewStats(), Log: fixtures.Quiet(),
	}
}

// learntSnapshots is a topic with versions of model m, the newest 400 of them whole.
func learntSnapshots(t *testing.T) *world {
	w := learnt(t)
	if len(w.topics[snapshotLog]) < 6 {
		t.Fatal("the topic is too short")
	}
	return w
}

// A transform starts with the last records of the topic, and goes farther back only where its model is not
// among them; a version that is asked for by number may be anywhere.
func TestFollowReadsTheTail(t *testing.T) {
	noise := sink.Message{Topic: "snapshots", Key: []byte("other/0/model/0")}
	for _, c := range []struct {
		name          string
		before, after int
		pin           uint64
		most          int
	}{
		{"its own are the last", 5000, 0, 0, checkpoint.TailRecords},
		{"others have published since", 5000, 100, 0, checkpoint.TailRecords * (1 + checkpoint.TailGrows)},
		{"others have published much since", 0, 5000, 0, 5100 + checkpoint.TailRecords*(1+checkpoint.TailGrows+checkpoint.TailGrows*checkpoint.TailGrows)},
		{"a version by its number", 2000, 0, 300, 2100},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, w := learntSnapshots(t), newWorld()
			for range c.before {
				w.put(noise)
			}
			w.put(from.topics[snapshotLog]...)
			for range c.after {
				w.put(noise)
			}
			read := 0
			f := w.follow(&read)
			f.Pin = c.pin
			if err := follow(t, f); err != nil {
				t.Fatal(err)
			}
			want := uint64(400)
			if c.pin != 0 {
				want = c.pin
			}
			if now := f.Current(); now == nil || now.Version != want {
				t.Fatalf("version %v is current, want %d", now, want)
			}
			if read > c.most || read == 0 {
				t.Errorf("%d of %d records were read, want at most %d", read, len(w.topics[snapshotLog]), c.most)
			}
		})
	}
}

// cutLog breaks once.
type cutLog struct {
	checkpoint.TopicReader
	cut   *bool
	cause error
}

func (l *cutLog) Fetch(ctx context.Context) (source.Fetched, error) {
	if !*l.cut {
		*l.cut = true
		return source.Fetched{}, l.cause
	}
	return l.TopicReader.Fetch(ctx)
}

// After an error it reads on where it stopped, and begins again where the topic is not the one that it has read.
func TestFollowReadsOn(t *testing.T) {
	for _, c := range []struct {
		cause error
		again bool
	}{
		{errors.New("connection reset"), false},
		{&source.OffsetError{}, true}, {&source.RecreatedError{}, true}, {&source.TruncatedError{}, true},
	} {
		t.Run(fmt.Sprintf("%T", c.cause), func(t *testing.T) { testFollowReadsOn(t, c.cause, c.again) })
	}
}

func testFollowReadsOn(t *testing.T, cause error, again bool) {
	w := learntSnapshots(t)
	read := 0
	f := w.follow(&read)
	if err := follow(t, f); err != nil {
		t.Fatal(err)
	}
	all, cut := read, false
	open := f.Open
	f.Open = func(ctx context.Context, at int64) (checkpoint.TopicReader, error) {
		log, err := open(ctx, at)
		return &cutLog{log, &cut, cause}, err
	}
	w.put(w.topics[snapshotLog][0]) // something to read
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	if err := f.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil || !cut || read <= all || (read > all+1) != again {
		t.Errorf("%d records were read again, error %v", read-all-1, err)
	}
}

// Rows of one topic are not whitened with what another pipeline has learnt from another topic, though it has
// the same model id: neither when that is all there is, nor when it is newer.
func TestForeignModelIsPassedOver(t *testing.T) {
	w := learntSnapshots(t)
	read := 0
	f := w.follow(&read)
	f.Source = "clicks"
	var said bytes.Buffer
	f.Log = slog.New(slog.NewTextHandler(&said, nil))
	if err := follow(t, f); err != nil {
		t.Fatal(err)
	}
	if f.Current() != nil {
		t.Error("a model of another topic is current")
	}
	if !strings.Contains(said.String(), "snapshot.model_id") || !strings.Contains(said.String(), "clicks") {
		t.Errorf("the log does not say what to do: %s", said.String())
	}
	same := w.follow(&read)
	if err := follow(t, same); err != nil || same.Current() == nil {
		t.Errorf("its own is not current: %v", err)
	}
}

// A version that cannot come any more ends the process, with what there is; one that may come is waited for.
func TestPinnedVersionThatIsGone(t *testing.T) {
	read := 0
	for _, c := range []struct {
		pin  uint64
		gone bool
	}{{250, true}, {1, true}, {300, false}, {400, false}, {1 << 40, false}} {
		f := learntSnapshots(t).follow(&read)
		f.Pin = c.pin
		err := follow(t, f)
		if c.gone {
			fixtures.WantStop(t, err, "is not on the topic any more, which has [400 ", "transform.pin_version")
		} else if err != nil {
			t.Errorf("version %d: %v", c.pin, err)
		}
	}
}
