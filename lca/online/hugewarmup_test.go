package online

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// A warm-up whose rows are of no use, because their squares are beyond all numbers, counts them as left out, and the next rows end it.
func TestWarmupOfHugeRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l, err := NewLearner(DefaultConfig(3))
	if err != nil {
		t.Fatal(err)
	}
	row := uint64(0)
	extremes := []float64{1e308, -1e308, 1e-320}
	learn := func(scale float64) {
		x, ids := mat.NewDense(100, 3, nil), make([]uint64, 100)
		for i := range ids {
			ids[i] = row
			row++
			first := r.NormFloat64()
			if scale > 1 {
				first = extremes[r.IntN(3)]
			}
			x.SetRow(i, []float64{first, scale * r.NormFloat64(), r.NormFloat64()})
		}
		if _, err := l.Learn(x, ids, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		learn(1e300)
	}
	if info := l.Info(); info.Gated != 400 {
		t.Errorf("of %d rows %d are gated", info.Rows, info.Gated)
	}
	for range 10 {
		learn(1)
	}
	if _, err := l.Model(); err != nil {
		t.Errorf("after ordinary rows: %v", err)
	}
}
