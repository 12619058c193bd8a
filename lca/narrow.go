package lca

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// narrowFit is LCA in a family of few numbers: the "low-rank or diagonal approximation" of section 5, whose steps grow with d and not with its
// square or cube. No step forms a matrix of d×d: rows are whitened by Σ as it is (prop1.Narrow), C_L stays
// in factors, and of it the M-step takes its diagonal, or its leading directions by products with a few vectors.
type narrowFit struct {
	*fitting
	prop1.Narrow
	space    linalg.Workspace
	z        []float64
	gram     []float64 // x_i·x_j, once made
	factors  []gram    // of the covariance of the next M-step
	diagonal []float64 // what is added to its diagonal
	global   []float64 // diagonal of C_G
	square   float64   // mean |z|², which is tr C_G Σ⁻¹
}

// gram is weight·XᵀX for rows×d numbers.
type gram struct {
	x      []float64
	weight float64
}

// narrow reports whether a fit can stay in few numbers.
func (f *fitting) narrow() bool {
	return f.Kind == KindLCA && f.Metric != MetricFull && f.Precision != 0 && !f.samples()
}

// narrowSearch is search for a narrow fit. There is no B until its end.
func (f *fitting) narrowSearch(ctx context.Context) (state, error) {
	n := &narrowFit{fitting: f, global: make([]float64, len(f.Active)), diagonal: make([]float64, len(f.Active))}
	if err := n.single(); err != nil {
		return state{}, err
	}
	rows := f.rows.RawMatrix().Data
	addSquares(n.global, rows, 1/float64(f.count()))
	n.factors = []gram{{rows, 1 / float64(f.count())}}
	s := state{}
	if err := n.mStep(&s, f.NuGaussian); err != nil {
		return state{}, err
	}
	em := narrowEM[float64]
	if f.Precision == Float32 {
		em = narrowEM[float32]
	}
	s, err := em(ctx, n)
	if err != nil {
		return state{}, err
	}
	return s, n.finish(&s)
}

// single finds C_G and the NLL of the single Gaussian.
func (n *narrowFit) single() error {
	d, rows := len(n.Active), n.count()
	global := n.working.covariance()
	if n.NuUnit == UnitCovariance {
		n.pull.CG = global
	}
	n.cg = n.pull.Add(global, n.NuGaussian)
	low := linalg.Elements(n.cg)
	if err := n.space.CholeskyLower(low, d); err != nil || !prop1.Regular(low, d) {
		return n.singularGlobal(rows, prop1.ErrSingular)
	}
	x := append([]float64(nil), n.rows.RawMatrix().Data...)
	n.space.SolveRight(linalg.Dense(low, d), x, d, d, rows)
	n.singleNLL = 0.5*float64(d)*math.Log(2*math.Pi) + prop1.LogDiagonal(low, d) + n.logScale() + 0.5*kernel.NormSquared(x)/float64(rows)
	return nil
}

// finish makes B and C_L of Σ. The columns of B_L = Σ^(−½)V, with V the eigenvectors of Σ^(−½) C_G Σ^(−½), are those of
// Proposition 1: B_Lᵀ Σ B_L is I, and B_Lᵀ C_G B_L is diagonal, with 1/e.
func (n *narrowFit) finish(s *state) error {
	d := len(n.Active)
	both := linalg.Elements(n.cg)
	n.Times(both, d, -0.5, &n.space)
	both = linalg.Elements(mat.NewDense(d, d, both).T())
	n.Times(both, d, -0.5, &n.space)
	inverse, vectors := make([]float64, d), make([]float64, d*d)
	if err := n.space.EigenSym(inverse, vectors, both, d); err != nil {
		return fmt.Errorf("lca: fit: %w: %w", err, prop1.ErrSingular)
	}
	s.Ratio = make([]float64, d)
	for k := range d { // as rows, by e ascending
		s.Ratio[k] = 1 / inverse[d-1-k]
		for i := range d {
			both[k*d+i] = vectors[i*d+d-1-k]
		}
	}
	n.Times(both, d, -0.5, &n.space)
	s.BL, s.BG = mat.DenseCopyOf(mat.NewDense(d, d, both).T()), &mat.Dense{}
	sigma := mat.NewDense(d, d, nil)
	for k := range d {
		sigma.Set(k, k, 1)
	}
	n.Times(sigma.RawMatrix().Data, d, 1, &n.space)
	s.CL = prop1.Symmetric(sigma)
	if n.Metric == MetricDiagonal && n.Coordinates != CoordinatesComponents && n.Components != ComponentsWeighted {
		n.axes = n.V
	}
	return nil
}

// narrowEM is em.
func narrowEM[T kernel.Float](ctx context.Context, n *narrowFit) (state, error) {
	run, s := n.nextRun(), state{Parts: prop1.Parts{BL: mat.NewDense(1, len(n.Active), nil)}} // for trace, which counts its columns
	for last := math.Inf(1); ; s.Iter++ {
		e, err := narrowStep[T](ctx, n, s.Iter < n.MaxIter)
		if err != nil {
			return state{}, err
		}
		if e.Used == 0 {
			return state{}, n.allCopies()
		}
		n.evaluate(&s, e)
		n.trace(run, s)
		if s.Iter == n.MaxIter || s.Iter > 0 && last-s.Penalised < n.Tol {
			return s, nil
		}
		last = s.Penalised
		if err := n.mStep(&s, n.Nu); err != nil {
			return state{}, err
		}
	}
}

// narrowStep is kernelStep with the factors of Σ_ij λ_ij (x_i−x_j)(x_i−x_j)ᵀ in place of C_L: see kernel.Factors.
func narrowStep[T kernel.Float](ctx context.Context, n *narrowFit, wantCL bool) (expectation, error) {
	all, rows, d := n.allPairs(), n.count(), len(n.Active)
	w := spaceOf[T](all)
	w.scratch.Threads, w.pool.Shape = runtime.GOMAXPROCS(0), all.shape
	n.z = append(n.z[:0], n.rows.RawMatrix().Data...)
	n.Times(n.z, rows, -0.5, &n.space)
	n.square = kernel.NormSquared(n.z) / float64(rows)
	w.p = linalg.Resize(w.p, rows*d)
	for i, v := range n.z {
		w.p[i] = T(v)
	}
	w.pool.Pack(w.p, rows, d, d)
	products := n.inner()
	out := expectation{LogSum: make([]float64, rows), Admissible: make([]int, rows)}
	f := kernel.Factors{Residual: make([]float64, rows*d), Mean: make([]float64, rows*d), Weight: make([]float64, rows)}
	for from := 0; from < rows; from += kernelRows {
		if err := ctx.Err(); err != nil {
			return expectation{}, err
		}
		to, m := min(rows, from+kernelRows), &w.moments
		if len(w.exclusions) == from/kernelRows {
			w.exclusions = append(w.exclusions, all.exclusion(from, to, d))
		}
		part := kernel.Factors{Residual: f.Residual[from*d:], Mean: f.Mean[from*d:], Weight: f.Weight}
		var inner *kernel.Inner[T]
		if all, ok := any(products).(*kernel.Inner[T]); ok && all != nil {
			inner = &kernel.Inner[T]{Gram: all.Gram[from*rows:], Factor: all.Factor, Left: all.Left[from*all.Rank:], Right: all.Right, Rank: all.Rank, Loss: all.Loss}
		}
		kernel.UpdateFactors(m, part, &w.scratch, w.p[from*d:to*d], to-from, &w.pool, w.exclusions[from/kernelRows], inner)
		out.add(m, from)
	}
	out.Effective /= math.Max(float64(out.Used), 1)
	if wantCL && out.Used > 0 {
		n.local(f, 1/float64(out.Used))
	}
	return out, nil
}

// mostGram bounds the rows whose inner products are kept: 128 MiB of them.
const mostGram = 4096

// mostLoss bounds the terms of z_i·z_j, as a multiple of it: four of sixteen digits are lost at most.
const mostLoss = 1e4

// inner makes z_i·z_j of x_i·x_j, which are the same in each step, where Σ is a multiple of the identity except in a few directions. It returns nil where it is
// not, where the rows are too many, or where digits would be lost.
func (n *narrowFit) inner() *kernel.Inner[float64] {
	rows, d, r := n.count(), len(n.Active), len(n.W)
	if n.Metric == MetricDiagonal || rows > mostGram || n.Precision != Float64 {
		return nil
	}
	x, in := n.rows.RawMatrix().Data, &kernel.Inner[float64]{Factor: 1 / n.V[0], Rank: r}
	for i := range rows {
		in.Loss = max(in.Loss, in.Factor*kernel.NormSquared(x[i*d:][:d])/kernel.NormSquared(n.z[i*d:][:d]))
	}
	if !(in.Loss <= mostLoss) {
		return nil
	}
	if n.gram == nil {
		n.gram = make([]float64, rows*rows)
		n.space.AddOuter(n.gram, x, rows, d)
		linalg.Mirror(n.gram, rows)
	}
	in.Gram, in.Right = n.gram, make([]float64, rows*r)
	n.space.Product(in.Right, r, linalg.Dense(x, d), linalg.Dense(n.U, d).T(), rows, r, d, linalg.Set)
	in.Left = append([]float64(nil), in.Right...)
	for i := range in.Left {
		in.Left[i] *= 1/n.W[i%r] - in.Factor
	}
	return in
}

// local sets the factors to those of C_L in working units.
func (n *narrowFit) local(f kernel.Factors, share float64) {
	rows, d := n.count(), len(n.Active)
	n.Times(f.Residual, rows, 0.5, &n.space)
	n.Times(f.Mean, rows, 0.5, &n.space)
	weighted := n.z
	for j, v := range f.Weight {
		floats.ScaleTo(weighted[j*d:][:d], math.Sqrt(v), n.rows.RawRowView(j))
	}
	n.factors = append(n.factors[:0], gram{f.Residual, share}, gram{weighted, share}, gram{f.Mean, -share})
}

// mStep sets Σ to the best of its family for the factors and ν I or ν C_G. After the first step ν is that of C_L.
func (n *narrowFit) mStep(s *state, nu float64) error {
	clear(n.diagonal)
	if n.NuUnit == UnitCovariance {
		n.factors = append(n.factors, gram{n.rows.RawMatrix().Data, nu / float64(n.count())})
		floats.AddScaled(n.diagonal, prop1.RoundingRidge, n.global)
	} else {
		floats.AddConst(nu, n.diagonal)
	}
	whole := append([]float64(nil), n.diagonal...)
	for _, g := range n.factors {
		addSquares(whole, g.x, g.weight)
	}
	var err error
	switch n.Metric {
	case MetricDiagonal:
		err = n.Diagonal(whole)
	case MetricIsotropic:
		err = n.LowRank(nil, floats.Sum(whole), len(whole), 0, linalg.LeadingBlocks, &n.space)
	default:
		err = n.LowRank(n.times, floats.Sum(whole), len(whole), n.Rank, linalg.LeadingBlocks, &n.space)
	}
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// times is the product of the covariance of the M-step with v.
func (n *narrowFit) times(dst, v []float64, cols int) {
	d := len(n.Active)
	for k, w := range n.diagonal {
		floats.ScaleTo(dst[k*cols:][:cols], w, v[k*cols:][:cols])
	}
	for _, g := range n.factors {
		n.space.AddGramTimes(dst, g.x, len(g.x)/d, d, v, cols, g.weight)
	}
}

// evaluate is state.evaluate.
func (n *narrowFit) evaluate(s *state, e expectation) {
	constant := 0.5*(float64(len(n.Active))*math.Log(2*math.Pi)+n.LogDet()) + n.shape().Excess(len(n.Active)) + n.logScale()
	sum := 0.0
	for i, m := range e.Admissible {
		if m > 0 {
			sum += constant - e.LogSum[i] + math.Log(float64(m))
		}
	}
	trace := n.InverseTrace()
	if n.NuUnit == UnitCovariance {
		trace = n.square
	}
	s.NLL = sum / float64(e.Used)
	s.Penalised = s.NLL + 0.5*n.Nu*trace
	s.Effective, s.Copies = e.Effective, e.Copies
}

// addSquares adds the diagonal of weight·XᵀX.
func addSquares(diagonal, x []float64, weight float64) {
	d := len(diagonal)
	sum := make([]float64, d)
	for ; len(x) > 0; x = x[d:] {
		for k, v := range x[:d] {
			sum[k] += float64(v * v)
		}
	}
	floats.AddScaled(diagonal, weight, sum)
}
