package transform

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// countdown is a context that ends when it has been asked n times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

// prepared is the engine of a transform, which knows its model.
func prepared(t *testing.T, tr *Transform) *engine {
	t.Helper()
	tr.Engines = NewEngines(1, 2*slabMost)
	one, err := tr.Engines.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := one.adopt(&tr.TransformConfig, tr.Follow.Current()); err != nil {
		t.Fatal(err)
	}
	tr.Engines.give(one)
	return one
}

// A message of many rows is whitened in slices, to the same bytes, and no further than its context lives.
func TestDoEndsWithItsContext(t *testing.T) {
	const rows, slice = 1000, 10
	value := [][]byte{fixtures.ListValue(t, rand.New(rand.NewPCG(3, 4)), rows, 0)}
	for _, c := range []struct {
		name  string
		batch func() source.Batch
	}{
		{"from where they lie", func() source.Batch {
			d := fixtures.NewDecoder(t, format.Config{})
			batchOf(t, d, value)
			return batchOf(t, d, value)
		}},
		{"gathered", func() source.Batch { return batchOf(t, nil, value) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := func(left int) (context.Context, *countdown, pipeline.Work, error) {
				tr := listTransform(t, reject.NullRow, fixtures.ListDim)
				if left >= 0 {
					prepared(t, tr).slice = slice
				}
				ctx := &countdown{Context: t.Context(), left: left}
				work, err := tr.Do(ctx, c.batch())
				return ctx, ctx, work, err
			}
			_, _, whole, err := at(-1)
			if err != nil || len(whole.Messages) != 1 {
				t.Fatalf("%d messages, %v", len(whole.Messages), err)
			}
			_, asked, sliced, err := at(rows)
			if err != nil || asked.left > rows-rows/slice {
				t.Fatalf("asked %d times, %v", rows-asked.left, err)
			}
			if diff := cmp.Diff(whole.Messages, sliced.Messages); diff != "" {
				t.Errorf("slices give other bytes (-whole +sliced):\n%s", diff)
			}
			if _, _, _, err := at(rows / slice / 2); !errors.Is(err, context.Canceled) {
				t.Errorf("with a context that ends half way: %v", err)
			}
		})
	}
}

// slow is a transform each of whose slices takes a second.
type slow struct{ *Transform }

func (s slow) Do(ctx context.Context, b source.Batch) (pipeline.Work, error) {
	return s.Transform.Do(fixtures.Second{Context: ctx}, b)
}

// hurried is a group that divides its partitions 5 s into the first generation, and again whenever it has
// thrown this member out, which has to join once more then.
type hurried struct {
	ctx       context.Context
	thrownOut int
	generations
}

type generations struct {
	ends    time.Time // of the current one; zero: it does not end
	disturb bool
}

const untilThrownOut = 30 * time.Second

func (h *hurried) Next(ctx context.Context) (pipeline.Ownership, error) {
	late := !h.ends.IsZero() && time.Since(h.ends) > untilThrownOut
	if late {
		h.thrownOut++
	}
	live, cancel := context.WithCancel(ctx)
	h.ctx, h.disturb, h.ends = live, h.ends.IsZero() || late, time.Time{}
	if h.disturb {
		h.ends = time.Now().Add(5 * time.Second)
		time.AfterFunc(5*time.Second, cancel)
	} else {
		context.AfterFunc(ctx, cancel)
		h.ends = time.Now().Add(time.Hour)
	}
	return h, nil
}

func (h *hurried) Context() context.Context { return h.ctx }

func (h *hurried) Claim() source.Claim { return source.Claim{Group: "g", Member: "m"} }

func (h *hurried) Owned() []source.Partition { return []source.Partition{{Topic: "events"}} }

func (h *hurried) Done() {}

// A batch that takes longer than a group waits for a member is put all the same: the member that is
// whitening it is back in time, and when the partitions are divided the batch is begun once more.
func TestSlowBatchAcrossARebalance(t *testing.T) {
	value := [][]byte{fixtures.ListValue(t, rand.New(rand.NewPCG(3, 4)), 1000, 0)}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		h := &hurried{}
		kept := &keeper{}
		err := (&pipeline.Transforms{Members: h, Log: fixtures.Quiet(), Open: func(context.Context, source.Partition, source.Claim) (*pipeline.Loop, error) {
			tr := listTransform(t, reject.NullRow, fixtures.ListDim)
			prepared(t, tr).slice = 10
			d := fixtures.NewDecoder(t, format.Config{})
			return &pipeline.Loop{Source: &once{batch: batchOf(t, d, value)}, Sink: kept, Stage: slow{tr}, Stats: stats.NewStats(), Log: fixtures.Quiet(), Grace: untilThrownOut * 8 / 10}, nil
		}}).Run(ctx)
		if err != nil || h.thrownOut > 0 || kept.messages != 1 {
			t.Errorf("%d messages put, thrown out %d times, %v", kept.messages, h.thrownOut, err)
		}
	})
}

// once is a source of one batch.
type once struct {
	batch source.Batch
	read  bool
}

func (o *once) Read(ctx context.Context) (source.Batch, error) {
	if o.read {
		<-ctx.Done()
		return source.Batch{}, ctx.Err()
	}
	o.read = true
	return o.batch, nil
}

func (o *once) Seek(context.Context, source.Offsets) error { return nil }

func (o *once) Close() error { return nil }

// keeper counts what is put.
type keeper struct{ messages int }

func (k *keeper) Put(ctx context.Context, msgs []sink.Message, _ source.Claim) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	k.messages += len(msgs)
	return nil
}

func (k *keeper) Close() error { return nil }
