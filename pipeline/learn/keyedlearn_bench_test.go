//go:build unix

package learn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// BenchmarkKeyedLearn is the processor time per row of messages of one row each, with what is published and saved: of one model for all,
// and of one of two thousand for each, all of which or a tenth of which are in memory. The model is lca_gauss, which leaves nothing to the data: what a choice costs does not depend on keys. Compare within
// one run.
func BenchmarkKeyedLearn(b *testing.B) {
	const keys, messages = 2000, 20_000
	r := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(r, 1.1, 1, keys-1)
	uniform := func() int { return r.IntN(keys) }
	often := func() int { return int(zipf.Uint64()) }
	for _, c := range []struct {
		name   string
		keyed  bool
		memory int64
		key    func() int
	}{
		{"unkeyed", false, 0, uniform},
		{"in memory", true, 1 << 30, uniform},
		{"a tenth in memory, Zipf", true, keys * 60 << 10 / 10, often},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld()
			var batches []source.Batch
			for range 4 {
				batches = append(batches, learnBatch(b, r, messages, c.key))
			}
			stage := grownLearner(b, w, keys, c.keyed, c.memory)
			n, used := int64(0), time.Duration(0)
			do := func() {
				batch := batches[n%int64(len(batches))]
				for i := range batch.Messages {
					batch.Messages[i].Offset = n*messages + int64(i)
					renew(r, batch.Messages[i].Record)
				}
				before := testtools.ProcessorTime(b)
				defer func() { used += testtools.ProcessorTime(b) - before }()
				batch.Claim.Next = source.Offsets{keyedPartition: (n + 1) * messages}
				work, err := stage.Do(b.Context(), batch)
				if err != nil {
					b.Fatal(err)
				}
				w.keep(work.Messages)
				stage.Kept()
				n++
			}
			for range 3 * len(batches) { // until all models that there is memory for are in it
				do()
			}
			n0 := n
			used = 0
			for b.Loop() {
				do()
			}
			b.ReportMetric(float64(used)/float64((n-n0)*messages), "cpu-ns/row")
		})
	}
}

// renew gives a record other numbers: rows that come again would be copies of neighbours.
func renew(r *rand.Rand, rec arrow.Record) {
	list := rec.Column(0).(*array.FixedSizeList)
	for i := range list.ListValues().(*array.Float32).Float32Values() {
		list.ListValues().(*array.Float32).Float32Values()[i] = float32(r.NormFloat64())
	}
}

// learnBatch is messages of one row of noise.
func learnBatch(b *testing.B, r *rand.Rand, messages int, key func() int) (batch source.Batch) {
	d := fixtures.NewDecoder(b, format.Config{})
	for range messages {
		value := fixtures.ListValue(b, r, 1, 0)
		rec, err := d.Decode(b.Context(), value, "")
		if err != nil {
			b.Fatal(err)
		}
		batch.Messages = append(batch.Messages, source.Message{Partition: keyedPartition, Key: fmt.Append(nil, key()), Value: value, Record: rec, Time: time.Unix(1000, 0)})
	}
	return batch
}

// keep appends messages to the topics as a put does, without bounds on what is kept.
func (w *world) keep(msgs []sink.Message) {
	for _, m := range msgs {
		p := source.Partition{Topic: m.Topic, ID: m.Partition}
		if m.Offset != nil {
			*m.Offset = int64(len(w.topics[p]))
		}
		w.topics[p] = append(w.topics[p], m)
	}
}

// grownLearner is a learner whose models have learnt 2400 rows: the next comparison is far.
func grownLearner(b *testing.B, w *world, keys int, keyed bool, memory int64) pipeline.Stage {
	c := online.DefaultConfig(1)
	c.Neighbours, c.Minibatch, c.Precision, c.Kind = 250, 100, lca.Float32, lca.KindLCAGauss
	shared := LearnConfig{
		ModelID: "m", Topic: "snapshots", Keep: 2, SnapshotRows: 10_000, CheckpointRows: 50_000, SnapshotEvery: time.Minute, CheckpointEvery: time.Minute,
		Learner: c, Producer: "bench", Stats: stats.NewStats(), Log: fixtures.Quiet(), Now: time.Now, Columns: []string{"x"},
	}
	young := &Learn{LearnConfig: shared}
	young.Start = func(context.Context, source.Offsets) (source.Offsets, error) {
		return source.Offsets{keyedPartition: 0}, nil
	}
	young.Checkpoints = w.checkpoints()
	if _, err := young.Rewind(b.Context()); err != nil {
		b.Fatal(err)
	}
	batch := learnBatch(b, rand.New(rand.NewPCG(5, 5)), 2400, func() int { return 0 })
	for i := range batch.Messages {
		batch.Messages[i].Offset = int64(i)
	}
	batch.Claim.Next = source.Offsets{keyedPartition: 0}
	if _, err := young.Do(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	if !keyed {
		young.Kept()
		return young
	}
	saved, err := young.saved()
	if err != nil {
		b.Fatal(err)
	}
	states := source.Partition{Topic: "keyed", ID: keyedPartition.ID}
	stage := &KeyedLearn{KeyedLearnConfig: KeyedLearnConfig{
		LearnConfig: shared, By: modelkey.By{Place: modelkey.Key}, Partition: keyedPartition,
		States: &KeyedStates{
			ReadBack: *w.readBack(states), Partition: states.ID, ModelID: "m", Owner: saved.Owner,
		},
		Memory:    NewModelMemory(memory, shared.Stats.ModelCounts("learn")),
		Committed: func(context.Context) (source.Offsets, error) { return source.Offsets{keyedPartition: 0}, nil },
	}}
	for i := range keys {
		own := *saved
		own.ModelID, own.Ordinal, own.Offsets = modelkey.ID("m", keyedPartition.ID, fmt.Append(nil, i)), 2400, source.Offsets{keyedPartition: 0}
		writer := &checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: states.Topic}, ModelID: own.ModelID, OneSlot: true}
		msgs, err := stage.States.messages(&own, writer, &keyedState{version: own.Published}, nil)
		if err != nil {
			b.Fatal(err)
		}
		w.keep(msgs)
	}
	if _, err := stage.Rewind(b.Context()); err != nil {
		b.Fatal(err)
	}
	return stage
}
