package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// A loop whitens the messages of one partition with the newest model of a snapshot topic, and commits each output
// together with the input offset it stands for. Topics are in memory here; a program takes source.OpenKafka,
// source.NewFetcher and sink.OpenKafka in their place.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	counts, quiet := stats.NewStats(), slog.New(slog.DiscardHandler)

	byKey := publish(fit())
	follow := &models.Follow{
		Open:    func(context.Context, int64) (checkpoint.TopicReader, error) { return byKey, nil },
		End:     func(context.Context) (int64, error) { return int64(len(byKey.records)), nil },
		ModelID: "machines", Stats: counts, Log: quiet,
	}
	go func() { _ = follow.Run(ctx) }()
	if err := follow.AwaitModel(ctx); err != nil {
		log.Fatal(err)
	}

	input := source.Partition{Topic: "machines", ID: 0}
	out := &output{committed: source.Offsets{input: 0}}
	loop := pipeline.Loop{
		Source: &memorySource{partition: input, values: []string{
			`[{"temperature": 20, "pressure": 1000}, {"temperature": 20, "pressure": 1010}]`,
			`[{"temperature": 22, "pressure": 1000}]`,
		}},
		Stage: &transform.Transform{
			TransformConfig: transform.TransformConfig{
				Topic: "whitened", Output: encode.OutputConfig{Passthrough: true},
				Components: lca.ComponentsAll, OnInvalid: reject.NullRow,
				Follow: follow, Stats: counts, Log: quiet, Now: time.Now,
			},
			Committed: func(context.Context) (source.Offsets, error) { return out.committed.Clone(), nil },
		},
		Sink: out, Stats: counts, Log: quiet,
	}
	if err := loop.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 2 rows of [temperature pressure lca], next input offset 1
	// 1 rows of [temperature pressure lca], next input offset 2
}

// fit returns a model of 200 random rows.
func fit() *snapshot.Snapshot {
	r := rand.New(rand.NewPCG(1, 2))
	x := mat.NewDense(200, 2, nil)
	for i := range 200 {
		x.SetRow(i, []float64{20 + 2*r.NormFloat64(), 1000 + 10*r.NormFloat64()})
	}
	c := lca.DefaultConfig()
	c.Kind = lca.KindGaussian
	m, err := lca.Fit(context.Background(), x, c)
	if err != nil {
		log.Fatal(err)
	}
	return &snapshot.Snapshot{Model: m, ModelID: "machines", Version: 200, Features: []string{"temperature", "pressure"}}
}

// snapshots is a snapshot topic in memory.
type snapshots struct{ records []source.Record }

func publish(s *snapshot.Snapshot) *snapshots {
	messages, _, err := snapshot.Messages(s, "lca-snapshots", 16, nil)
	if err != nil {
		log.Fatal(err)
	}
	var topic snapshots
	for i, m := range messages {
		topic.records = append(topic.records, source.Record{Offset: int64(i), Key: m.Key, Value: m.Value, Headers: m.Headers})
	}
	return &topic
}

// Fetch returns all records once, and then waits for the end of the context.
func (s *snapshots) Fetch(ctx context.Context) (source.Fetched, error) {
	if records := s.records; len(records) > 0 {
		s.records = nil
		return source.Fetched{Records: records, Next: int64(len(records))}, nil
	}
	<-ctx.Done()
	return source.Fetched{}, ctx.Err()
}

// memorySource gives one message per Read.
type memorySource struct {
	partition source.Partition
	values    []string
	next      int64
}

func (s *memorySource) Read(context.Context) (source.Batch, error) {
	if s.next == int64(len(s.values)) {
		return source.Batch{}, source.ErrEnd
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "temperature", Type: arrow.PrimitiveTypes.Float64}, {Name: "pressure", Type: arrow.PrimitiveTypes.Float64}}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(s.values[s.next]))
	m := source.Message{Partition: s.partition, Offset: s.next, Record: rec}
	s.next++
	return source.Batch{Messages: []source.Message{m}, Claim: source.Claim{Next: source.Offsets{s.partition: s.next}}}, err
}

func (s *memorySource) Seek(_ context.Context, to source.Offsets) error {
	s.next = to[s.partition]
	return nil
}

func (s *memorySource) Close() error { return nil }

// output prints what is put, and keeps the offsets.
type output struct{ committed source.Offsets }

func (o *output) Put(_ context.Context, messages []sink.Message, claim source.Claim) error {
	for _, m := range messages {
		r, err := ipc.NewReader(strings.NewReader(string(m.Whole())))
		if err != nil {
			return err
		}
		rec, err := r.Read()
		if err != nil {
			return err
		}
		var names []string
		for _, f := range rec.Schema().Fields() {
			names = append(names, f.Name)
		}
		for p, next := range claim.Next {
			o.committed[p] = next
			fmt.Printf("%d rows of %v, next input offset %d\n", rec.NumRows(), names, next)
		}
	}
	return nil
}

func (o *output) Close() error { return nil }
