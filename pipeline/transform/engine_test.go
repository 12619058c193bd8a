package transform

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/flatipc"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// listTransform whitens lists x of ListDim numbers by a model that was learnt from noise in the
// first columns, the others being constant.
func listTransform(t *testing.T, invalid reject.OnInvalid, columns int) *Transform {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	c := online.DefaultConfig(fixtures.ListDim)
	c.Neighbours = 50
	l, err := online.NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	x := mat.NewDense(400, fixtures.ListDim, nil)
	x.Apply(func(_, j int, _ float64) float64 {
		if j >= columns {
			return 1
		}
		return r.NormFloat64() * float64(1+j)
	}, x)
	if _, err := l.Learn(x, nil, nil); err != nil {
		t.Fatal(err)
	}
	m, err := l.Model()
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, fixtures.ListDim)
	for i := range names {
		names[i] = fmt.Sprintf("x[%d]", i)
	}
	f := &models.Follow{ModelID: "m"}
	f.Adopt(&stats.PublishedModel{Snapshot: &snapshot.Snapshot{Model: m, ModelID: "m", Version: 7, Features: names}})
	return &Transform{TransformConfig: TransformConfig{
		Topic: "out", Output: encode.OutputConfig{Passthrough: true, Score: true, P: true}, OnInvalid: invalid,
		Components: lca.ComponentsAll,
		DeadLetter: reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 10, Partitions: 1},
		Follow:     f, Stats: stats.NewStats(), Log: fixtures.Quiet(), Now: time.Now,
	}}
}

// batchOf decodes values: by a Decoder that has seen them when it is given, so that they are plain, or
// each as the first that its Decoder sees, so that none is.
func batchOf(t testing.TB, d *format.Decoder, values [][]byte) source.Batch {
	t.Helper()
	var b source.Batch
	for i, v := range values {
		one := d
		if one == nil {
			one = fixtures.NewDecoder(t, format.Config{})
		}
		rec, err := one.Decode(t.Context(), v, "")
		if err != nil {
			t.Fatal(err)
		}
		b.Messages = append(b.Messages, source.Message{Partition: fixtures.Events, Offset: int64(i), Value: v, Record: rec})
	}
	return b
}

// Rows that are whitened from where they lie give the messages that gathered rows give, byte for byte:
// large and small ones, with numbers that are not finite or whose whitened row is not, whatever policy
// decides on these, and the same counts.
func TestZeroCopyRowsAreGatheredRows(t *testing.T) {
	for i := range 6 {
		policy, columns := []reject.OnInvalid{reject.NullRow, reject.RejectRow, reject.ImputeRow}[i%3], fixtures.ListDim-i/3
		r := rand.New(rand.NewPCG(3, 4))
		var values [][]byte
		for i := range 132 {
			bad := []float32{0, 0, 0, 0, 0, 0, float32(math.NaN()), 0, float32(math.Inf(-1)), math.MaxFloat32, 0}[i%11]
			values = append(values, fixtures.ListValue(t, r, []int{1, 3, 40, 1500, 1, 700}[i%6], bad))
		}
		d := fixtures.NewDecoder(t, format.Config{})
		batchOf(t, d, values) // now it knows the layouts
		var all [2][]sink.Message
		var stats [2]uint64
		for i, known := range []*format.Decoder{d, nil} {
			tr := listTransform(t, policy, columns)
			tr.Output.Imputed = policy == reject.ImputeRow
			for range 3 { // with known layouts of the output, too
				b := batchOf(t, known, values)
				if _, plain := b.Messages[0].Record.(flatipc.Record); plain != (known != nil) {
					t.Fatalf("plain records: %v", plain)
				}
				work, err := tr.Do(context.Background(), b)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range work.Messages {
					all[i] = append(all[i], fixtures.Stored(m))
				}
			}
			stats[i] = tr.Stats.TransformRows.Load()
		}
		if len(all[0]) != 3*len(values) || len(all[1]) != 3*len(values) || stats[0] != stats[1] {
			t.Fatalf("%d and %d messages, %d and %d rows", len(all[0]), len(all[1]), stats[0], stats[1])
		}
		for i := range all[0] {
			if !fixtures.Same(all[0][i], all[1][i]) {
				t.Errorf("policy %d, %d columns: message %d, of %d bytes, is another when its rows are gathered", policy, columns, i, len(values[i%len(values)]))
			}
		}
	}
}

// What is done for each message and row of a plain stream is done without allocating.
func TestTransformAllocatesNothing(t *testing.T) {
	for _, rows := range []int{1, 100, 1000} {
		r := rand.New(rand.NewPCG(5, 6))
		values := make([][]byte, max(10, 2000/rows))
		for i := range values {
			values[i] = fixtures.ListValue(t, r, rows, 0)
		}
		d := fixtures.NewDecoder(t, format.Config{})
		batchOf(t, d, values[:1])
		b, tr := batchOf(t, d, values), listTransform(t, reject.NullRow, fixtures.ListDim)
		now := time.Now()
		tr.Now = func() time.Time { return now }
		do := func() {
			if work, err := tr.Do(context.Background(), b); err != nil || len(work.Messages) != len(values) {
				t.Fatal(err)
			}
			tr.Stats.AddStrange(now, tr.counts.strange) // as when the batch is kept: then its rows are no longer strange
			tr.counts.strange = nil
		}
		for range 10 { // until the memory is as large as a batch needs, and no row is stranger than those known
			do()
		}
		if a := testing.AllocsPerRun(20, do); a != 0 {
			t.Errorf("%d rows per message: %v allocations for %d messages", rows, a, len(values))
		}
	}
}
