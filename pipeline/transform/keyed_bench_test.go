//go:build unix

package transform

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// BenchmarkKeyedTransform is the processor time per row of messages of one row each: with one model for all, and with one of ten thousand for each,
// all of which or a tenth of which are in memory. Compare within one run.
func BenchmarkKeyedTransform(b *testing.B) {
	const keys, messages = 10_000, 8_000
	models := benchModels(b, 20)
	topic := newKeyedTopic(b, 2)
	names := make([]string, fixtures.ListDim)
	for i := range names {
		names[i] = fmt.Sprintf("x[%d]", i)
	}
	snapshotFor := func(i int) *snapshot.Snapshot {
		s := snapshotOf(models[i%len(models)], fmt.Sprint(i), 1)
		s.Features = names
		return s
	}
	for i := range keys {
		topic.publish(snapshotFor(i))
	}
	topic.most = 150 // of a fetch: about a megabyte, as from a broker
	r := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(r, 1.1, 1, keys-1)
	uniform := func() uint64 { return r.Uint64N(keys) }
	place := r.Perm(keys) // the keys that come often lie anywhere on the topic
	often := func() uint64 { return uint64(place[zipf.Uint64()]) }
	config := keyedConfig(encode.OutputConfig{Passthrough: true, Score: true, P: true}, reject.NullRow, PassThrough)
	config.Alarms, config.Columns = Alarms{}, []string{"x"}
	one := snapshotFor(0)
	value := fixtures.ListValue(b, r, 1, 0)
	d := fixtures.NewDecoder(b, format.Config{})
	batchOf(b, d, [][]byte{value})
	batch := func(key func() uint64) (all source.Batch) {
		for i := range messages {
			rec, err := d.Decode(b.Context(), value, "")
			if err != nil {
				b.Fatal(err)
			}
			all.Messages = append(all.Messages, source.Message{Partition: fixtures.Events, Offset: int64(i), Key: fmt.Append(nil, key()), Value: value, Record: rec, Time: time.Unix(1000, 0)})
		}
		return all
	}
	run := func(name string, stage pipeline.Stage, batches []source.Batch) {
		b.Run(name, func(b *testing.B) {
			for _, batch := range batches {
				if _, err := stage.Do(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				stage.Kept()
			}
			n, before := 0, testtools.ProcessorTime(b)
			for b.Loop() {
				if _, err := stage.Do(b.Context(), batches[n%len(batches)]); err != nil {
					b.Fatal(err)
				}
				stage.Kept()
				n++
			}
			b.ReportMetric(float64(testtools.ProcessorTime(b)-before)/float64(n*messages), "cpu-ns/row")
		})
	}
	several := func(key func() uint64) (all []source.Batch) {
		for range 10 {
			all = append(all, batch(key))
		}
		return all
	}
	alone := transformAlone(config, one, one.ModelID)
	run("unkeyed", alone, several(uniform))
	for name, c := range map[string]struct {
		memory int
		key    func() uint64
	}{
		"all/uniform": {2 << 30, uniform}, "all/zipf": {2 << 30, often}, "tenth/zipf": {keys / 10 * 27 << 10, often}, "all/runs": {2 << 30, runsOf(8, uniform)},
	} {
		fleet := keyedModels(b, topic, modelkey.By{Place: modelkey.Key}, c.memory)
		fleet.Explains = false
		begin := time.Now()
		if err := fleet.CatchUp(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		b.Logf("%s: the index of %d models took %v", name, keys, time.Since(begin))
		stage := keyedStage(fleet, config)
		run(name, stage, several(c.key))
		counts := heldBy(fleet)
		b.Logf("%s: %s", name, counts)
	}
}

func heldBy(k *models.KeyedModels) string {
	c := k.Stats.ModelCounts("transform")
	return fmt.Sprintf("%d in memory with %d bytes, %d loaded, %d evicted", c.Memory.Load(), k.Cache.Used, c.Loaded.Load(), c.Evicted.Load())
}

// runsOf repeats each key.
func runsOf(n int, key func() uint64) func() uint64 {
	i, now := 0, uint64(0)
	return func() uint64 {
		if i++; i%n == 1 {
			now = key()
		}
		return now
	}
}

// benchModels are models of d = 8 and 250 neighbours.
func benchModels(b *testing.B, n int) (all []*lca.Model) {
	b.Helper()
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		c := online.DefaultConfig(fixtures.ListDim)
		c.Neighbours = 250
		l, err := online.NewLearner(c)
		if err != nil {
			b.Fatal(err)
		}
		x := mat.NewDense(600, fixtures.ListDim, nil)
		x.Apply(func(row, j int, _ float64) float64 { return r.NormFloat64()*float64(1+j) + float64(row%3*j*5) }, x)
		if _, err := l.Learn(x, nil, nil); err != nil {
			b.Fatal(err)
		}
		m, err := l.Model()
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}
