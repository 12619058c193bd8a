package online

import (
	"context"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// leastOthers bounds the share of a direction that belongs to the other rows.
const leastOthers = 0.25

// chooseBeginning lets a stream, or a regime after a restart, begin with t kernels, or as a single Gaussian, if that explains the rows of the warm-up better than the first
// fit, each row without its own part in it. Kernels are fitted to these rows, and that no row is a neighbour of itself does not undo this: so each number
// in C_L that they have for themselves costs a nat, as Akaike has it. Gaussian kernels of a few hundred rows may be half a nat worse than a single
// Gaussian where there is little structure, or many columns, and tens of nats worse than t kernels where tails are heavy; and
// the first comparison (choice.go) takes effect only when there are nearly twice as many rows. It can take any of them again. Rows that are too
// few for a first fit (worthReplaying) can still make a single Gaussian. What was tried is recorded like any other choice. inside is the number of rows of the first fit.
func (l *choices) chooseBeginning(inside int, s *Step) error {
	if !l.free.kernel && !l.free.gaussian || l.cfg.OutlierGate != lca.Auto { // a gate in kernel widths needs its kernels
		return nil
	}
	rows, first := l.pool.Batch(), l.regime
	was := slices.Clone(l.score(rows))
	tried := lca.Choice{Rows: uint64(rows.Len())}
	best, least := first, math.Inf(1)
	consider := func(name string, scores []float64) {
		r, v := l.settings, meanOf(scores)+l.ownNumbers()/l.independent(l.pool.Len())
		if tried.Candidates = append(tried.Candidates, lca.Trial{Name: name, Parzen: l.metric.parzen, Nu: r.nu, NuUnit: r.unit, Kernel: r.kernel, NLL: v}); v < least {
			best, least, tried.Taken = l.regime, v, len(tried.Candidates)-1
		}
	}
	consider(lca.FirstFit, was)
	if r := first.settings; first.split && l.free.kernel && r.kernel == lca.KernelGaussian {
		r.kernel, r.dof = lca.KernelStudent.Resolve(l.asked.DOF)
		if err := l.begin(candidate{r, len(l.metric.Active), l.moments.full()}); err != nil {
			return err
		}
		if _, err := l.convergeOnPool(context.Background(), rows, s); err != nil {
			return err
		}
		consider(r.String(), l.score(rows))
	}
	if l.free.gaussian {
		if err := l.begin(candidate{first.settings, 0, first.cl}); err != nil {
			return err
		}
		l.score(rows)
		consider("gaussian", l.scoresWithoutOwn())
	}
	if l.setRegime(best); l.split && !first.split { // as a single Gaussian
		s.Learnt = inside
	}
	if len(tried.Candidates) > 1 {
		l.chosen, s.Choice = tried, &tried
	}
	s.Gaussian, s.Parzen = len(l.metric.Active)-l.metric.parzen, l.metric.parzen
	l.insideGate(new(pool.Batch).Sample(rows, gateRows, int(l.gate.turn), l.cfg.Dim))
	return nil
}

// ownNumbers returns how many numbers of C_L the Parzen directions have for themselves.
func (l *model) ownNumbers() float64 {
	p, d := l.metric.parzen, len(l.metric.Active)
	return float64(p*(p+1)/2 + p*(d-p))
}

// scoresWithoutOwn returns the scores of the last rows under a single Gaussian as they would be if each row had had no part in μ and C_G.
func (l *model) scoresWithoutOwn() []float64 {
	out, half := slices.Clone(l.density), l.estimator.halfSquares()
	w, own, d := 1/l.moments.independent(l.gap), 1-l.shrinkage(l.metric.parzen), float64(len(l.metric.Active))
	for i := range out {
		out[i] += ownPart(half[i], w, own, d)
	}
	return out
}

// ownPart returns by how much −log p of a row rises in d Gaussian directions when it has no part in μ and C_G, where its weight is w, of which C_G
// has the share own. With q = (x−μ)ᵀ C⁻¹ (x−μ), and Q and C' the same without its part, by Sherman and Morrison
//
//	Q = q / (1 − w − own w q),   log det C' = log det C − d log(1−w) − log(1 + w Q)
func ownPart(half, w, own, d float64) float64 {
	others := half / max(1-w-2*own*w*half, leastOthers)
	return others - half - 0.5*d*math.Log1p(-w) - 0.5*math.Log1p(2*own*w*others)
}
