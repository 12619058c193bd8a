package online

import (
	"context"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// rings are two rings of radius 1 and 2, a tenth as thick, and noise columns.
func rings(r *rand.Rand, n, noise int) *mat.Dense {
	x := mat.NewDense(n, 2+noise, nil)
	for i := range n {
		row := x.RawRowView(i)
		length := 0.0
		for length < 1e-3 {
			row[0], row[1] = r.NormFloat64(), r.NormFloat64()
			length = mat.Norm(x.Slice(i, i+1, 0, 2), 2)
		}
		radius := (1 + float64(r.IntN(2)) + 0.1*r.NormFloat64()) / length
		row[0], row[1] = radius*row[0], radius*row[1]
		for k := 2; k < len(row); k++ {
			row[k] = r.NormFloat64()
		}
	}
	return x
}

// TestRehearsal holds that a stream finds what a batch fit finds in as many rows as the pool holds,
// and that it is the rehearsal that does it: with two steps per minibatch alone, twenty times the
// rows are not enough.
func TestRehearsal(t *testing.T) {
	const n, noise = 2000, 5
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 11))
		x, fresh := rings(r, n, noise), rings(r, 500, noise)
		c := DefaultConfig(2 + noise)
		c.Preset, c.Neighbours = lca.PresetDensity, 1000
		f := c.Fit()
		f.Neighbours, f.Minibatch, f.Gamma, f.MaxIter, f.Precision = 0, 0, 0, 0, lca.Float32
		first := x.Slice(0, 1000, 0, 2+noise).(*mat.Dense)
		batch, err := lca.Fit(context.Background(), first, f)
		if err != nil {
			t.Fatal(err)
		}
		nll := func(plain bool) (nll float64, rehearsed int) {
			c.Plain = plain
			l, err := NewLearner(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range feed(t, l, x, c.Minibatch) {
				rehearsed += s.Replayed
			}
			m, err := l.Model()
			if err != nil {
				t.Fatal(err)
			}
			return m.TestNLL(fresh, first), rehearsed
		}
		want := batch.TestNLL(fresh, first)
		with, steps := nll(false)
		without, none := nll(true)
		t.Logf("seed %d: Fit %.3f, with %d steps over the pool %.3f, without %.3f", seed, want, steps, with, without)
		if !(with <= want+0.05) || steps == 0 {
			t.Errorf("seed %d: %.3f nats per row after %d steps over the pool, Fit's %.3f", seed, with, steps, want)
		}
		if !(without > want+0.2) || none != 0 {
			t.Errorf("seed %d: %.3f nats per row after %d steps over the pool, Fit's %.3f: rings are no test of it any more", seed, without, none, want)
		}
	}
}

// TestSplitOfYoungPool holds that a pool that is still filling judges e as the full one would.
func TestSplitOfYoungPool(t *testing.T) {
	e := []float64{0.1, 0.97, 0.99, 1.01, 1.03, 1.74}
	for _, c := range []struct {
		name     string
		previous int
		filled   float64
		want     int
	}{
		{"first split, full", lca.Auto, 1, 3},
		{"first split, a fifteenth", lca.Auto, 1.0 / 15, 5}, // 15^(2/10) = 1.72 times too wide
		{"stays", 4, 1, 4},
		{"gives one up", 5, 1, 4},
		{"takes one in", 1, 1, 2},
		{"young, keeps all", 6, 1.0 / 15, 6},
		{"never none", 1, 1e3, 1},
		{"none, by choice", 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := parzenWithHysteresis(e, c.previous, c.filled); got != c.want {
				t.Errorf("d_P is %d, want %d", got, c.want)
			}
		})
	}
}

// TestRowsAreCountedOnce holds that each row was learnt, was refused or waits, with outliers among the first rows.
func TestRowsAreCountedOnce(t *testing.T) {
	const d, n = 4, 2000
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed+3, 12))
		x := mat.NewDense(n, d, nil)
		for i := range n {
			for k, row := 0, x.RawRowView(i); k < d; k++ {
				if row[k] = r.NormFloat64(); i%20 == 0 {
					row[k] *= 12
				}
			}
		}
		c := DefaultConfig(d)
		c.Preset, c.WarmupRows = lca.PresetDensity, 20
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		feed(t, l, x, c.Minibatch)
		if i, waits := l.Info(), uint64(l.Quarantined()); i.Rows != i.Learnt+i.Gated+waits {
			t.Errorf("seed %d: of %d rows %d were learnt, %d refused, and %d wait", seed, i.Rows, i.Learnt, i.Gated, waits)
		}
	}
}
