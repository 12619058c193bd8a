package transform

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source/format"
)

// lca_p and lca_why are what the model says of the rows and of their scores as they are written, whether the rows lay where
// they were or were gathered; the histogram counts each row with a score once, and a model without scores gives no
// probabilities and counts nothing.
func TestProbabilitiesAndGains(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var values [][]byte
	for i := range 40 {
		values = append(values, fixtures.ListValue(t, r, []int{1, 3, 700}[i%3], []float32{0, 0, 0, 25, float32(math.NaN())}[i%5]))
	}
	d := fixtures.NewDecoder(t, format.Config{})
	batchOf(t, d, values) // now it knows the layouts
	for i, known := range []*format.Decoder{d, nil, d} {
		tr := listTransform(t, reject.NullRow, fixtures.ListDim)
		tr.Output.Why = 3
		model := tr.Follow.Current()
		if i == 2 {
			plain := *model.Model
			plain.Scores = nil
			model.Model = &plain
		}
		b := batchOf(t, known, values)
		work, err := tr.Do(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		scorer, valid := model.Model.NewScorer(), uint64(0)
		for k, m := range work.Messages {
			rec := fixtures.ReadStream(t, m.Whole())
			x := rec.Column(0).(*array.FixedSizeList).ListValues().(*array.Float32).Float32Values()
			score, p, why := rec.Column(2).(*array.Float32), rec.Column(3).(*array.Float32), rec.Column(4).(*array.List)
			nats, names := why.ListValues().(*array.Struct).Field(1).(*array.Float32), why.ListValues().(*array.Struct).Field(0).(*array.String)
			for row := range int(rec.NumRows()) {
				if score.IsNull(row) {
					continue
				}
				valid++
				if i == 2 {
					if p.IsValid(row) {
						t.Fatalf("message %d, row %d has a probability, and the model no scores", k, row)
					}
				} else if want := float32(model.Model.Scores.P(float64(score.Value(row)))); p.Value(row) != want {
					t.Errorf("message %d, row %d has p = %g, want %g", k, row, p.Value(row), want)
				}
				var wide [fixtures.ListDim]float64
				for j := range wide {
					wide[j] = float64(x[row*fixtures.ListDim+j])
				}
				var want [3]lca.Gain
				scorer.Why(want[:], wide[:], 1)
				first, last := why.ValueOffsets(row)
				if last-first != 3 {
					t.Fatalf("message %d, row %d names %d features", k, row, last-first)
				}
				for j, gain := range want {
					if at := int(first) + j; names.Value(at) != model.Features[gain.Column] || nats.Value(at) != float32(gain.Nats) {
						t.Errorf("message %d, row %d: %s %g, want %s %g", k, row, names.Value(at), nats.Value(at), model.Features[gain.Column], gain.Nats)
					}
				}
			}
		}
		tr.Kept()
		sum, buckets := tr.Stats.Scores()
		counted := uint64(0)
		for _, n := range buckets {
			counted += n
		}
		if i == 2 {
			valid = 0
		}
		if counted != valid || (sum > 0) != (valid > 0) || sum > float64(valid) {
			t.Errorf("variant %d: %d rows with a sum of %g are counted, %d have a score", i, counted, sum, valid)
		}
	}
}

// Where no column, no alarm and no explanation needs a score, none is computed: a score costs several times the whitening.
func TestNoScoreThatNothingNeeds(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	values := [][]byte{fixtures.ListValue(t, r, 700, 25), fixtures.ListValue(t, r, 3, float32(math.NaN()))}
	for _, wanted := range []bool{false, true} {
		tr := listTransform(t, reject.NullRow, fixtures.ListDim)
		tr.Output.Score, tr.Output.P = wanted, wanted
		if _, err := tr.Do(t.Context(), batchOf(t, fixtures.NewDecoder(t, format.Config{}), values)); err != nil {
			t.Fatal(err)
		}
		tr.Kept()
		counted := uint64(0)
		sum, buckets := tr.Stats.Scores()
		for _, n := range buckets {
			counted += n
		}
		if (counted > 0) != wanted || (sum > 0) != wanted {
			t.Errorf("wanted %v: %d rows are scored", wanted, counted)
		}
	}
}
