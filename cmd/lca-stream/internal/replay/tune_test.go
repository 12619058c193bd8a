package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestHoldOut: blocks are whole and apart, copies are left out, and rows that are alike for long are kept further apart.
func TestHoldOut(t *testing.T) {
	for _, c := range []struct{ n, gap, blocks, margin int }{
		{200, 0, 5, 0}, {1000, 0, 10, 0}, {1000, 6, 10, 6}, {10000, 20, 10, 20}, {1000, 100, 5, 12}, {2000, 0, 10, 0},
	} {
		h, err := newHoldOut(c.n, c.gap)
		if err != nil {
			t.Fatal(err)
		}
		if h.blocks() != c.blocks || h.margin != c.margin || len(h.fresh) < c.n/5 || len(h.train) < c.n/2 {
			t.Errorf("%d rows alike for %d: %d blocks, margin %d, %d rows fitted and %d fresh; want %d blocks, margin %d", c.n, c.gap, h.blocks(), h.margin, len(h.train), len(h.fresh), c.blocks, c.margin)
		}
		for _, row := range h.fresh {
			for apart := -h.margin; apart <= h.margin; apart++ {
				if _, found := slices.BinarySearch(h.train, row+apart); found {
					t.Fatalf("%d rows alike for %d: row %d is fitted, and row %d fresh", c.n, c.gap, row+apart, row)
				}
			}
		}
	}
	if _, err := newHoldOut(199, 0); err == nil || !strings.Contains(err.Error(), "199 usable rows are too few") {
		t.Errorf("199 rows: %v", err)
	}
	h, _ := newHoldOut(1000, 0)
	x := mat.NewDense(1000, 2, nil) // an even lattice, on which no two rows are near
	for i := range 1000 {
		x.SetRow(i, []float64{float64(i % 32), float64(i / 32)})
	}
	x.SetRow(h.fresh[7], x.RawRowView(h.train[400]))
	near := slices.Clone(x.RawRowView(h.train[3]))
	near[1] += 1e-4
	x.SetRow(h.fresh[9], near)
	before := len(h.fresh)
	h.dropCopies(x)
	if h.copies != 2 || len(h.fresh) != before-2 || len(h.block) != len(h.fresh) {
		t.Errorf("%d copies left out, %d fresh rows of %d", h.copies, len(h.fresh), before)
	}
}

// walk is n rows of two columns, each with the given part of the row before.
func walk(n int, keeps float64) *mat.Dense {
	r := rand.New(rand.NewPCG(1, 2))
	x := mat.NewDense(n, 2, nil)
	for i := range n {
		for k := range 2 {
			v := r.NormFloat64()
			if i > 0 {
				v = keeps*x.At(i-1, k) + math.Sqrt(1-keeps*keeps)*v
			}
			x.Set(i, k, v)
		}
	}
	return x
}

// TestLikeness: an autoregressive walk with .9 falls below 1/e within ten rows, and two of them by turns within twenty.
func TestLikeness(t *testing.T) {
	const n = 4000
	one, two := make([]int32, n), make([]int32, n)
	for i := range two {
		two[i] = int32(i % 2)
	}
	slow := walk(n, 0.9)
	if gap := likeness(slow, one); gap < 24 || gap > 39 {
		t.Errorf("a slow walk is alike for %d rows, want about 30", gap)
	}
	turns := mat.NewDense(n, 2, nil)
	for i := range n {
		turns.SetRow(i, slow.RawRowView(i/2+i%2*n/2))
	}
	if gap := likeness(turns, two); gap < 42 || gap > 84 {
		t.Errorf("two slow walks by turns are alike for %d rows, want about 60", gap)
	}
	if gap := likeness(walk(n, 0), one); gap != 0 {
		t.Errorf("white noise is alike for %d rows", gap)
	}
}

// TestBlockErrors: the standard error of a mean comes from blocks, so rows of a block that are alike count once.
func TestBlockErrors(t *testing.T) {
	h, _ := newHoldOut(1000, 0)
	values := make([]float64, len(h.fresh))
	for i, b := range h.block {
		values[i] = float64(b % 2)
	}
	mean, deviation := h.mean(values)
	if want := math.Sqrt(10./9) * 0.5 / math.Sqrt(10); math.Abs(*mean-0.5) > 1e-12 || math.Abs(*deviation-want) > 1e-12 {
		t.Errorf("%v ± %v, want .5 ± %v", *mean, *deviation, want)
	}
}
