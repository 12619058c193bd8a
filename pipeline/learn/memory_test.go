package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// world is a broker in memory: topics are lists of messages, a Put is atomic. It fails at chosen
// calls, before or after the effect, as a network does. Real brokers are tested in internal/e2e.
type world struct {
	shown     []stats.ModelRow // by the last keyed learner, at its end
	topics    map[source.Partition][]sink.Message
	committed map[string]source.Offsets
	epoch     map[string]int // transactional id → owner
	output    encode.OutputConfig
	alarms    transform.Alarms
	fleet     source.Partition // with a model for each key

	calls  int
	failAt int  // the call that fails; 0 = none
	after  bool // it fails after its effect
	failed bool
}

func newWorld() *world {
	return &world{topics: map[source.Partition][]sink.Message{}, committed: map[string]source.Offsets{}, epoch: map[string]int{}, output: encode.OutputConfig{Column: "lca", Score: true, Passthrough: true}, fleet: keyedPartition}
}

// call runs one operation, and fails it when its turn has come.
func (w *world) call(effect func()) error {
	w.calls++
	if w.calls != w.failAt || w.failed {
		effect()
		return nil
	}
	w.failed = true
	if w.after {
		effect()
	}
	return fixtures.ErrCrash
}

// memorySource reads partitions of the world, at most step messages a Read. The memory of messages is used again, as a reader of Kafka does once their
// batch is released: here with the next Read.
type memorySource struct {
	w     *world
	next  source.Offsets
	claim source.Claim
	step  int
	keeps bool // messages stay as they are: for a Merge, which releases batches later
	given [][]byte
}

func (m *memorySource) Read(context.Context) (source.Batch, error) {
	b := source.Batch{Claim: m.claim}
	b.Claim.Next = source.Offsets{}
	for _, part := range m.given {
		for i := range part {
			part[i] = 'x'
		}
	}
	defer func() {
		if !m.keeps {
			m.given = memoryOf(b.Messages)
		}
	}()
	err := m.w.call(func() {
		for _, p := range m.next.Partitions() {
			log := m.w.topics[p]
			for n := 0; n < m.step && m.next[p] < int64(len(log)); n++ {
				b.Messages = append(b.Messages, fixtures.Decoded(p, m.next[p], fixtures.Stored(log[m.next[p]])))
				m.next[p]++
			}
			b.Claim.Next[p] = m.next[p]
		}
	})
	if err == nil && len(b.Messages) == 0 {
		return b, source.ErrEnd
	}
	return b, err
}

func (m *memorySource) Seek(_ context.Context, to source.Offsets) error {
	return m.w.call(func() { m.next = to.Clone() })
}

func (m *memorySource) Close() error { return nil }

// memoryOf is what messages hold: their bytes, and the text of their columns.
func memoryOf(all []source.Message) (parts [][]byte) {
	for _, m := range all {
		parts = append(parts, m.Key, m.Value)
		for _, h := range m.Headers {
			parts = append(parts, h.Value)
		}
		if m.Record == nil {
			continue
		}
		for _, col := range m.Record.Columns() {
			if text := col.Data().Buffers(); col.DataType().ID() == arrow.STRING && text[2] != nil {
				parts = append(parts, text[2].Bytes())
			}
		}
	}
	return parts
}

// memorySink is one owner's transactional producer.
type memorySink struct {
	w     *world
	id    string
	epoch int
}

func (w *world) open(id string) *memorySink {
	w.epoch[id]++
	return &memorySink{w: w, id: id, epoch: w.epoch[id]}
}

func (m *memorySink) Put(_ context.Context, msgs []sink.Message, claim source.Claim) error {
	if m.w.epoch[m.id] != m.epoch {
		return sink.ErrFenced
	}
	return m.w.call(func() {
		for _, msg := range msgs {
			p := source.Partition{Topic: msg.Topic, ID: msg.Partition}
			if msg.Offset != nil {
				*msg.Offset = int64(len(m.w.topics[p]))
			}
			m.w.topics[p] = append(m.w.topics[p], fixtures.Stored(msg))
		}
		if claim.Group != "" {
			m.w.committed[claim.Group] = claim.Next.Clone()
		}
	})
}

func (m *memorySink) Close() error { return nil }

// memoryLog reads a topic of one partition from its beginning.
type memoryLog struct {
	w *world
	p source.Partition
	n int
}

func (l *memoryLog) Fetch(ctx context.Context) (source.Fetched, error) {
	log := l.w.topics[l.p]
	if l.n == len(log) {
		<-ctx.Done()
		return source.Fetched{}, ctx.Err()
	}
	got := source.Fetched{Next: int64(len(log))}
	for i, m := range log[l.n:] {
		r := recordbatch.Record{Offset: int64(l.n + i), Key: m.Key, Value: m.Value}
		if !m.Time.IsZero() {
			r.Timestamp = m.Time.UnixMilli()
		}
		r.Headers = append(r.Headers, m.Headers...)
		got.Records = append(got.Records, r)
	}
	l.n = len(log)
	return got, nil
}

func (w *world) log(topic string) func(context.Context, int64) (checkpoint.TopicReader, error) {
	return func(_ context.Context, from int64) (checkpoint.TopicReader, error) {
		return &memoryLog{w: w, p: source.Partition{Topic: topic}, n: int(from)}, nil
	}
}

// readBack reads back a topic of one partition.
func (w *world) readBackOf(topic string) checkpoint.ReadBack {
	return checkpoint.ReadBack{Topic: topic, Open: w.log(topic), End: w.end(topic)}
}

func (w *world) end(topic string) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) { return int64(len(w.topics[source.Partition{Topic: topic}])), nil }
}

// events fills partitions with messages of a few rows each: two clusters and a noise column.
func (w *world) events(t *testing.T, partitions, messages, rows int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 9))
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Float32}, {Name: "b", Type: arrow.PrimitiveTypes.Float32}, {Name: "c", Type: arrow.PrimitiveTypes.Float32},
	}, nil)
	for i := range messages {
		p := source.Partition{Topic: "events", ID: int32(i % partitions)}
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for range rows {
			side := float64(6*rng.IntN(2) - 3)
			b.Field(0).(*array.Float32Builder).Append(float32(side + rng.NormFloat64()))
			b.Field(1).(*array.Float32Builder).Append(float32(rng.NormFloat64()))
			b.Field(2).(*array.Float32Builder).Append(float32(100 * rng.NormFloat64()))
		}
		rec := b.NewRecord()
		var buf bytes.Buffer
		out := ipc.NewWriter(&buf, ipc.WithSchema(schema))
		if err := errors.Join(out.Write(rec), out.Close()); err != nil {
			t.Fatal(err)
		}
		rec.Release()
		b.Release()
		w.topics[p] = append(w.topics[p], sink.Message{
			Topic: "events", Partition: p.ID, Key: fmt.Appendf(nil, "k%d", i), Value: buf.Bytes(),
			Headers: []source.Header{{Key: "traceparent", Value: fmt.Appendf(nil, "00-%032x-%016x-01", i+1, i+1)}}, Time: time.UnixMilli(int64(1000 + i)),
		})
	}
}

func (w *world) partitions(topic string) []source.Partition {
	var parts []source.Partition
	for p := range w.topics {
		if p.Topic == topic {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b source.Partition) int { return int(a.ID - b.ID) })
	return parts
}

// learnLoop makes a learner's loop as a process does when it starts, after changes of its stage.
func (w *world) learnLoop(t *testing.T, step int, changes ...func(*Learn)) (*pipeline.Loop, *Learn) {
	t.Helper()
	sinkOf := w.open("learn")
	stage := w.learnStage(changes...)
	at, err := stage.Rewind(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	src := &memorySource{w: w, next: at.Clone(), claim: source.Claim{Group: "g.learn", Generation: -1}, step: step}
	return &pipeline.Loop{Source: src, Stage: stage, Sink: sinkOf, Stats: stage.Stats, Log: fixtures.Quiet()}, stage
}

// learnStage makes a learner's stage that has not looked at its checkpoint yet.
func (w *world) learnStage(changes ...func(*Learn)) *Learn {
	c := online.DefaultConfig(1)
	c.Neighbours, c.Minibatch, c.WarmupRows, c.Precision = 60, 20, 40, lca.Float64
	start := source.Offsets{}
	for _, p := range w.partitions("events") {
		start[p] = 0
	}
	stage := &Learn{LearnConfig: LearnConfig{
		ModelID: "m", Topic: "snapshots", Keep: 3, SnapshotRows: 100, CheckpointRows: 60, Learner: c, Producer: "test",
		Start:       func(context.Context, source.Offsets) (source.Offsets, error) { return start, nil },
		Alarms:      w.alarms,
		Checkpoints: w.checkpoints(),
		Stats:       stats.NewStats(), Log: fixtures.Quiet(), Now: func() time.Time { return time.UnixMilli(0) },
	}}
	for _, change := range changes {
		change(stage)
	}
	return stage
}

// transformLoop makes one partition's loop; the current model is the newest on the topic.
func (w *world) transformLoop(t *testing.T, p source.Partition, step int) *pipeline.Loop {
	t.Helper()
	counts := stats.NewStats()
	follow := &models.Follow{Open: w.log("snapshots"), End: w.end("snapshots"), ModelID: "m", Stats: counts, Log: fixtures.Quiet()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = follow.Run(ctx) }()
	if err := follow.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
	group := fmt.Sprintf("g-%d", p.ID)
	committed := func(context.Context) (source.Offsets, error) {
		if o, ok := w.committed[group]; ok {
			return o, nil
		}
		return source.Offsets{p: 0}, nil
	}
	sinkOf := w.open(group)
	at, _ := committed(ctx)
	stage := &transform.Transform{Committed: committed, TransformConfig: transform.TransformConfig{
		Group: "g",
		Topic: "out", Output: w.output, Alarms: w.alarms,
		Components: lca.ComponentsAll,
		DeadLetter: reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 5, Partitions: 1},
		Follow:     follow, Stats: counts, Log: fixtures.Quiet(), Now: time.Now,
	}}
	src := &memorySource{w: w, next: at.Clone(), claim: source.Claim{Group: group, Generation: -1}, step: step}
	return &pipeline.Loop{Source: src, Stage: stage, Sink: sinkOf, Stats: counts, Log: fixtures.Quiet()}
}
