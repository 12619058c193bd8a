package online

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// digits are the 1797 images of 8×8 pixels that the demo streams, in the order of their file.
var digits = sync.OnceValues(func() (*mat.Dense, error) {
	file, err := os.Open("../../cmd/lca-stream/internal/demo/toy/digits.arrow")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	r, err := ipc.NewFileReader(file)
	if err != nil {
		return nil, err
	}
	var x []float64
	for b := range r.NumRecords() {
		rec, err := r.Record(b)
		if err != nil {
			return nil, err
		}
		list := rec.Column(rec.Schema().FieldIndices("x")[0]).(*array.FixedSizeList)
		for _, v := range list.ListValues().(*array.Float32).Float32Values()[:64*int(rec.NumRows())] {
			x = append(x, float64(v))
		}
	}
	return mat.NewDense(len(x)/64, 64, x), nil
})

// paperLearner switches off whatever a stream does that section 5 does not: the gate, the drift
// alarm, second steps and rehearsals, the growing n, and a C_G that forgets. n is the rows of a pass.
func paperLearner(kind lca.Kind, d, n int) Config {
	c := DefaultConfig(d)
	c.Kind, c.Preset, c.Precision = kind, lca.PresetDensity, lca.Float64
	c.OutlierGate, c.Drift, c.Plain, c.PassRows, c.Finite = math.Inf(1), false, true, n, true
	return c
}

// TestLearnIsOneStep holds that with B = N = n and γ = 0 Learn is one EM step of Fit on the same rows.
func TestLearnIsOneStep(t *testing.T) {
	images, err := digits()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		x    *mat.Dense
	}{
		{"digits", images}, // 3 of 64 columns are constant
		{"five", five(rand.New(rand.NewPCG(3, 1)), 800, 10)},
	} {
		for _, of := range []struct {
			kind   lca.Kind
			kernel lca.Kernel
		}{{lca.KindLCA, lca.KernelGaussian}, {lca.KindLCAGauss, lca.KernelGaussian}, {lca.KindLCA, lca.KernelStudent}, {lca.KindLCAGauss, lca.KernelStudent}} {
			t.Run(c.name+"/"+of.kind.String()+"/"+of.kernel.String(), func(t *testing.T) {
				n, d := c.x.Dims()
				config := paperLearner(of.kind, d, n)
				config.Kernel = of.kernel
				config.Gamma, config.Minibatch, config.Neighbours, config.WarmupRows = 0, n, n, n
				l, err := NewLearner(config)
				if err != nil {
					t.Fatal(err)
				}
				feed(t, l, c.x, n) // the warm-up
				feed(t, l, c.x, n)
				got, err := l.Model()
				if err != nil {
					t.Fatal(err)
				}
				f := config.Fit()
				f.MaxIter, f.Tol = 1, -1
				want, err := lca.Fit(context.Background(), c.x, f)
				if err != nil {
					t.Fatal(err)
				}
				if got.Parzen() != want.Parzen() {
					t.Fatalf("d_P is %d, Fit's %d", got.Parzen(), want.Parzen())
				}
				closeTo(t, "C_L", got.CL, want.CL, 1e-10)
				closeTo(t, "C_G", got.CG, want.CG, 1e-10)
				if e := math.Abs(got.LeaveOneOutNLL(c.x) - want.Info.NLL); !(e <= 1e-10*math.Abs(want.Info.NLL)) {
					t.Errorf("leave-one-out NLL differs by %g", e)
				}
			})
		}
	}
}

// closeTo fails unless max |A−B|_ij / √(B_ii B_jj) is at most tol, over the columns that vary.
func closeTo(t *testing.T, what string, got, want *mat.SymDense, tol float64) {
	t.Helper()
	worst := 0.0
	for i := range want.SymmetricDim() {
		for j := range i + 1 {
			off := math.Abs(got.At(i, j) - want.At(i, j))
			if unit := math.Sqrt(want.At(i, i) * want.At(j, j)); unit > 0 {
				off /= unit
			}
			worst = max(worst, off)
		}
	}
	if !(worst <= tol) {
		t.Errorf("%s differs by %g", what, worst)
	}
}

// TestPassesReachFit holds that the paper's B = 100, N = 3000 and γ = .6 come to where Fit does. On
// USPS the paper's rule loses .04 ± .06 nats per row; two standard errors of that are the margin here.
// It may come out lower: LCA-Gauss has local optima, and noise leaves the worse ones.
func TestPassesReachFit(t *testing.T) {
	const margin = 0.04 + 2*0.06
	images, err := digits()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		x      *mat.Dense
		plain  bool
		passes int
	}{
		{"five", five(rand.New(rand.NewPCG(4, 1)), 1000, 10), true, 25}, // a pass is worth −ln γ = .5 steps
		{"five rehearsed", five(rand.New(rand.NewPCG(4, 1)), 1000, 10), false, 4},
		{"digits rehearsed", images, false, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, d := c.x.Dims()
			config := paperLearner(lca.KindLCAGauss, d, n)
			config.Precision, config.Plain = lca.Float32, c.plain
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			for range c.passes {
				feed(t, l, c.x, config.Minibatch)
			}
			m, err := l.Model()
			if err != nil {
				t.Fatal(err)
			}
			f := config.Fit()
			f.Neighbours, f.Minibatch, f.Gamma, f.MaxIter, f.Precision = 0, 0, 0, 0, lca.Float32
			want, err := lca.Fit(context.Background(), c.x, f)
			if err != nil {
				t.Fatal(err)
			}
			got := m.LeaveOneOutNLL(c.x)
			t.Logf("leave-one-out NLL %.4f after %d passes, Fit's %.4f", got, c.passes, want.Info.NLL)
			if !(got <= want.Info.NLL+margin) {
				t.Errorf("leave-one-out NLL %.4f, Fit's %.4f", got, want.Info.NLL)
			}
		})
	}
}
