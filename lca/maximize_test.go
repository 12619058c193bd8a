package lca_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// inParts is one step of EM over the rows of x, in parts that begin at cuts, summed in that order by as many accumulators as groups says.
func inParts(t *testing.T, m *lca.Model, x *mat.Dense, cuts []int, order []int, groups int) *lca.Model {
	t.Helper()
	n, d := x.Dims()
	sums := make([]*lca.Accumulator, groups)
	for i, part := range order {
		if sums[i%groups] == nil {
			sums[i%groups] = m.NewAccumulator(lca.Float64)
		}
		a := sums[i%groups]
		a.Begin(uint64(part))
		to := n
		if part+1 < len(cuts) {
			to = cuts[part+1]
		}
		for row := cuts[part]; row < to; {
			some := min(1+(row*7)%300, to-row) // the batches that the rows come in do not matter
			a.Add(x.RawMatrix().Data[row*d:(row+some)*d], ids(row, some))
			row += some
		}
	}
	var all []*lca.Statistics
	for _, a := range sums {
		all = append(all, a.End()...)
	}
	next, err := m.Maximize(all)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func ids(first, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = rand.NewPCG(uint64(first+i), 5).Uint64()
	}
	return out
}

// TestMaximize holds that EM by parts is Fit: step by step it has the same NLL, and it ends with the same model.
func TestMaximize(t *testing.T) {
	five, _ := toy("five", 400, 3, 1)
	x, _, _ := mixed(five, 1)
	steps := 12
	if testing.Short() {
		steps = 5
	}
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss, lca.KindGaussian} {
		for _, metric := range metrics {
			for _, unit := range []lca.Unit{lca.UnitAbsolute, lca.UnitRelative, lca.UnitCovariance} {
				for _, kernel := range []lca.Kernel{lca.KernelGaussian, lca.KernelStudent} {
					t.Run(caseName(kind, "/", metric, "/", unit, "/", kernel), func(t *testing.T) {
						c := lca.DefaultConfig()
						c.Kind, c.Metric, c.Rank, c.NuUnit, c.Kernel, c.MaxIter, c.Tol = kind, metric, 2, unit, kernel, steps, -1
						var want []float64
						c.Trace = func(i lca.Iteration) { want = append(want, i.NLL) }
						whole := fit(t, x, c)
						c.MaxIter, c.Trace = 1, nil
						m := fit(t, x, c)
						for step := 1; step < steps; step++ {
							next := inParts(t, m, x, []int{0, 30, 200, 200}, []int{0, 1, 2, 3}, 1)
							if kind != lca.KindGaussian && step < len(want) {
								nearly(t, caseName("NLL of step ", step), next.Info.NLL, want[step], 1e-6)
							}
							m = next
						}
						near(t, "C_L", m.CL, whole.CL, 1e-6)
						near(t, "C_G", m.CG, whole.CG, 1e-6)
						nearly(t, "Gaussian NLL", m.Info.GaussianNLL, whole.Info.GaussianNLL, 1e-9)
						nearly(t, "NLL", m.LeaveOneOutNLL(x), whole.LeaveOneOutNLL(x), 1e-6)
						if m.Parzen() != whole.Parzen() {
							t.Errorf("d_P is %d, want %d", m.Parzen(), whole.Parzen())
						}
					})
				}
			}
		}
	}
}

// TestStatisticsHaveTheSameBits holds that neither who sums a part, nor when, nor how many processors there are, changes a bit; and that a sample of
// the rows is drawn by their identities alone.
func TestStatisticsHaveTheSameBits(t *testing.T) {
	x, _ := toy("five", 2600, 6, 2) // more than a step
	c := lca.DefaultConfig()
	c.MaxIter, c.NuUnit = 1, lca.UnitCovariance
	m := fit(t, x.Slice(0, 300, 0, 8).(*mat.Dense), c)
	cuts := []int{0, 2300, 2300, 2500}
	want := inParts(t, m, x, cuts, []int{0, 1, 2, 3}, 1)
	if n := len(want.Neighbours) / 8; n != 300 {
		t.Errorf("%d neighbours, want as many as before", n)
	}
	smallest := make(map[float32]bool)
	first := ids(0, 2600)
	order := make([]int, 2600)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return map[bool]int{true: -1, false: 1}[first[a] < first[b]] })
	for _, row := range order[:300] {
		smallest[float32(x.At(row, 0)-want.Mean[0])] = true
	}
	for i := 0; i < len(want.Neighbours); i += 8 {
		if !smallest[want.Neighbours[i]] {
			t.Fatalf("neighbour %d is not among the rows with the smallest identities", i/8)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, groups := range []int{1, 2, 4} {
		got := inParts(t, m, x, cuts, []int{3, 1, 0, 2}, groups)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d groups in another order: the model differs", groups)
		}
	}
}

// TestRowsTooFarAway holds that a row whose distance would hide all others is left out and counted, wherever it lies and in whatever precision; that the sums
// are those without it, to the bit; and that they have a next model. A row that is merely strange is taken.
func TestRowsTooFarAway(t *testing.T) {
	x, _ := toy("five", 2600, 6, 2) // more than a step
	c := lca.DefaultConfig()
	c.MaxIter, c.NuUnit = 1, lca.UnitCovariance
	m := fit(t, x.Slice(0, 300, 0, 8).(*mat.Dense), c)
	places := []int{0, 700, 701, 2048, 2600} // the first, two in a step, at its end, and the last
	for value, left := range map[float64]int{
		math.MaxFloat64: 5, -math.MaxFloat64: 5, 1e39: 5, math.MaxFloat32: 5, 9.96921e36: 5, -1e30: 5, 1e15: 5, 1e4: 0,
	} {
		with, their := slices.Clone(x.RawMatrix().Data), ids(0, 2600)
		for i := len(places) - 1; i >= 0; i-- {
			far := slices.Clone(with[:8])
			far[3] = value
			with = slices.Insert(with, 8*places[i], far...)
			their = slices.Insert(their, places[i], uint64(i)) // identities that would make them neighbours
		}
		for _, precision := range lca.Precisions() {
			a := m.NewAccumulator(precision)
			a.Begin(0)
			for from := 0; from < len(their); from += 777 {
				to := min(from+777, len(their))
				a.Add(with[8*from:8*to], their[from:to])
			}
			got := a.End()
			if got[0].Rows != uint64(2605-left) || got[0].Invalid != uint64(left) {
				t.Errorf("%g, %v: %d rows, %d left out", value, precision, got[0].Rows, got[0].Invalid)
			}
			if _, err := m.Maximize(got); err != nil {
				t.Errorf("%g, %v: %v", value, precision, err)
			}
			want := m.NewAccumulator(precision)
			want.Begin(0)
			want.Add(x.RawMatrix().Data, ids(0, 2600))
			want.Leave(left)
			if left > 0 && !reflect.DeepEqual(got, want.End()) {
				t.Errorf("%g, %v: the sums are not those of the other rows", value, precision)
			}
		}
	}
}

// TestMaximizeKeepsWhatTheModelSays holds that constant and sparse columns, and the number of directions that a search has found, are those of the model.
func TestMaximizeKeepsWhatTheModelSays(t *testing.T) {
	x, _ := toy("two", 400, 3, 3)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 400 {
		x.Set(i, 3, 7)
		x.Set(i, 4, float64(max(0, r.IntN(10)-8)*r.IntN(5)))
	}
	c := lca.DefaultConfig()
	c.MaxIter, c.Tol = 6, -1
	whole := fit(t, x, c)
	c.MaxIter = 5
	m := inParts(t, fit(t, x, c), x, []int{0}, []int{0}, 1)
	near(t, "C_L", m.CL, whole.CL, 1e-6)
	if !slices.Equal(m.Info.Constant, []int{3}) || len(m.Info.Scales) != 5 || !(m.Info.Scales[4] > 1.5*math.Sqrt(m.CG.At(4, 4))) {
		t.Errorf("constant columns %v, scales %v", m.Info.Constant, m.Info.Scales)
	}
	if !slices.Equal(m.Info.Scales, whole.Info.Scales) {
		t.Errorf("scales %v, want %v", m.Info.Scales, whole.Info.Scales)
	}
	c.Kind, c.MaxIter, c.Tol = lca.KindLCAGaussRed, 0, 0
	red := fit(t, x, c)
	if next := inParts(t, red, x, []int{0}, []int{0}, 1); next.Parzen() != red.Parzen() {
		t.Errorf("d_P is %d after a search found %d", next.Parzen(), red.Parzen())
	}
}

// TestMaximizeRefuses holds that sums that would give a wrong model give none.
func TestMaximizeRefuses(t *testing.T) {
	x, _ := toy("five", 100, 1, 4)
	m := fit(t, x, lca.DefaultConfig())
	sums := func() *lca.Statistics {
		a := m.NewAccumulator(lca.Float64)
		a.Begin(4)
		a.Add(x.RawMatrix().Data, ids(0, 100))
		a.Leave(3)
		return a.End()[0]
	}
	if s := sums(); s.Rows != 100 || s.Invalid != 3 || s.Used != 100 || s.Copies != 100 || len(s.Candidates) != 100 {
		t.Errorf("%d rows, %d invalid, %d used, %d copies, %d candidates", s.Rows, s.Invalid, s.Used, s.Copies, len(s.Candidates))
	}
	empty := func() *lca.Statistics {
		a := m.NewAccumulator(lca.Float64)
		a.Begin(5)
		return a.End()[0]
	}
	if _, err := m.Maximize([]*lca.Statistics{empty(), sums()}); err != nil {
		t.Errorf("a part without rows: %v", err)
	}
	for name, c := range map[string]struct {
		parts []*lca.Statistics
		says  string
	}{
		"nothing":                 {nil, "no statistics"},
		"no rows":                 {[]*lca.Statistics{empty()}, "of 0 rows"},
		"a part that comes twice": {[]*lca.Statistics{sums(), empty(), sums()}, "part 4 comes twice"},
		"another model's":         {[]*lca.Statistics{{Mean: make([]float64, 2)}}, "sums of 2 coordinates, the model has 3"},
		"NaN":                     {[]*lca.Statistics{func() *lca.Statistics { s := sums(); s.Local[1] = math.NaN(); return s }()}, "not finite"},
		"a short candidate":       {[]*lca.Statistics{func() *lca.Statistics { s := sums(); s.Candidates[7].X = nil; return s }()}, "candidate of 0 numbers"},
	} {
		if _, err := m.Maximize(c.parts); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
