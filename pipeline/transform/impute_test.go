package transform

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source/format"
)

// holedValue is a message of float64 columns. Every seventh row lacks some features, by a null or a NaN; one in fifty has an infinity.
func holedValue(t *testing.T, r *rand.Rand, rows int) (value []byte, x []float64) {
	t.Helper()
	var fields []arrow.Field
	for j := range fixtures.ListDim {
		fields = append(fields, arrow.Field{Name: string(rune('a' + j)), Type: arrow.PrimitiveTypes.Float64, Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i := range rows {
		for j := range fixtures.ListDim {
			v := r.NormFloat64() * float64(1+j)
			hole := i%7 == 3 && (r.IntN(3) == 0 || j == i%fixtures.ListDim || i%49 == 3)
			if i%50 == 20 && j == 2 {
				v = math.Inf(1)
			}
			column := b.Field(j).(*array.Float64Builder)
			switch {
			case hole && r.IntN(2) == 0:
				column.AppendNull()
				v = math.NaN()
			case hole:
				v = math.NaN()
				column.Append(v)
			default:
				column.Append(v)
			}
			x = append(x, v)
		}
	}
	return fixtures.StreamOf(t, b), x
}

// TestImputedRows: rows that lack features come out as the rows that Scorer.Impute makes of them, in small messages and in one that is
// whitened slice by slice, with the number of features that were filled; infinities are not filled.
func TestImputedRows(t *testing.T) {
	for _, rows := range []int{1, 40, reject.SliceNumbers/fixtures.ListDim + 300} {
		value, x := holedValue(t, rand.New(rand.NewPCG(1, uint64(rows))), rows)
		tr := imputingTransform(t, 2)
		out := firstOutput(t, tr, value)

		filled, s := append([]float64(nil), x...), tr.Follow.Current().Model.NewScorer()
		for i := range rows {
			if row := filled[i*fixtures.ListDim : (i+1)*fixtures.ListDim]; math.IsInf(row[2], 0) {
				clear(row)
			}
		}
		if err := s.Impute(context.Background(), filled, rows); err != nil {
			t.Fatal(err)
		}
		y, score := make([]float32, rows*fixtures.ListDim), make([]float32, rows)
		s.Score(y, score, filled, rows)
		gotY := out.Column(fixtures.ListDim).(*array.FixedSizeList)
		gotScore, gotP := out.Column(fixtures.ListDim+1).(*array.Float32), out.Column(fixtures.ListDim+2).(*array.Float32)
		why, counts := out.Column(fixtures.ListDim+3).(*array.List), out.Column(fixtures.ListDim+4).(*array.Int16)
		if out.ColumnName(fixtures.ListDim+4) != "lca_imputed" {
			t.Fatalf("the last column is %s", out.ColumnName(fixtures.ListDim+4))
		}
		imputed := uint64(0)
		for i := range rows {
			if infinite := math.IsInf(x[i*fixtures.ListDim+2], 0); infinite != gotY.IsNull(i) || infinite != counts.IsNull(i) || infinite != why.IsNull(i) || infinite != gotP.IsNull(i) {
				t.Fatalf("%d rows: row %d is %v, null %v, filled null %v", rows, i, x[i*fixtures.ListDim:(i+1)*fixtures.ListDim], gotY.IsNull(i), counts.IsNull(i))
			} else if infinite {
				continue
			}
			want := int16(0)
			for _, v := range x[i*fixtures.ListDim : (i+1)*fixtures.ListDim] {
				if v != v {
					want++
				}
			}
			if want > 0 {
				imputed++
			}
			got := gotY.ListValues().(*array.Float32).Float32Values()[i*fixtures.ListDim : (i+1)*fixtures.ListDim]
			if diff := cmp.Diff(y[i*fixtures.ListDim:(i+1)*fixtures.ListDim], got); diff != "" || counts.Value(i) != want || gotScore.Value(i) != score[i] {
				t.Fatalf("%d rows: row %d: %d filled, want %d; score %v, want %v; %s", rows, i, counts.Value(i), want, gotScore.Value(i), score[i], diff)
			}
		}
		if got := tr.Stats.ImputedRows.Load(); got != imputed {
			t.Errorf("%d rows counted as filled, want %d", got, imputed)
		}
	}
}

// imputingTransform is a transform that fills what is missing, with all of our columns.
func imputingTransform(t *testing.T, why int) *Transform {
	tr := listTransform(t, reject.ImputeRow, fixtures.ListDim)
	for i := range tr.Follow.Current().Features {
		tr.Follow.Current().Features[i] = string(rune('a' + i))
	}
	tr.Output = encode.OutputConfig{Passthrough: true, Score: true, P: true, Why: why, Imputed: true}
	return tr
}

// firstOutput is the record that a message becomes.
func firstOutput(t *testing.T, tr *Transform, value []byte) arrow.Record {
	t.Helper()
	work, err := tr.Do(t.Context(), batchOf(t, fixtures.NewDecoder(t, format.Config{}), [][]byte{value}))
	if err != nil {
		t.Fatal(err)
	}
	m := fixtures.Stored(work.Messages[0])
	tr.Kept()
	reader, err := ipc.NewReader(bytes.NewReader(m.Value))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Release)
	if !reader.Next() {
		t.Fatalf("no record: %v", reader.Err())
	}
	return reader.Record()
}
