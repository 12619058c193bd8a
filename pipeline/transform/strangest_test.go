package transform

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source/format"
)

// Of each minute the ten rows with the least probability are kept, of five minutes, whatever batches they came in; rows of a
// batch that is rewound are not.
func TestStrangestRows(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	tr, d := listTransform(t, reject.NullRow, fixtures.ListDim), fixtures.NewDecoder(t, format.Config{})
	now := time.Unix(1_700_000_000, 0)
	tr.Now = func() time.Time { return now }
	scored := map[string][]float32{} // by minute
	want := func(minutes ...string) (all []float32) {
		for _, m := range minutes {
			rows := slices.Sorted(slices.Values(scored[m]))
			all = append(all, rows[:min(len(rows), stats.StrangeMost)]...)
		}
		slices.Sort(all)
		return all
	}
	for i := range 60 {
		minute := now.Truncate(time.Minute).String()
		b := batchOf(t, d, [][]byte{fixtures.ListValue(t, r, 1+i%5, 0), fixtures.ListValue(t, r, 1+i%90, float32(i%7))})
		work, err := tr.Do(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			tr.counts.drop()
			continue
		}
		for _, m := range work.Messages {
			scored[minute] = append(scored[minute], probabilitiesOf(fixtures.ReadStream(t, m.Whole()))...)
		}
		tr.Kept()
		if i%10 == 0 {
			now = now.Add(time.Minute)
		}
	}
	var minutes []string
	for k := range 5 {
		minutes = append(minutes, now.Add(-time.Duration(k)*time.Minute).Truncate(time.Minute).String())
	}
	var got []float32
	for _, s := range tr.Stats.Strangest(now) {
		got = append(got, s.P)
		if len(s.Why) != namedFeatures || s.Why[0].Nats <= 0 || s.Version != 7 {
			t.Errorf("%+v", s)
		}
	}
	if w := want(minutes...); !slices.Equal(got, w) {
		t.Errorf("got  %g\nwant %g", got, w)
	}
	if later := tr.Stats.Strangest(now.Add(6 * time.Minute)); len(later) != 0 {
		t.Errorf("%d rows of long ago", len(later))
	}
}

// probabilitiesOf reads lca_p of the rows that have one.
func probabilitiesOf(rec arrow.Record) (p []float32) {
	column := rec.Column(int(rec.Schema().FieldIndices("lca_p")[0])).(*array.Float32)
	for i := range column.Len() {
		if column.IsValid(i) {
			p = append(p, column.Value(i))
		}
	}
	return p
}
