package lca

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// LocalConfig decides what FitLocal finds.
type LocalConfig struct {
	// Smoothing κ ≥ 0 is the number of rows that the shared covariance counts for in each point's own;
	// Auto: d+2. The larger, the nearer to plain LCA.
	Smoothing float64
	Shared    Config  // the fit whose C_L is the shared covariance; its Kind is taken as KindLCA
	MaxIter   int     // most EM steps; 0 = 50
	Tol       float64 // converged when a step gains less, nats per row; 0 = 1e-6
	Trace     func(Iteration)
}

// LocalModel is the paper's extension in which "each datapoint uses its own local covariance matrix
// (possibly with a smoothing term)" (section 3, end): p(x) = (1/n) Σ_j N(x; x_j, Σ_j). It has no
// single metric to whiten with. It takes O(n d²) memory and O(n² d²) time per step, so it is for small n.
type LocalModel struct {
	Shared    *Model  // the plain LCA that it started from
	Smoothing float64 // κ
	NLL       float64 // leave-one-out, nats per row
	Iter      int     // EM steps made

	working *working
	sigma   []*mat.SymDense // Σ_j in working units
	shape   kernel.Shape
	lower   []*mat.Dense // their Cholesky factors' inverses, L_j^(−1)
	logs    []float64    // ½ log det Σ_j
}

const (
	localIterations = 50
	// FitLocal refuses more numbers than this in its covariances (1 GiB), twice over with the factors.
	localMost = 1 << 27
)

// FitLocal fits a covariance to each row of x by EM on the leave-one-out likelihood, each shrunk
// towards the shared Σ of plain LCA:
//
//	Σ_j = (Σ_i λ_ij (x_i−x_j)(x_i−x_j)ᵀ + κ Σ + ν I) / (Σ_i λ_ij + κ)
//
// which is the exact M-step of the objective with an inverse-Wishart prior around Σ. With KernelStudent each N is a t, and
// each λ_ij in the first sum is multiplied by (ν+d)/(ν+δ_ij).
func FitLocal(ctx context.Context, x *mat.Dense, c LocalConfig) (*LocalModel, error) {
	n, d := x.Dims()
	if n*d*d > localMost {
		return nil, fmt.Errorf("lca: local fit: %d rows × %d² numbers are too many to hold, want at most %d in all", n, d, localMost)
	}
	if !(c.Smoothing >= 0) && c.Smoothing != Auto {
		return nil, fmt.Errorf("lca: local fit: Smoothing is %v, want Auto or a number ≥ 0", c.Smoothing)
	}
	c.Shared.Kind = KindLCA
	f, err := newFitting(x, c.Shared)
	if err != nil {
		return nil, err
	}
	shared, err := f.search(ctx)
	if err != nil {
		return nil, err
	}
	m := &LocalModel{working: f.working, shape: f.shape()}
	if m.Shared, err = f.model(ctx, x, shared); err != nil {
		return nil, err
	}
	for range n {
		m.sigma = append(m.sigma, shared.CL)
	}
	c = c.defaults(len(f.Active))
	m.Smoothing = c.Smoothing
	return m, m.em(ctx, c, f, shared.CL)
}

func (c LocalConfig) defaults(d int) LocalConfig {
	if c.Smoothing == Auto {
		c.Smoothing = float64(d + 2)
	}
	if c.MaxIter == 0 {
		c.MaxIter = localIterations
	}
	if c.Tol == 0 {
		c.Tol = 1e-6
	}
	return c
}

// em alternates λ and the Σ_j until a step gains less than Tol.
func (m *LocalModel) em(ctx context.Context, c LocalConfig, f *fitting, shared *mat.SymDense) error {
	all := pairs{q: m.working.rows, p: m.working.rows, self: identity(m.working.rows), nearCopies: f.NearCopies}
	target := mat.NewSymDense(shared.SymmetricDim(), nil) // κ Σ + ν I
	target.ScaleSym(c.Smoothing, shared)
	target = f.pull.Add(target, f.Nu)
	for last := math.Inf(1); ; m.Iter++ {
		if err := m.factorize(ctx); err != nil {
			return err
		}
		lambda, logSum, err := m.eStep(ctx, all)
		if err != nil {
			return err
		}
		m.NLL = m.working.logScale() - mean(slices.DeleteFunc(logSum, math.IsNaN))
		penalised := m.NLL + m.prior(c.Smoothing, target)
		if c.Trace != nil {
			c.Trace(Iteration{Iter: m.Iter, NLL: m.NLL, Penalised: penalised, Parzen: len(m.working.Active)})
		}
		if m.Iter == c.MaxIter || last-penalised < c.Tol {
			return nil
		}
		last = penalised
		err = eachIndex(ctx, len(m.sigma), func(j int) {
			m.sigma[j] = m.mStep(j, lambda, c.Smoothing, target)
		})
		if err != nil {
			return err
		}
	}
}

// eStep returns λ_ij ∝ N(x_i; x_j, Σ_j), and log[(1/m) Σ_j N(x_i; x_j, Σ_j)] for each row of s.q, with m
// the number of admissible j. A pair is a near copy by the distance in Σ_j.
func (m *LocalModel) eStep(ctx context.Context, s pairs) (*mat.Dense, []float64, error) {
	n, d := s.q.Dims()
	lambda := mat.NewDense(n, len(m.sigma), nil)
	err := eachIndex(ctx, len(m.sigma), func(j int) {
		var z mat.Dense
		z.Mul(shifted(s.q, s.p.RawRowView(j)), m.lower[j].T())
		for i, distance := range squaredNorms(&z) {
			l := m.shape.Log(distance, d) - m.logs[j] - 0.5*float64(d)*math.Log(2*math.Pi) - m.shape.Excess(d)
			if (s.self != nil && s.self[i] == j) || (s.nearCopies && distance < kernel.NearCopy*float64(d)) {
				l = math.Inf(-1)
			}
			lambda.Set(i, j, l)
		}
	})
	logSum := make([]float64, n)
	for i := range n {
		sum, admissible, _ := softmax(lambda.RawRowView(i))
		logSum[i] = sum - math.Log(float64(admissible)) // NaN where there is no neighbour
	}
	return lambda, logSum, err
}

// mStep is the new Σ_j; target is κ Σ + ν I.
func (m *LocalModel) mStep(j int, lambda *mat.Dense, kappa float64, target *mat.SymDense) *mat.SymDense {
	n, d := m.working.rows.Dims()
	sum := mat.NewSymDense(d, nil)
	sum.CopySym(target)
	weight := kappa
	delta := mat.NewVecDense(d, nil)
	for i := range n {
		if l := lambda.At(i, j); l > 0 {
			floats.SubTo(delta.RawVector().Data, m.working.rows.RawRowView(i), m.working.rows.RawRowView(j))
			sum.SymRankOne(sum, l*m.pull(j, delta), delta)
			weight += l
		}
	}
	sum.ScaleSym(1/weight, sum)
	return sum
}

// pull is that of a pair whose difference is delta, for the centre j.
func (m *LocalModel) pull(j int, delta *mat.VecDense) float64 {
	if m.shape.DOF == 0 {
		return 1
	}
	var z mat.VecDense
	z.MulVec(m.lower[j], delta)
	return m.shape.Pull(mat.Dot(&z, &z), delta.Len())
}

// prior is what smoothing and ν add to the objective, per row: the mean over j of
// κ/2 (log det Σ_j + tr Σ_j⁻¹ Σ) + ν/2 tr Σ_j⁻¹.
func (m *LocalModel) prior(kappa float64, target *mat.SymDense) float64 {
	total := 0.0
	for j, lower := range m.lower {
		var left, both mat.Dense
		left.Mul(lower, target)
		both.Mul(&left, lower.T())
		total += kappa*m.logs[j] + 0.5*mat.Trace(&both)
	}
	return total / float64(len(m.lower))
}

// factorize recomputes L_j^(−1) and ½ log det Σ_j.
func (m *LocalModel) factorize(ctx context.Context) error {
	n := len(m.sigma)
	m.lower, m.logs = make([]*mat.Dense, n), make([]float64, n)
	singular := make([]bool, n)
	err := eachIndex(ctx, n, func(j int) {
		var chol mat.Cholesky
		if singular[j] = !chol.Factorize(m.sigma[j]); singular[j] {
			return
		}
		var l, inverse mat.TriDense
		chol.LTo(&l)
		// An ill-conditioned factor still has the best inverse there is.
		_ = inverse.InverseTri(&l)
		m.lower[j], m.logs[j] = mat.DenseCopyOf(&inverse), 0.5*chol.LogDet()
	})
	for j, bad := range singular {
		if bad {
			return fmt.Errorf("lca: local fit: Σ of row %d (raise Smoothing or Nu): %w", j, prop1.ErrSingular)
		}
	}
	return err
}

// LogDensity stores in dst, and returns, log p(x_i) for each row of x, all constants included. A nil
// dst is allocated.
func (m *LocalModel) LogDensity(dst []float64, x *mat.Dense) []float64 {
	// Without a context that can end, eStep cannot fail.
	_, logs, _ := m.eStep(context.Background(), pairs{q: m.working.of(x), p: m.working.rows})
	floats.AddConst(-m.working.logScale(), logs)
	if dst == nil {
		return logs
	}
	copy(dst, logs)
	return dst
}

// Factor returns F with Σ_j⁻¹ = FᵀF for row j, in the input's units: |F(x−x_j)|² is the squared distance in its kernel. It is the inverse
// of Σ_j's Cholesky factor, so lower triangular; a constant column has a zero row and column.
func (m *LocalModel) Factor(j int) *mat.Dense {
	out := mat.NewDense(m.working.dim, m.working.dim, nil)
	for a, k := range m.working.Active {
		for b, l := range m.working.Active[:a+1] {
			out.Set(k, l, m.lower[j].At(a, b)/m.working.Scale[b])
		}
	}
	return out
}

// LogDet returns log det Σ_j of row j over the columns that are not constant, in the input's units.
func (m *LocalModel) LogDet(j int) float64 { return 2 * (m.logs[j] + m.working.logScale()) }

// Covariance returns Σ_j of row j, in the input's units; a constant column has a zero row and column.
func (m *LocalModel) Covariance(j int) *mat.SymDense {
	return m.working.CovarianceOut(m.sigma[j], m.working.dim)
}
