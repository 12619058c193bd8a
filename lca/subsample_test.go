package lca_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestDiscount holds that one pass with B = N = n is eq. 8 with the exponent 1: C_L = γ C_G + (1−γ) Ĉ_L.
func TestDiscount(t *testing.T) {
	x, _ := toy("five", 150, 2, 1)
	c := paperConfig(lca.KindLCA, 0)
	c.MaxIter = 1
	step := fit(t, x, c)
	c.Gamma = 0.6
	var want mat.SymDense
	want.ScaleSym(0.6, step.CG)
	var rest mat.SymDense
	rest.ScaleSym(0.4, step.CL)
	want.AddSym(&want, &rest)
	near(t, "C_L", fit(t, x, c).CL, &want, 1e-12)
}

// TestNuIsNotAccumulated holds that ν is in the metric once, after any number of averaged steps: with kernels
// that hardly change from pass to pass, C_L − ν I must settle where C_L settles without the averaging.
func TestNuIsNotAccumulated(t *testing.T) {
	x, _ := toy("five", 150, 2, 2)
	c := paperConfig(lca.KindLCA, 0.5)
	c.MaxIter, c.Tol = 400, -1
	plain := fit(t, x, c)
	c.Gamma = 0.3
	near(t, "C_L", fit(t, x, c).CL, plain.CL, 1e-8)
}

// TestSubsampling holds that minibatches against drawn neighbours end near the batch fit, and that the same
// seed gives the same bits and another seed others.
func TestSubsampling(t *testing.T) {
	x, _ := toy("five", 400, 1, 3)
	c := paperConfig(lca.KindLCA, 0)
	batch := fit(t, x, c)
	c.Minibatch, c.Neighbours, c.Gamma = 50, 300, 0.6
	m := fit(t, x, c)
	// 300 of 400 neighbours: C_L is wider by about (400/300)^(2/7) = 1.09, which costs little.
	nearly(t, "NLL", m.Info.NLL, batch.Info.NLL, 0.02)
	if again := fit(t, x, c); !mat.Equal(again.CL, m.CL) {
		t.Error("the same seed gave other bits")
	}
	c.Seed++
	if other := fit(t, x, c); mat.Equal(other.CL, m.CL) {
		t.Error("another seed gave the same bits")
	}
}

// TestTargetRows holds that the correction is the pure factor (N/n)^(2/(d_P+4)) on C_L, before ν.
func TestTargetRows(t *testing.T) {
	x, _ := toy("five", 300, 0, 4)
	c := paperConfig(lca.KindLCA, 0)
	c.Minibatch, c.Neighbours, c.Gamma, c.MaxIter = 100, 100, 0.6, 8
	plain := fit(t, x, c)
	c.TargetRows = 300
	var want mat.SymDense
	want.ScaleSym(math.Pow(100./300, 2./6), plain.CL)
	near(t, "C_L", fit(t, x, c).CL, &want, 1e-12)
}

// TestTargetRowsKeepsTheSplit holds that a narrower kernel does not make directions of noise Parzen, for metrics of each family, and that it
// is better with as many neighbours.
func TestTargetRowsKeepsTheSplit(t *testing.T) {
	x, _ := toy("five", 500, 6, 5)
	fresh, _ := toy("five", 300, 6, 6)
	centres, _ := toy("five", 4000, 6, 7)
	for _, metric := range []lca.Metric{lca.MetricFull, lca.MetricDiagonal} {
		c := lca.DefaultConfig()
		c.Kind, c.Metric, c.Nu, c.NuUnit = lca.KindLCAGaussRed, metric, 1e-2, lca.UnitCovariance
		c.Minibatch, c.Neighbours, c.Gamma, c.MaxIter = 100, 250, 0.6, 12
		plain := fit(t, x, c)
		c.TargetRows = 4000
		narrow := fit(t, x, c)
		if plain.Parzen() == 8 || narrow.Parzen() != plain.Parzen() {
			t.Errorf("%v: %d directions are Parzen, without a correction %d", metric, narrow.Parzen(), plain.Parzen())
		}
		if now, was := narrow.TestNLL(fresh, centres), plain.TestNLL(fresh, centres); !(now < was) {
			t.Errorf("%v: NLL %.3f with 4000 neighbours, without a correction %.3f", metric, now, was)
		}
	}
}
