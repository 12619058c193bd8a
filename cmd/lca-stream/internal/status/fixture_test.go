package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// process is a learner and a transform in memory whose counters a test shows: what the server
// sees of them is what it sees of real ones.
type process struct {
	stats     *stats.Stats
	snapshots []sink.Message
	follow    *models.Follow
}

func newProcess() *process {
	p := &process{stats: stats.NewStats()}
	p.follow = &models.Follow{
		Open:    func(context.Context, int64) (checkpoint.TopicReader, error) { return &snapshotLog{process: p}, nil },
		End:     func(context.Context) (int64, error) { return int64(len(p.snapshots)), nil },
		ModelID: "m", Stats: p.stats, Log: quiet(),
	}
	return p
}

// learn runs the learner over rows of two clusters in one of three columns.
func (p *process) learn(t *testing.T, rows int) {
	t.Helper()
	c := online.DefaultConfig(1)
	c.Neighbours, c.Minibatch, c.WarmupRows = 120, 20, 100
	stage := &learn.Learn{LearnConfig: learn.LearnConfig{
		ModelID: "m", Topic: "snapshots", Keep: 3, SnapshotRows: 200, CheckpointRows: 200, Learner: c, Producer: "test",
		Start: func(context.Context, source.Offsets) (source.Offsets, error) { return source.Offsets{events: 0}, nil },
		Checkpoints: &checkpoint.Checkpoints{
			ModelID: "m",
			ReadBack: checkpoint.ReadBack{
				Topic: "checkpoints",
				Open: func(context.Context, int64) (checkpoint.TopicReader, error) {
					return &snapshotLog{process: newProcess()}, nil
				},
				End: func(context.Context) (int64, error) { return 0, nil },
			},
		},
		Stats: p.stats, Log: quiet(), Now: time.Now,
	}}
	if _, err := stage.Rewind(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.run(t, stage, batchOf(t, rows, 0))
}

// transform whitens rows, the first bad of which have a NaN.
func (p *process) transform(t *testing.T, rows, bad int) {
	t.Helper()
	p.run(t, &transform.Transform{TransformConfig: transform.TransformConfig{
		Topic: "out", Output: encode.OutputConfig{Column: "lca", Score: true},
		Components: lca.ComponentsAll,
		DeadLetter: reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 5, Partitions: 1},
		Follow:     p.follow, Stats: p.stats, Log: quiet(), Now: time.Now,
	}}, batchOf(t, rows, bad))
}

// run takes one batch through a stage, and the snapshots that come of it into force.
func (p *process) run(t *testing.T, stage pipeline.Stage, b source.Batch) {
	t.Helper()
	loop := &pipeline.Loop{Source: &oneBatch{batch: b}, Stage: stage, Sink: p, Stats: p.stats, Log: quiet()}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.follow.Run(ctx) }()
	if err := p.follow.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
}

// Put keeps the snapshots.
func (p *process) Put(_ context.Context, msgs []sink.Message, _ source.Claim) error {
	for _, m := range msgs {
		if m.Topic == "snapshots" {
			p.snapshots = append(p.snapshots, m)
		}
	}
	return nil
}

// Close has nothing to close.
func (p *process) Close() error { return nil }

var events = source.Partition{Topic: "events", ID: 0}

// oneBatch gives its batch, and then ends.
type oneBatch struct {
	batch source.Batch
	given bool
}

func (o *oneBatch) Read(context.Context) (source.Batch, error) {
	if o.given {
		return source.Batch{}, source.ErrEnd
	}
	o.given = true
	return o.batch, nil
}

func (o *oneBatch) Seek(context.Context, source.Offsets) error { return nil }

func (o *oneBatch) Close() error { return nil }

// snapshotLog reads the snapshots from the beginning, then waits.
type snapshotLog struct {
	process *process
	next    int
}

func (l *snapshotLog) Fetch(ctx context.Context) (source.Fetched, error) {
	all := l.process.snapshots
	if l.next == len(all) {
		<-ctx.Done()
		return source.Fetched{}, ctx.Err()
	}
	var got source.Fetched
	for ; l.next < len(all); l.next++ {
		m := all[l.next]
		r := recordbatch.Record{Offset: int64(l.next), Timestamp: 1_700_000_000_000, Key: m.Key, Value: m.Value}
		r.Headers = append(r.Headers, m.Headers...)
		got.Records = append(got.Records, r)
	}
	got.Next = int64(l.next)
	return got, nil
}

// batchOf makes one message of Arrow rows, and one that cannot be read.
func batchOf(t *testing.T, rows, bad int) source.Batch {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float64}, {Name: "c", Type: arrow.PrimitiveTypes.Float64},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	rnd := rand.New(rand.NewPCG(1, uint64(rows)))
	for i := range rows {
		x := []float64{10 * rnd.NormFloat64(), rnd.NormFloat64(), 8*float64(rnd.IntN(2)) + rnd.NormFloat64()}
		if i < bad {
			x[0] = math.NaN()
		}
		for j, v := range x {
			b.Field(j).(*array.Float64Builder).Append(v)
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	var msgs []source.Message
	for i, value := range [][]byte{buf.Bytes(), []byte("\xffnothing known")} {
		m := source.Message{Partition: events, Offset: int64(i), Value: value, Time: time.UnixMilli(0)}
		decoded, err := newDecoder(t).Decode(t.Context(), value, "")
		var de *format.Error
		switch {
		case errors.As(err, &de):
			m.Err = &source.RecordError{Partition: events, Offset: int64(i), Code: de.Code, Err: de.Err}
		case err != nil:
			t.Fatal(err)
		default:
			m.Record = decoded
		}
		msgs = append(msgs, m)
	}
	return source.Batch{Messages: msgs, Claim: source.Claim{Next: source.Offsets{events: 2}}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serve starts a server on a free port and returns its address, with http:// before it.
func serve(t *testing.T, p *process, change func(*Config)) string {
	t.Helper()
	c := Config{
		Listen: "127.0.0.1:0", Stats: p.stats, Log: quiet(),
		Build: Build{Version: "1.2.3", Revision: "abc"},
		Names: func() Names {
			return Names{Source: "events", Output: "out", Group: "g", Instance: "host-0", ModelID: "m"}
		},
		Masked: func() any { return map[string]string{"password": "***"} },
	}
	if change != nil {
		change(&c)
	}
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr()
}

// fetch asks for a URL and returns the answer's code, headers and body.
func fetch(t *testing.T, method, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w", method, url, err))
	}
	return resp.StatusCode, resp.Header, string(body)
}

// NewDecoder returns a decoder of any format.
func newDecoder(t *testing.T) *format.Decoder {
	t.Helper()
	d, err := format.NewDecoder(format.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
