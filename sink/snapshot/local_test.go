package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestLocalFile writes points next to a constant column, and computes the density of another row from the columns of the file alone.
func TestLocalFile(t *testing.T) {
	const n, d, active = 40, 3, 2
	r := rand.New(rand.NewPCG(1, 2))
	x := mat.NewDense(n, d, nil)
	for i := range n {
		x.SetRow(i, []float64{100 * r.NormFloat64(), 7, r.NormFloat64() + 1e3})
	}
	m, err := lca.FitLocal(context.Background(), x, lca.LocalConfig{Smoothing: lca.Auto, Shared: lca.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fingerprint, err := WriteLocal(&b, &Local{Model: m, Rows: x, Features: []string{"a", "b", "c"}, Seen: 50, Producer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(b.Bytes()); hex.EncodeToString(sum[:]) != fingerprint {
		t.Errorf("fingerprint %s is not that of the file", fingerprint)
	}
	reader, err := ipc.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	for key, want := range map[string]string{
		"lca.local_format": "1", "lca.kind": "lca_local", "lca.d": "3", "lca.features": `["a","b","c"]`, "lca.rows_seen": "50",
		"lca.constant_columns": "[1]", "lca.kernel": "gaussian", "lca.smoothing": "4",
	} {
		meta := reader.Schema().Metadata()
		if got, _ := meta.GetValue(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	row, p, points := []float64{50, 7, 1000.5}, 0.0, 0
	for reader.Next() {
		rec := reader.Record()
		numbers := func(column, each, i int) []float64 {
			values := rec.Column(column).(*array.FixedSizeList).ListValues().(*array.Float64).Float64Values()
			return values[i*each : (i+1)*each]
		}
		for i := range int(rec.NumRows()) {
			point, factor := numbers(0, d, i), mat.NewDense(d, d, numbers(2, d*d, i))
			var z mat.VecDense
			z.MulVec(factor, mat.NewVecDense(d, []float64{row[0] - point[0], row[1] - point[1], row[2] - point[2]}))
			logDet := rec.Column(3).(*array.Float64).Value(i)
			p += math.Exp(-0.5*active*math.Log(2*math.Pi)-0.5*mat.Dot(&z, &z)-0.5*logDet) / n
			var one mat.Dense
			one.Product(factor, mat.NewDense(d, d, numbers(1, d*d, i)), factor.T())
			if off := math.Abs(one.At(0, 0)-1) + math.Abs(one.At(2, 2)-1) + math.Abs(one.At(0, 2)) + one.At(1, 1); off > 1e-12 {
				t.Errorf("point %d: F Σ Fᵀ is\n%v", i, mat.Formatted(&one))
			}
			points++
		}
	}
	want := m.LogDensity(nil, mat.NewDense(1, d, row))[0]
	if points != n || math.Abs(math.Log(p)-want) > 1e-10 {
		t.Errorf("%d points give log p = %.12f, want %.12f", points, math.Log(p), want)
	}
}
