package lca_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// toy is one of the paper's three data sets (section 6.1) with white noise columns behind:
// "two": unit Gaussians at (±3, 0); "circles": radii 1 and 2, sd .1; "five": (0,0) four times as
// often as each of (±4, ±4), unit variance. It returns the rows and the number of each row's cluster.
func toy(name string, n, noise int, seed uint64) (*mat.Dense, []int) {
	r := rand.New(rand.NewPCG(seed, 1))
	x, label := mat.NewDense(n, 2+noise, nil), make([]int, n)
	corners := [][2]float64{{0, 0}, {4, 4}, {4, -4}, {-4, 4}, {-4, -4}}
	for i := range n {
		for k := range 2 + noise {
			x.Set(i, k, r.NormFloat64())
		}
		switch name {
		case "two":
			label[i] = r.IntN(2)
			x.Set(i, 0, x.At(i, 0)+6*float64(label[i])-3)
		case "circles":
			label[i] = r.IntN(2)
			angle, radius := 2*math.Pi*r.Float64(), 1+float64(label[i])
			x.Set(i, 0, 0.1*x.At(i, 0)+radius*math.Cos(angle))
			x.Set(i, 1, 0.1*x.At(i, 1)+radius*math.Sin(angle))
		case "five":
			label[i] = max(0, r.IntN(8)-3)
			x.Set(i, 0, x.At(i, 0)+corners[label[i]][0])
			x.Set(i, 1, x.At(i, 1)+corners[label[i]][1])
		default:
			panic("no toy of that name: " + name)
		}
	}
	return x, label
}

// mixed returns x Aᵀ + b for a random, well conditioned A.
func mixed(x *mat.Dense, seed uint64) (y, a *mat.Dense, b []float64) {
	n, d := x.Dims()
	r := rand.New(rand.NewPCG(seed, 2))
	a, b = mat.NewDense(d, d, nil), make([]float64, d)
	for i := range d {
		b[i] = 5 * r.NormFloat64()
		for j := range d {
			a.Set(i, j, 0.5*r.NormFloat64())
		}
		a.Set(i, i, a.At(i, i)+3)
	}
	y = mat.NewDense(n, d, nil)
	y.Mul(x, a.T())
	for i := range n {
		for k := range d {
			y.Set(i, k, y.At(i, k)+b[k])
		}
	}
	return y, a, b
}

// paperConfig is the paper's own: ν = ν_g = 0 or as given, in the input's units, and no rule for copies.
func paperConfig(kind lca.Kind, nu float64) lca.Config {
	c := lca.DefaultConfig()
	c.Kind, c.Nu, c.NuGaussian, c.NuUnit, c.NearCopies = kind, nu, nu, lca.UnitAbsolute, false
	return c
}

func fit(t *testing.T, x *mat.Dense, c lca.Config) *lca.Model {
	t.Helper()
	m, err := lca.Fit(context.Background(), x, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// near fails unless got is within tol of want, relative to the largest entry of want.
func near(t *testing.T, what string, got, want mat.Matrix, tol float64) {
	t.Helper()
	gr, gc := got.Dims()
	wr, wc := want.Dims()
	if gr != wr || gc != wc {
		t.Errorf("%s is %d×%d, want %d×%d", what, gr, gc, wr, wc)
		return
	}
	var diff mat.Dense
	diff.Sub(got, want)
	if off := mat.Norm(&diff, math.Inf(1)); !(off <= tol*mat.Norm(want, math.Inf(1))) {
		t.Errorf("%s is off by %.3g\n got %v\nwant %v", what, off, mat.Formatted(got), mat.Formatted(want))
	}
}

func nearly(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s is %.15g, want %.15g within %.1g", what, got, want, tol)
	}
}

// precision returns B Bᵀ; zeros when B has no columns.
func precision(b *mat.Dense, d int) *mat.Dense {
	p := mat.NewDense(d, d, nil)
	if !b.IsEmpty() {
		p.Mul(b, b.T())
	}
	return p
}

var metrics = lca.Metrics()

func caseName(parts ...any) string { return fmt.Sprint(parts...) }
