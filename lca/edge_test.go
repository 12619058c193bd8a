package lca_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestDuplicates holds that with NearCopies every row twice is every row once: a copy counts as the row
// itself does. Without the rule the same rows pull the kernel to width 0, which is refused by name.
func TestDuplicates(t *testing.T) {
	x, _ := toy("two", 120, 2, 1)
	var twice mat.Dense
	twice.Stack(x, x)
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss} {
		c := paperConfig(kind, 0)
		c.NearCopies, c.MaxIter, c.Tol = true, 25, -1
		once, both := fit(t, x, c), fit(t, &twice, c)
		near(t, kind.String()+": C_L", both.CL, once.CL, 1e-9)
		nearly(t, kind.String()+": NLL", both.Info.NLL, once.Info.NLL, 1e-10)
		if once.Info.Copies != 0 || both.Info.Copies != 240 {
			t.Errorf("%v: %d and %d copies, want 0 and 240", kind, once.Info.Copies, both.Info.Copies)
		}
		c.NearCopies, c.MaxIter, c.Tol = false, 0, 0
		if _, err := lca.Fit(context.Background(), &twice, c); err == nil || !strings.Contains(err.Error(), "NearCopies") {
			t.Errorf("%v: copies without the rule: %v, want an error that names NearCopies", kind, err)
		}
	}
}

// TestNothingLocal holds that rows which leave nothing to learn end in an error that names the remedy.
func TestNothingLocal(t *testing.T) {
	line := mat.NewDense(6, 2, nil)
	for i := range 6 {
		line.SetRow(i, []float64{float64(i), float64(i) * 3})
	}
	c := lca.DefaultConfig()
	c.NuGaussian = 0
	if _, err := lca.Fit(context.Background(), line, c); err == nil || !strings.Contains(err.Error(), "NuGaussian, which is the second number of lca.nu") {
		t.Errorf("collinear columns: %v, want an error that names NuGaussian and its key", err)
	}
	x, _ := toy("two", 40, 1, 1)
	c.Kind, c.Nu = lca.KindLCA, 1e9 // kernels so wide that all rows are copies
	if _, err := lca.Fit(context.Background(), x, c); err == nil || !strings.Contains(err.Error(), "lower Nu") {
		t.Errorf("ν = 1e9: %v, want an error that says to lower it", err)
	}
}

// TestConstantColumns holds that a column that does not vary, or only by rounding, changes nothing: weight 0
// in W, zeros in C_G and C_L, not counted in d, and named.
func TestConstantColumns(t *testing.T) {
	x, _ := toy("five", 150, 1, 2)
	wide := mat.NewDense(150, 5, nil)
	for i := range 150 {
		row := x.RawRowView(i)
		third := 1. / 3
		if i%3 == 0 {
			third = math.Nextafter(third, 1)
		}
		wide.SetRow(i, []float64{7e5, row[0], third, row[1], row[2]})
	}
	for _, unit := range []lca.Unit{lca.UnitRelative, lca.UnitAbsolute} {
		c := lca.DefaultConfig()
		c.NuUnit, c.Coordinates = unit, lca.CoordinatesSymmetric
		m, want := fit(t, wide, c), fit(t, x, c)
		if got := m.Info.Constant; len(got) != 2 || got[0] != 0 || got[1] != 2 {
			t.Errorf("constant columns %v, want 0 and 2", got)
		}
		active := []int{1, 3, 4}
		for i := range 5 {
			for _, k := range []int{0, 2} {
				if m.W.At(i, k) != 0 || m.CG.At(i, k) != 0 || m.CL.At(i, k) != 0 {
					t.Errorf("column %d has weight", k)
				}
			}
		}
		for a, i := range active {
			for b, k := range active {
				nearly(t, "W", m.W.At(i, k), want.W.At(a, b), 1e-12)
				nearly(t, "C_L", m.CL.At(i, k), want.CL.At(a, b), 1e-10)
			}
		}
		nearly(t, "NLL", m.Info.NLL, want.Info.NLL, 1e-10)
		got, plain := m.LogDensity(nil, wide), want.LogDensity(nil, x)
		nearly(t, "LogDensity of row 9", got[9], plain[9], 1e-9)
	}
	if _, err := lca.Fit(context.Background(), mat.NewDense(9, 2, nil), lca.DefaultConfig()); err == nil {
		t.Error("zeros alone were fitted")
	}
}

// TestScales holds that columns of 1e-9 and 1e9 live together: distances in y are those of the same rows
// in units of their own size. ν is relative, so the model is the same.
func TestScales(t *testing.T) {
	x, _ := toy("five", 200, 3, 3)
	units := []float64{1e-9, 1e9, 1, 1e-4, 1e5}
	scaled := mat.NewDense(200, 5, nil)
	scaled.Apply(func(_, k int, v float64) float64 { return v * units[k] }, x)
	for _, coords := range []lca.Coordinates{lca.CoordinatesAligned, lca.CoordinatesComponents} {
		c := lca.DefaultConfig()
		c.Preset, c.Coordinates = lca.PresetDensity, coords
		m, want := fit(t, scaled, c), fit(t, x, c)
		var y, plain mat.Dense
		m.Whiten(&y, scaled)
		want.Whiten(&plain, x)
		for i := 1; i < 200; i++ {
			nearly(t, "distance in y", distance(&y, 0, i), distance(&plain, 0, i), 1e-7)
		}
		shift := 0.0
		for _, u := range units {
			shift += math.Log(u)
		}
		nearly(t, "NLL", m.Info.NLL, want.Info.NLL+shift, 1e-8)
		// The neighbours are float32.
		nearly(t, "LogDensity of row 3", m.LogDensity(nil, scaled)[3], want.LogDensity(nil, x)[3]-shift, 1e-4)
	}
}

// TestHardlyNumbers holds that a column whose spread is too little for any weight counts as constant.
func TestHardlyNumbers(t *testing.T) {
	for _, spread := range []float64{1e-99, 1e-120, 1e-156, 1e-165, 1e-300} {
		x, _ := toy("five", 150, 1, 2)
		for i := range 150 {
			x.Set(i, 1, spread*x.At(i, 1))
		}
		if m := fit(t, x, lca.DefaultConfig()); len(m.Info.Constant) != 1 || m.Info.Constant[0] != 1 {
			t.Errorf("spread %g: constant columns %v, want 1", spread, m.Info.Constant)
		}
	}
}

// TestOffset holds that an offset of ten million standard deviations costs only the digits it takes.
func TestOffset(t *testing.T) {
	x, _ := toy("five", 200, 3, 4)
	moved := mat.NewDense(200, 5, nil)
	moved.Apply(func(_, k int, v float64) float64 { return v + 1e7*float64(1-2*(k%2)) }, x)
	c := lca.DefaultConfig()
	c.Preset = lca.PresetDensity
	m, want := fit(t, moved, c), fit(t, x, c)
	near(t, "C_L", m.CL, want.CL, 1e-6)
	nearly(t, "NLL", m.Info.NLL, want.Info.NLL, 1e-7)
	var y, plain mat.Dense
	m.Whiten(&y, moved)
	want.Whiten(&plain, x)
	near(t, "y", &y, &plain, 1e-6)
}

// TestFarOutlier holds that a row a million standard deviations away makes no NaN: it gives all its weight
// to its nearest row, and the fit goes on.
func TestFarOutlier(t *testing.T) {
	x, _ := toy("two", 150, 2, 5)
	x.SetRow(149, []float64{1e6, -1e6, 1e6, 1e6})
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss, lca.KindLCAGaussRed} {
		c := paperConfig(kind, 1e-3)
		last := math.Inf(1)
		c.Trace = func(i lca.Iteration) {
			if i.Iter == 0 {
				last = math.Inf(1)
			}
			if !(i.Penalised <= last+1e-9) {
				t.Errorf("%v: step %d at %v after %v", kind, i.Iter, i.Penalised, last)
			}
			last = i.Penalised
		}
		m := fit(t, x, c)
		for i, p := range m.LogDensity(nil, x) {
			if math.IsNaN(p) || math.IsInf(p, 0) {
				t.Fatalf("%v: log p of row %d is %v", kind, i, p)
			}
		}
		// Far from everything a row is scored by its nearest neighbour, and never −Inf or NaN.
		far := m.LogDensity(nil, mat.NewDense(1, 4, []float64{1e9, 1e9, 1e9, 1e9}))[0]
		if !(far < -100) || math.IsInf(far, 0) {
			t.Errorf("%v: log p far away is %v", kind, far)
		}
	}
}

// TestFewRows holds that the smallest inputs have their closed forms.
func TestFewRows(t *testing.T) {
	pair := mat.NewDense(2, 1, []float64{1, 4})
	m := fit(t, pair, paperConfig(lca.KindLCA, 0))
	nearly(t, "C_L of two rows", m.CL.At(0, 0), 9, 1e-12) // each row's only neighbour is 3 away
	nearly(t, "NLL of two rows", m.LeaveOneOutNLL(pair), 0.5*log2Pi+math.Log(3)+0.5, 1e-12)
	gauss := fit(t, pair, paperConfig(lca.KindLCAGauss, 0))
	if gauss.Parzen() != 0 { // C_L = 9 is wider than C_G = 2.25
		t.Errorf("two rows have %d Parzen dimensions, want 0", gauss.Parzen())
	}
	wide := mat.NewDense(2, 3, []float64{1, 0, 5, 2, 7, 1})
	if _, err := lca.Fit(context.Background(), wide, paperConfig(lca.KindLCA, 0)); err == nil {
		t.Error("two rows in three dimensions have a full covariance without ν")
	}
	if m := fit(t, wide, lca.DefaultConfig()); !(m.Info.NLL < math.Inf(1)) {
		t.Errorf("two rows in three dimensions with ν: NLL %v", m.Info.NLL)
	}
	if _, err := lca.Fit(context.Background(), mat.NewDense(1, 2, []float64{1, 2}), lca.DefaultConfig()); err == nil {
		t.Error("one row was fitted")
	}
}

// TestOneNeighbour holds that a single drawn neighbour is enough to go on: the row that is it is left out.
func TestOneNeighbour(t *testing.T) {
	x, _ := toy("two", 60, 1, 6)
	for _, batch := range []int{0, 7, 1} {
		c := lca.DefaultConfig()
		c.Neighbours, c.Minibatch, c.MaxIter, c.Gamma = 1, batch, 3, 0.6
		if m := fit(t, x, c); math.IsNaN(m.Info.NLL) || math.IsInf(m.Info.NLL, 0) {
			t.Errorf("B = %d: NLL %v", batch, m.Info.NLL)
		}
	}
}

// TestRefused holds that what cannot be fitted is named with its place or its field.
func TestRefused(t *testing.T) {
	x, _ := toy("two", 30, 1, 7)
	with := func(i, k int, v float64) *mat.Dense {
		y := mat.DenseCopyOf(x)
		y.Set(i, k, v)
		return y
	}
	change := func(f func(*lca.Config)) lca.Config {
		c := lca.DefaultConfig()
		f(&c)
		return c
	}
	for _, c := range []struct {
		name string
		x    *mat.Dense
		c    lca.Config
		want string
	}{
		{"NaN", with(4, 2, math.NaN()), lca.DefaultConfig(), "row 4, column 2"},
		{"Inf", with(0, 1, math.Inf(-1)), lca.DefaultConfig(), "row 0, column 1"},
		{"too large to square", with(3, 0, 1e300), lca.DefaultConfig(), "column 0"},
		{"zero configuration", x, lca.Config{}, "unknown Kind"},
		{"negative ν", x, change(func(c *lca.Config) { c.Nu = -2 }), "Nu is -2"},
		{"NaN ν_g", x, change(func(c *lca.Config) { c.NuGaussian = math.NaN() }), "NuGaussian is NaN"},
		{"γ = 1", x, change(func(c *lca.Config) { c.Gamma = 1 }), "Gamma is 1"},
		{"never converges", x, change(func(c *lca.Config) { c.Tol = -1 }), "set MaxIter"},
		{"no rank", x, change(func(c *lca.Config) { c.Metric = lca.MetricLowRank }), "Rank is 0"},
		{"too high a rank", x, change(func(c *lca.Config) { c.Metric, c.Rank = lca.MetricLowRank, 3 }), "Rank is 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := lca.Fit(context.Background(), c.x, c.c); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func distance(y *mat.Dense, i, j int) float64 {
	var d mat.VecDense
	d.SubVec(y.RowView(i), y.RowView(j))
	return mat.Norm(&d, 2)
}
