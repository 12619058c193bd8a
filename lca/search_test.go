package lca_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestSearchFindsTheRings holds that the kurtosis starts find two rings in five dimensions of noise, which
// LCA-Gauss-Red from C_G may miss, and that fresh rows choose the model.
func TestSearchFindsTheRings(t *testing.T) {
	rings, _ := toy("circles", 700, 5, 1)
	all, a, _ := mixed(rings, 1)
	x, fresh := rowsOf(all, 0, 400), rowsOf(all, 400, 700)
	c := paperConfig(lca.KindLCAGauss, 0)
	c.MaxIter, c.Tol = 60, 1e-4
	m, candidates, err := lca.Search(context.Background(), x, fresh, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(candidates) != 5 || candidates[0].Name != "red" || candidates[4].Name != "kurtosis 4" {
		t.Errorf("candidates are %v", candidates)
	}
	lowest := slices.MinFunc(candidates, func(a, b lca.Candidate) int { return compare(a.NLL, b.NLL) })
	nearly(t, "NLL on fresh rows", m.TestNLL(fresh, x), lowest.NLL, 0)
	if m.Parzen() != lowest.Parzen {
		t.Errorf("d_P = %d, the lowest candidate's is %d", m.Parzen(), lowest.Parzen)
	}
	// The rings' plane is spanned by the first two rows of A⁻¹: nearly all of it must be in B_L's span.
	var plane mat.Dense
	if err := plane.Inverse(a); err != nil {
		t.Fatal(err)
	}
	for k := range 2 {
		direction := mat.DenseCopyOf(plane.Slice(k, k+1, 0, 7).T())
		if outside := residual(direction, m.BL); outside > 0.15 {
			t.Errorf("ring direction %d: %.2f of it is outside the Parzen part", k, outside)
		}
	}
}

// TestSearchWithoutFreshRows holds that it judges by the leave-one-out NLL then, and that candidates which
// collapse lose instead of ending the search.
func TestSearchWithoutFreshRows(t *testing.T) {
	x, _ := toy("two", 120, 2, 2)
	m, candidates, err := lca.Search(context.Background(), x, nil, paperConfig(lca.KindLCAGauss, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range candidates {
		if c.NLL < m.Info.NLL {
			t.Errorf("%s has %v, the chosen one %v", c.Name, c.NLL, m.Info.NLL)
		}
	}
	var twice mat.Dense
	twice.Stack(x, x)
	if _, candidates, err := lca.Search(context.Background(), &twice, nil, paperConfig(lca.KindLCAGauss, 0)); err == nil || !math.IsInf(candidates[0].NLL, 1) {
		t.Errorf("all candidates collapse: %v, %v", candidates, err)
	}
}

// TestCandidates holds that they are those that Search compares, without neighbours.
func TestCandidates(t *testing.T) {
	x, _ := toy("five", 150, 3, 4)
	c := paperConfig(lca.KindLCAGauss, 0.1)
	c.MaxIter = 20
	_, want, err := lca.Search(context.Background(), x, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := lca.Candidates(context.Background(), x, c)
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b lca.Candidate) bool {
		return a.Name == b.Name && a.NLL == b.NLL && a.Parzen == b.Parzen && mat.Equal(a.Model.CL, b.Model.CL) && b.Model.Neighbours == nil
	}
	if !slices.EqualFunc(want, got, same) {
		t.Errorf("candidates %v, compared were %v", got, want)
	}
}

// TestTune holds that ν_g is the Gaussian's best and ν the model's, each on the fresh rows.
func TestTune(t *testing.T) {
	five, _ := toy("five", 400, 4, 3)
	train, fresh := rowsOf(five, 0, 80), rowsOf(five, 80, 400)
	grid := lca.TuneGrid{Nu: []float64{1e-3, 1e-2, 1e-1, 1}, NuGaussian: []float64{1e-4, 1e-2, 10}}
	c, tried, err := lca.Tune(context.Background(), train, fresh, lca.DefaultConfig(), grid)
	if err != nil {
		t.Fatal(err)
	}
	if len(tried) != 7 || c.Kind != lca.KindLCAGauss {
		t.Fatalf("%d trials for %v, want 7 for lca_gauss", len(tried), c.Kind)
	}
	best := func(kind lca.Kind) lca.Tuning {
		of := slices.DeleteFunc(slices.Clone(tried), func(u lca.Tuning) bool { return u.Kind != kind })
		return slices.MinFunc(of, func(a, b lca.Tuning) int { return compare(a.NLL, b.NLL) })
	}
	if got := best(lca.KindGaussian); got.NuGaussian != c.NuGaussian {
		t.Errorf("ν_g = %v, the Gaussian does best with %v", c.NuGaussian, got.NuGaussian)
	}
	if got := best(lca.KindLCAGauss); got.Nu != c.Nu || got.NuGaussian != c.NuGaussian {
		t.Errorf("ν = %v with ν_g = %v, the best trial is %+v", c.Nu, c.NuGaussian, got)
	}
	nearly(t, "NLL of the fit it advises", fit(t, train, c).TestNLL(fresh, train), best(lca.KindLCAGauss).NLL, 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := lca.Tune(ctx, train, fresh, c, grid); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func rowsOf(x *mat.Dense, from, to int) *mat.Dense {
	_, d := x.Dims()
	return mat.DenseCopyOf(x.Slice(from, to, 0, d))
}

// residual returns the share of v's length that is outside the span of b's columns.
func residual(v, b *mat.Dense) float64 {
	var c, in mat.Dense
	if err := c.Solve(b, v); err != nil {
		return 1
	}
	in.Mul(b, &c)
	in.Sub(v, &in)
	return mat.Norm(&in, 2) / mat.Norm(v, 2)
}
