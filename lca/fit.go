package lca

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
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
		return nil, fmt.Errorf("lca: fit: C_G of %d rows × %d columns (raise NuGaussian, which is lca.nu_gaussian in a configuration, or leave out collinear columns and rows that are far from all others): %w", rows, len(w.Active), err)
	}
	return f, nil
}

// search runs the algorithm that c.Kind names.
func (f *fitting) search(ctx context.Context) (state, error) {
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
			return state{}, fmt.Errorf("lca: fit: in this metric every row is a near copy of all others: lower Nu (%v), which is lca.nu in a configuration", f.Nu)
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
		return fmt.Errorf("lca: fit: step %d (raise Nu, which is lca.nu in a configuration; where rows repeat, set NearCopies, lca.near_copies): %w", s.Iter+1, err)
	}
	s.Parts, s.CL = b, sigma
	return nil
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
	m := f.out(s, Info{
		Rows: uint64(n), Learnt: uint64(n), NLL: s.NLL, GaussianNLL: f.gaussian().NLL,
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
	m.W = whitening(m.parts(), f.Coordinates, f.Components)
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
