package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// slowRows are n rows of d normal columns, each of which remembers φ of the row before.
func slowRows(r *rand.Rand, n, d int, phi float64) *mat.Dense {
	x := mat.NewDense(n, d, nil)
	for i := range n {
		for k := range d {
			v := r.NormFloat64()
			if i > 0 {
				v = phi*x.At(i-1, k) + math.Sqrt(1-phi*phi)*v
			}
			x.Set(i, k, v)
		}
	}
	return x
}

// TestTimeGap holds which gap is found: three times the lag at which the autocorrelation φ^lag is 1/e, whatever the
// number of partitions that the rows are spread over, and none for rows that are hardly dependent.
func TestTimeGap(t *testing.T) {
	const d, n = 5, 20000
	for _, c := range []struct {
		name       string
		phi        float64
		partitions int
		least, top uint64
	}{
		{"independent rows", 0, 1, 0, 0},
		{"adjacent rows below 1/e", 0.3, 1, 0, 0},
		{"short memory", 0.8, 1, 10, 18},     // 3·4.5
		{"long memory", 0.98, 1, 110, 190},   // 3·49.5
		{"three partitions", 0.9, 3, 22, 36}, // 3·9.5
		{"more partitions than are followed", 0.9, 20, 20, 38},
	} {
		t.Run(c.name, func(t *testing.T) {
			each := make([]*mat.Dense, c.partitions)
			for p := range each {
				each[p] = slowRows(rand.New(rand.NewPCG(uint64(p), 15)), n/c.partitions+1, d, c.phi)
			}
			l, err := NewLearner(DefaultConfig(d))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < n; i += 100 {
				x, partitions := mat.NewDense(100, d, nil), make([]int32, 100)
				for k := range 100 {
					p := (i + k) % c.partitions
					partitions[k] = int32(p)
					x.SetRow(k, each[p].RawRowView((i+k)/c.partitions))
				}
				if _, err := l.Learn(x, sequence(i, 100), partitions); err != nil {
					t.Fatal(err)
				}
			}
			if g := l.gap; g < c.least || g > c.top {
				t.Errorf("gap of %d rows, want %d to %d", g, c.least, c.top)
			}
		})
	}
}

// TestTimeGapOfAFiniteSet holds that a finite set of slow rows has the gap of a stream, and a sorted one, whose rows only jump, none.
func TestTimeGapOfAFiniteSet(t *testing.T) {
	const d, rows = 3, 3000
	r := rand.New(rand.NewPCG(1, 15))
	sorted := mat.NewDense(rows, d, nil)
	sorted.Apply(func(i, _ int, _ float64) float64 { return 2*float64(i/1000) + r.NormFloat64() }, sorted)
	gaps := func(x *mat.Dense, drift bool) (stream, finite uint64) {
		for _, f := range []bool{false, true} {
			c := DefaultConfig(d)
			c.Finite, c.Drift, c.Recent = f, drift, false
			l, err := NewLearner(c)
			if err != nil {
				t.Fatal(err)
			}
			feed(t, l, x, 100)
			if stream, finite = finite, l.gap; !f {
				continue
			}
			l.Close()
		}
		return stream, finite
	}
	if stream, finite := gaps(slowRows(r, rows, d, 0.95), true); stream == 0 || finite != stream {
		t.Errorf("gap of %d slow rows in a finite set, %d in a stream", finite, stream)
	}
	// Without alarms a stream does not begin again at a jump.
	if stream, finite := gaps(sorted, false); stream == 0 || finite != 0 {
		t.Errorf("gap of %d rows in a sorted finite set, %d in a stream", finite, stream)
	}
}

// TestWindows holds that the slots of a window are exactly those that the definition names.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 15))
	var found pool.Near
	for range 200 {
		draw := func() []pool.Place {
			out := make([]pool.Place, 1+r.IntN(60))
			for i := range out {
				out[i] = pool.Place{Partition: int32(r.IntN(4) - 1), At: uint64(r.IntN(50))}
			}
			return out
		}
		slots, rows, gap := draw(), draw(), uint64(1+r.IntN(20))
		order, window := found.Windows(slots, rows, gap)
		for i, p := range rows {
			var want []int32
			for s, q := range slots {
				if p.Partition != pool.NoPartition && p.Partition == q.Partition && max(p.At, q.At)-min(p.At, q.At) < gap {
					want = append(want, int32(s))
				}
			}
			got := slices.Clone(order[window[i][0]:window[i][1]])
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("row %+v, gap %d, slots %+v: window %v, want %v", p, gap, slots, got, want)
			}
		}
	}
}

// TestTimeGapContinues holds that a learner restored in the warm-up or later goes on as one that was never
// interrupted, where rows of two partitions have a gap.
func TestTimeGapContinues(t *testing.T) {
	const d, b = 4, 50
	c := DefaultConfig(d)
	c.Neighbours = 400
	x := slowRows(rand.New(rand.NewPCG(3, 15)), 3000, d, 0.9)
	partitions := make([]int32, b)
	for k := range partitions {
		partitions[k] = int32(k / 30)
	}
	whole, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	resumed := map[int]*Learner{100: nil, 1500: nil}
	for i := 0; i < 3000; i += b {
		part := x.Slice(i, i+b, 0, d).(*mat.Dense)
		for from, l := range resumed {
			if i == from {
				if l, err = NewLearner(c); err != nil {
					t.Fatal(err)
				}
				if err := l.UnmarshalBinary(stateOf(t, whole)); err != nil {
					t.Fatal(err)
				}
				resumed[from] = l
			}
			if l != nil {
				if _, err := l.Learn(part, sequence(i, b), partitions); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := whole.Learn(part, sequence(i, b), partitions); err != nil {
			t.Fatal(err)
		}
	}
	if whole.gap == 0 {
		t.Error("no gap: the test does not see what it is for")
	}
	for from, l := range resumed {
		if !bytes.Equal(stateOf(t, l), stateOf(t, whole)) {
			t.Errorf("restored at row %d, the learner went another way", from)
		}
	}
}

// TestFirstModelWaits holds that the first model waits where one column is slow, as in a cycle or after a jump of the level, and that
// it does not where columns step from a constant, the rows of which do not count if all columns have it, or all have forgotten a row a few rows later.
func TestFirstModelWaits(t *testing.T) {
	const d, phi = 20, 0.99
	slow := func(r *rand.Rand, before []float64) []float64 {
		x := draw(r, d, 0)
		for k := range x {
			x[k] = phi*before[k] + math.Sqrt(1-phi*phi)*x[k]
		}
		return x
	}
	constant := func(x []float64, columns int) []float64 {
		for k := range columns {
			x[k] = 7
		}
		return x
	}
	for name, c := range map[string]struct {
		rows int // until the first model
		row  func(r *rand.Rand, i int, before []float64) []float64
	}{
		"constant at first": {1400, func(r *rand.Rand, i int, _ []float64) []float64 {
			return constant(draw(r, d, 20), map[bool]int{true: d}[i < 1000])
		}},
		"half of the columns constant at first": {400, func(r *rand.Rand, i int, _ []float64) []float64 {
			return constant(draw(r, d, 20), map[bool]int{true: d / 2}[i < 200])
		}},
		"independent rows": {400, func(r *rand.Rand, _ int, _ []float64) []float64 { return draw(r, d, 0) }},
		"heavy tails": {400, func(r *rand.Rand, _ int, _ []float64) []float64 {
			x := draw(r, d, 0)
			for k := range x {
				x[k] /= r.Float64()
			}
			return x
		}},
		"short memory": {3000, func(r *rand.Rand, _ int, before []float64) []float64 {
			x := draw(r, d, 0)
			for k := range x {
				x[k] += 0.7 * before[k]
			}
			return x
		}},
		"a day's cycle in one column": {3000, func(r *rand.Rand, i int, _ []float64) []float64 {
			x := draw(r, d, 0)
			x[3] = 0.3*x[3] + 3*math.Sin(2*math.Pi*float64(i)/1440)
			return x
		}},
		"a jump":    {3000, func(r *rand.Rand, i int, _ []float64) []float64 { return draw(r, d, float64(i/250)*50) }},
		"two jumps": {3000, func(r *rand.Rand, i int, _ []float64) []float64 { return draw(r, d, float64(i/150%2)*5) }},
		"slow":      {3000, func(r *rand.Rand, _ int, before []float64) []float64 { return slow(r, before) }},
		"constant at first, then slow": {3300, func(r *rand.Rand, i int, before []float64) []float64 {
			if i < 300 {
				return constant(make([]float64, d), d)
			}
			return slow(r, before)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r, config := rand.New(rand.NewPCG(4, 15)), DefaultConfig(d)
			config.Preset = lca.PresetDensity
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			row, rows := make([]float64, d), 0
			for l.metric == nil && rows < 5000 {
				x := mat.NewDense(100, d, nil)
				for i := range 100 {
					row = c.row(r, rows+i, row)
					x.SetRow(i, row)
				}
				if _, err := l.Learn(x, sequence(rows, 100), nil); err != nil {
					t.Fatal(err)
				}
				rows += 100
			}
			if rows != c.rows {
				t.Errorf("first model after %d rows, want %d", rows, c.rows)
			}
		})
	}
}

// draw is a row of normal numbers around level.
func draw(r *rand.Rand, d int, level float64) []float64 {
	x := make([]float64, d)
	for k := range x {
		x[k] = level + r.NormFloat64()
	}
	return x
}
