package learn

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// unread is a source that must not be open, and so read ahead, before there is a model.
type unread struct {
	quietly
	follow *models.Follow
	reads  []time.Duration
	early  bool
}

func (u *unread) open(context.Context, source.Offsets) (pipeline.Source, error) {
	u.early = u.early || u.follow.Current() == nil
	return u, nil
}

func (u *unread) Read(ctx context.Context) (source.Batch, error) {
	u.reads = append(u.reads, time.Since(u.began))
	u.early = u.early || u.follow.Current() == nil
	return u.quietly.Read(ctx)
}

// Before the first model nothing is read, and the position is renewed; from that moment on it is read.
func TestHold(t *testing.T) {
	m := learnt(t).followed(t, situation{}).Current()
	synctest.Test(t, func(t *testing.T) {
		f := &models.Follow{ModelID: "m", Stats: stats.NewStats(), Log: fixtures.Quiet()}
		f.Stats.SetReady(stats.Readiness{Ready: true})
		f.Stats.SetHold("snapshots")
		start := source.Offsets{fixtures.Part(0): 7}
		u := &unread{quietly: quietly{ahead: start, began: time.Now()}, follow: f}
		const idle, came = 10 * time.Second, 2*time.Hour + 5*time.Second
		l := &pipeline.Loop{
			Source: transform.HoldSource(f, u.open, source.Claim{Group: "g", Next: start}, idle), Sink: u, Stage: reading{}, Stats: f.Stats, Log: fixtures.Quiet(), Start: start,
			Renew: &pipeline.Renewal{Every: time.Hour},
		}
		if r := f.Stats.Ready(); r.Ready || r.Reason != "no model yet on topic snapshots" {
			t.Errorf("before the first model: %+v", r)
		}
		time.AfterFunc(came, func() {
			f.Stats.SetCurrentModel(m, nil)
			f.Adopt(m)
		})
		ctx, cancel := context.WithTimeout(context.Background(), came+time.Minute)
		defer cancel()
		if err := l.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if u.early || len(u.reads) == 0 || u.reads[0] != came {
			t.Errorf("read at %v, and there is a model at %v", u.reads, came)
		}
		if len(u.at) != 3 || u.at[0] != idle {
			t.Errorf("the position was committed at %v, want after %v and then once an hour", u.at, idle)
		}
		for _, next := range u.put {
			if next[fixtures.Part(0)] != 7 {
				t.Errorf("committed %v, want %v", next, start)
			}
		}
		if r := f.Stats.Ready(); !r.Ready {
			t.Errorf("with a model: %+v", r)
		}
	})
}

// A held source that is sent elsewhere claims that place, and begins there.
func TestHoldSeeks(t *testing.T) {
	m := learnt(t).followed(t, situation{}).Current()
	f := &models.Follow{Stats: stats.NewStats(), Log: fixtures.Quiet()}
	var began source.Offsets
	open := func(_ context.Context, start source.Offsets) (pipeline.Source, error) {
		began = start
		return &quietly{}, nil
	}
	src := transform.HoldSource(f, open, source.Claim{Group: "g", Next: source.Offsets{fixtures.Part(0): 7}}, time.Millisecond)
	if err := src.Seek(context.Background(), source.Offsets{fixtures.Part(0): 3}); err != nil {
		t.Fatal(err)
	}
	b, err := src.Read(context.Background())
	if err != nil || b.Claim.Group != "g" || b.Claim.Next[fixtures.Part(0)] != 3 || len(b.Messages) != 0 || began != nil {
		t.Errorf("claims %+v, %v; begins at %v", b.Claim, err, began)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := src.Read(ended); err == nil {
		t.Error("it reads on when it was asked to end")
	}
	f.Adopt(m)
	soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, _ = src.Read(soon)
	if began[fixtures.Part(0)] != 3 {
		t.Errorf("begins at %v, want 3", began)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// quietly is a source that gives an empty batch every ten seconds, and a sink that notes when what is put.
type quietly struct {
	ahead source.Offsets // what batches claim
	began time.Time
	at    []time.Duration
	put   []source.Offsets
}

func (c *quietly) Read(ctx context.Context) (source.Batch, error) {
	if !retry.Sleep(ctx, 10*time.Second) {
		return source.Batch{}, ctx.Err()
	}
	return source.Batch{Claim: source.Claim{Group: "g", Next: c.ahead.Clone()}}, nil
}

func (c *quietly) Seek(context.Context, source.Offsets) error { return nil }

func (c *quietly) Close() error { return nil }

func (c *quietly) Put(_ context.Context, _ []sink.Message, claim source.Claim) error {
	c.at, c.put = append(c.at, time.Since(c.began)), append(c.put, claim.Next)
	return nil
}

// reading is a stage that has read on, and does not put yet.
type reading struct{}

func (reading) Do(context.Context, source.Batch) (pipeline.Work, error) { return pipeline.Work{}, nil }

func (reading) Kept() {}

func (reading) Rewind(context.Context) (source.Offsets, error) { return nil, nil }
