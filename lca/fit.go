package lca

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Fit finds the model of c.Kind in the rows of x by EM on the leave-one-out likelihood: the batch
// algorithms of the paper, in plain float64. The same rows and configuration give the same bits
// for any GOMAXPROCS. It returns ctx's error as soon as ctx ends.
func Fit(ctx context.Context, x *mat.Dense, c Config) (*Model, error) {
	f, err := newFitting(x, c)
	if err != nil {
		return nil, err
	}
	found, err := f.search(ctx)
	if err != nil {
		return nil, err
	}
	return f.model(ctx, x, found)
}

// fitting is one batch fit under way: what stays fixed through all its EM steps.
type fitting struct {
	Config
	*working
	solver prop1.MStep
	pull   prop1.Pull    // what ν adds: I or C_G
	cg, ig *mat.SymDense // C_G + ν_g I and I_G = (C_G + ν_g I)^(−½), in working units
	random *rand.Rand
	runs   int
	all    *pairs // of all rows, once made: a search makes many E-steps over them

	singleNLL float64   // of a narrow fit, the NLL of the single Gaussian
	axes      []float64 // the variances of a narrow fit that is along the axes; nil of others
}

// state is where an EM run stands.
type state struct {
	prop1.Parts
	CL        *mat.SymDense // C_L + ν I of these parts, within the metric's family
	NLL       float64
	Penalised float64
	Effective float64
	Copies    int
	Iter      int
}

func newFitting(x *mat.Dense, c Config) (*fitting, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.resolved()
	w, err := newWorking(x, c.NuUnit)
	if err != nil {
		return nil, err
	}
	if c.Metric == MetricLowRank && c.Rank >= len(w.Active) {
		return nil, fmt.Errorf("lca: fit: Rank is %d, want less than the %d columns that vary", c.Rank, len(w.Active))
	}
	f := &fitting{Config: c, working: w, random: rand.New(rand.NewPCG(c.Seed, 0))}
	if f.narrow() {
		return f, nil
	}
	return fittingOf(w, w.covariance(), w.rows.RawMatrix().Rows, c)
}

// fittingOf is newFitting for rows whose C_G is known.
func fittingOf(w *working, global *mat.SymDense, rows int, c Config) (*fitting, error) {
	family, err := prop1.FamilyOf(c.Metric.String(), c.Rank)
	if err != nil {
		return nil, err
	}
	f := &fitting{Config: c, working: w, random: rand.New(rand.NewPCG(c.Seed, 0))}
	f.solver = prop1.MStep{Family: family, Plain: c.Kind == KindLCA}
	if f.NuUnit == UnitCovariance {
		f.pull.CG = global
	}
	f.cg = f.pull.Add(global, f.NuGaussian)
	if f.ig, err = prop1.InverseRoot(f.cg); err != nil {
		return nil, f.singularGlobal(rows, err)
	}
	return f, nil
}

func (f *fitting) singularGlobal(rows int, err error) error {
	return fmt.Errorf("lca: fit: C_G of %d rows × %d columns (raise NuGaussian, which is the second number of lca.nu in a configuration, or leave out collinear columns and rows that are far from all others): %w", rows, len(f.Active), err)
}

// search runs the algorithm that c.Kind names.
func (f *fitting) search(ctx context.Context) (state, error) {
	if f.narrow() {
		return f.narrowSearch(ctx)
	}
	switch f.Kind {
	case KindGaussian:
		return f.gaussian(), nil
	case KindLCAGaussRed:
		return f.reduce(ctx)
	case KindLCA, KindLCAGauss, KindAuto:
		start, err := f.start()
		if err != nil {
			return state{}, err
		}
		return f.em(ctx, start, f.MaxIter)
	default:
		return state{}, fmt.Errorf("lca: fit: unknown Kind %d", f.Kind)
	}
}

// start is Algorithm 1's: B_G = 0 and B_L B_Lᵀ = C_G⁻¹, all dimensions Parzen, within the metric's family.
func (f *fitting) start() (state, error) {
	b, sigma, err := f.solver.Solve(f.cg, f.ig, f.cg, len(f.Active))
	return state{Parts: b, CL: sigma}, err
}

// gaussian is the model with no Parzen dimension: B_G = I_G, the baseline of section 6.2.
func (f *fitting) gaussian() state {
	s := f.noParzen()
	s.NLL = f.nll(s.Parts, f.rows, nil)
	s.Penalised = s.NLL + f.penalty(s.Parts)
	return s
}

// noParzen is gaussian without its figures.
func (f *fitting) noParzen() state {
	s := state{Parts: prop1.Parts{BG: mat.DenseCopyOf(f.ig), BL: &mat.Dense{}, Ratio: make([]float64, len(f.Active))}, CL: f.cg}
	for k := range s.Ratio {
		s.Ratio[k] = 1
	}
	return s
}

// em is Algorithm 1 from a given start: E-step, M-step, until a step gains less than Tol or most
// steps are done. The state returned is evaluated, so its NLL is its own and not its predecessor's.
func (f *fitting) em(ctx context.Context, s state, most int) (state, error) {
	if f.samples() {
		return f.stochastic(ctx, s, most)
	}
	run := f.nextRun()
	all, was := f.allPairs(), 0
	for last := math.Inf(1); ; s.Iter++ {
		if prop1.Columns(s.BL) == 0 { // nothing local is left to learn
			g := f.gaussian()
			g.Iter = s.Iter
			f.trace(run, g)
			return g, nil
		}
		e, err := eStep(ctx, all, s.Parts, s.Iter < most) // λ and C_L
		if err != nil {
			return state{}, err
		}
		if e.Used == 0 {
			return state{}, f.allCopies()
		}
		s.evaluate(f, e)
		f.trace(run, s)
		if s.Iter == most || (s.Iter > 0 && last-s.Penalised < f.Tol && !f.fewer(was, s)) {
			return s, nil
		}
		last, was = s.Penalised, prop1.Columns(s.BL)
		if err := f.mStep(&s, e.CL, Auto); err != nil { // B_G and B_L
			return state{}, err
		}
	}
}

func (f *fitting) allCopies() error {
	return fmt.Errorf("lca: fit: in this metric every row is a near copy of all others: lower Nu (%v), which is lca.nu in a configuration", f.Nu)
}

// allPairs are all rows against all others.
func (f *fitting) allPairs() *pairs {
	if f.all == nil {
		f.all = &pairs{q: f.rows, p: f.rows, self: identity(f.rows), near: f.Near, nearCopies: f.NearCopies, shape: f.shape(), precision: f.Precision}
	}
	return f.all
}

func (f *fitting) shape() kernel.Shape { return kernel.Shape{DOF: f.DOF} }

// fewer reports whether the step to s gave up a Parzen direction under t kernels. That alone may raise the objective, since
// a t in p dimensions is no product of one in p−1 and a Gaussian, and is no reason to stop.
func (f *fitting) fewer(was int, s state) bool { return f.DOF > 0 && prop1.Columns(s.BL) != was }

// mStep replaces the parts of s by those that minimise the bound for the local covariance cl,
// without ν: M₂ = C_L + ν I, or C_L + ν C_G. parzen is d_P, or Auto.
func (f *fitting) mStep(s *state, cl *mat.SymDense, parzen int) error {
	b, sigma, err := f.solver.Solve(f.cg, f.ig, f.pull.Add(cl, f.Nu), parzen)
	if err != nil {
		return s.failed(err)
	}
	s.Parts, s.CL = b, sigma
	return nil
}

func (s *state) failed(err error) error {
	return fmt.Errorf("lca: fit: step %d (raise Nu, which is lca.nu in a configuration; where rows repeat, set NearCopies): %w", s.Iter+1, err)
}

// evaluate sets the figures of s from the E-step over all rows in its metric.
func (s *state) evaluate(f *fitting, e expectation) {
	s.NLL = f.nll(s.Parts, f.rows, &e)
	s.Penalised = s.NLL + f.penalty(s.Parts)
	s.Effective, s.Copies = e.Effective, e.Copies
}

// nll is the mean over the rows q of
//
//	−log p(x_i) = ½|B_Gᵀ(x_i−μ)|² + ½ d log 2π − log|det B| − log[(1/m) Σ_j exp(−½|B_Lᵀ(x_i−x_j)|²)]
//
// (section 4, before eq. 6; eq. 1 for plain LCA; t kernels with their own constant), m the number of admissible neighbours: n−1 when
// nothing is left out but the row itself. It is in the input's units: Σ log s comes on top. Rows
// without any neighbour are left out of the mean.
func (f *fitting) nll(b prop1.Parts, q *mat.Dense, e *expectation) float64 {
	constant := normaliser(b, f.shape()) + f.logScale()
	gaussian := halfSquares(q, b.BG)
	sum, used := 0.0, 0
	for i, g := range gaussian {
		parzen := 0.0
		if e != nil {
			if e.Admissible[i] == 0 {
				continue
			}
			parzen = e.LogSum[i] - math.Log(float64(e.Admissible[i]))
		}
		sum += constant + g - parzen
		used++
	}
	return sum / float64(used)
}

// penalty is ν/2 tr P_L + ν_g/2 tr P_G with P = B Bᵀ: what adding ν I to C_L and ν_g I to C_G
// amounts to in the objective (section 6.2: "penalizing the trace of Σ⁻¹"). With C_G in place of I it is
// ν/2 tr C_G P_L + ν_g/2 tr C_G P_G.
func (f *fitting) penalty(b prop1.Parts) float64 {
	return 0.5 * (f.pull.Penalty(b.BL, f.Nu) + f.pull.Penalty(b.BG, f.NuGaussian))
}

// trace tells the caller about one step.
func (f *fitting) trace(run int, s state) {
	if f.Trace != nil {
		f.Trace(Iteration{Run: run, Iter: s.Iter, NLL: s.NLL, Penalised: s.Penalised,
			Gaussian: prop1.Columns(s.BG), Parzen: prop1.Columns(s.BL), Effective: s.Effective})
	}
}

func (f *fitting) nextRun() int {
	f.runs++
	return f.runs - 1
}

// model makes a model of what was found, with all rows as its neighbours.
func (f *fitting) model(ctx context.Context, x *mat.Dense, s state) (*Model, error) {
	n, _ := x.Dims()
	single := f.singleNLL
	if !f.narrow() {
		single = f.gaussian().NLL
	}
	m := f.out(s, Info{
		Rows: uint64(n), Learnt: uint64(n), NLL: s.NLL, GaussianNLL: single,
		Gamma: f.Gamma, Minibatch: f.batchRows(), PassRows: float64(n),
		Copies: uint64(s.Copies), Effective: s.Effective,
	})
	m.Neighbours = offsets(x, f.mean)
	m.ScoreNeighbours(Admissible{Copies: !f.NearCopies, Near: f.Near})
	return m, ctx.Err()
}

// out brings what was found into the input's units, with the settings that it was found by. It has no neighbours yet.
func (f *fitting) out(s state, info Info) *Model {
	info.Nu, info.NuGaussian, info.NuUnit, info.Rank, info.Scales, info.Constant = f.Nu, f.NuGaussian, f.NuUnit, f.Rank, f.scales, f.constant
	m := &Model{
		Dim: f.dim, Mean: f.mean, Ratio: s.Ratio,
		CG: f.CovarianceOut(f.cg, f.dim), CL: f.CovarianceOut(s.CL, f.dim),
		BG: f.DirectionsOut(s.BG, f.dim), BL: f.DirectionsOut(s.BL, f.dim),
		Kind: f.Kind, Metric: f.Metric, Kernel: f.Kernel, DOF: f.DOF, Coordinates: f.Coordinates, Components: f.Components,
		Info: info,
	}
	if f.axes == nil {
		m.W = whitening(m.parts(), f.Coordinates, f.Components)
		return m
	}
	m.W = mat.NewDense(f.dim, f.dim, nil)
	for a, k := range f.Active {
		m.W.Set(k, k, 1/(math.Sqrt(f.axes[a])*f.Scale[a]))
	}
	return m
}

// offsets returns x − μ of all rows, the model's neighbours.
func offsets(x *mat.Dense, mean []float64) []float32 {
	n, d := x.Dims()
	out := make([]float32, 0, n*d)
	for i := range n {
		for k, v := range x.RawRowView(i) {
			out = append(out, float32(v-mean[k]))
		}
	}
	return out
}

// identity returns 0 … n−1: row i of x is row i of the neighbours.
func identity(x *mat.Dense) []int {
	n, _ := x.Dims()
	self := make([]int, n)
	for i := range self {
		self[i] = i
	}
	return self
}

// A column is constant if its variance is below this share of its mean square. With all rows in memory the
// moments are exact, and only the rounding of the rows themselves is left to tell from data: an sd of 1 on
// an offset of 1e7, or of 1e-3 on 1e9, is data.
const roundingVariance = 1e-26

// working holds rows in the coordinates that are learnt in: the active columns only, centred, and divided by
// their standard deviation s (for sparse columns see prop1.Sparse) unless ν is in the paper's absolute units. So
// columns of 1e-9 and 1e9 live together, and ν is relative to the mean working variance, which is 1.
type working struct {
	prop1.ColumnScale
	dim      int
	constant []int     // indices of the columns that do not vary: weight 0 everywhere
	mean     []float64 // μ, dim of them, in the input's units
	scales   []float64 // Info.Scales
	rows     *mat.Dense
}

func newWorking(x *mat.Dense, unit Unit) (*working, error) {
	n, d := x.Dims()
	if n < 2 {
		return nil, fmt.Errorf("lca: fit: want at least 2 rows, got %d", n)
	}
	w := &working{dim: d, mean: make([]float64, d)}
	sparse := prop1.SparseColumns(linalg.Elements(x), d)
	left := sparse
	for k := range d {
		mean, variance := moments(x, k)
		if math.IsNaN(variance) || math.IsInf(variance, 0) {
			return nil, columnFault(x, k)
		}
		w.mean[k] = mean
		if !prop1.Varies(variance, mean, roundingVariance) {
			w.constant = append(w.constant, k)
			continue
		}
		w.Active = append(w.Active, k)
		s := prop1.ScaleOf(variance, k, &left)
		if unit == UnitAbsolute {
			s = 1
		}
		w.Scale = append(w.Scale, s)
	}
	if len(w.Active) == 0 {
		return nil, fmt.Errorf("lca: fit: every column is constant (%d), nothing to learn", d)
	}
	if unit != UnitAbsolute {
		w.scales = w.Scales(d, sparse)
	}
	w.rows = w.of(x)
	return w, nil
}

// of brings rows of the input into working coordinates: (x−μ)/s, subtracted first.
func (w *working) of(x *mat.Dense) *mat.Dense {
	n, _ := x.Dims()
	y := mat.NewDense(n, len(w.Active), nil)
	for i := range n {
		xi, yi := x.RawRowView(i), y.RawRowView(i)
		for a, k := range w.Active {
			yi[a] = (xi[k] - w.mean[k]) / w.Scale[a]
		}
	}
	return y
}

// covariance returns C_G = (1/n) Σ (x−μ)(x−μ)ᵀ of the rows (section 4, below eq. 6).
func (w *working) covariance() *mat.SymDense {
	n, _ := w.rows.Dims()
	var c mat.Dense
	linalg.Mul(&c, w.rows.T(), w.rows)
	c.Scale(1/float64(n), &c)
	return prop1.Symmetric(&c)
}

// logScale returns Σ log s, by which a density in working units exceeds one in the input's.
func (w *working) logScale() float64 {
	sum := 0.0
	for _, s := range w.Scale {
		sum += math.Log(s)
	}
	return sum
}

// moments returns the mean and the variance (divided by n) of column k, in two passes: the second
// also takes the rounding error of the first out of both.
func moments(x *mat.Dense, k int) (mean, variance float64) {
	n, _ := x.Dims()
	for i := range n {
		mean += x.At(i, k) / float64(n)
	}
	rest, square := 0.0, 0.0
	for i := range n {
		r := x.At(i, k) - mean
		rest += r / float64(n)
		square += r * r / float64(n)
	}
	return mean + rest, math.Max(square-rest*rest, 0)
}

// columnFault names the first entry that spoilt column k's variance.
func columnFault(x *mat.Dense, k int) error {
	n, _ := x.Dims()
	for i := range n {
		if v := x.At(i, k); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("lca: fit: row %d, column %d is %v: leave such rows out", i, k, v)
		}
	}
	return fmt.Errorf("lca: fit: column %d is too large to square: divide it by a constant", k)
}

// reduceIterations is the length of the first run, and of each rerun, of LCA-Gauss-Red: "a few
// iterations (40 in our experiments)".
const reduceIterations = 40

// reduce is LCA-Gauss-Red (section 4, "Escaping local optima"): EM rarely moves a dimension from
// one part to the other, and stops with too many in the Parzen part. So
//
//  1. run LCA-Gauss for 40 iterations;
//  2. transfer the columns of B_L whose e is nearest 1 to B_G, and rerun from there;
//  3. search the number to transfer dichotomically, by the penalised leave-one-out NLL: start at
//     half of d_P, keep what improves, halve what does not, until moving one column does not help;
//  4. run to convergence.
func (f *fitting) reduce(ctx context.Context) (state, error) {
	start, err := f.start()
	if err != nil {
		return state{}, err
	}
	best, err := f.em(ctx, start, reduceIterations)
	if err != nil {
		return state{}, err
	}
	tried := map[int]bool{}
	for move := max(1, prop1.Columns(best.BL)/2); move >= 1; {
		keep := prop1.Columns(best.BL) - move
		if keep < 1 || tried[keep] {
			move /= 2
			continue
		}
		tried[keep] = true
		rerun, err := f.rerun(ctx, best, keep)
		if err != nil {
			return state{}, err
		}
		if rerun.Penalised < best.Penalised {
			best = rerun
			move = min(move, max(1, prop1.Columns(best.BL)/2))
			continue
		}
		move /= 2
	}
	return f.converge(ctx, best)
}

// rerun is LCA-Gauss from s with all but keep columns of B_L transferred. A rerun that collapses
// has lost the search, and is not an error.
func (f *fitting) rerun(ctx context.Context, s state, keep int) (state, error) {
	moved := s
	moved.Parts, moved.Iter = transfer(s.Parts, keep), 0
	found, err := f.em(ctx, moved, reduceIterations)
	if errors.Is(err, prop1.ErrSingular) {
		found.Penalised, err = math.Inf(1), nil
	}
	return found, err
}

// converge runs s to convergence, as a run of its own.
func (f *fitting) converge(ctx context.Context, s state) (state, error) {
	s.Iter = 0
	return f.em(ctx, s, f.MaxIter)
}

// transfer moves columns from B_L to B_G and leaves the keep most local ones: B_L's columns are
// I_G u / √e, so √e times them is what they would be in the Gaussian part.
func transfer(b prop1.Parts, keep int) prop1.Parts {
	all := b.Joined()
	d, parzen := all.RawMatrix().Rows, prop1.Columns(b.BL)
	for j := keep; j < parzen; j++ {
		r := math.Sqrt(b.Ratio[j])
		for i := range d {
			all.Set(i, j, all.At(i, j)*r)
		}
	}
	return prop1.Parts{BL: prop1.ColumnRange(all, 0, keep), BG: prop1.ColumnRange(all, keep, d), Ratio: b.Ratio}
}
