package online

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

const (
	contestRows    = 1000 // rows of the pool that candidates are fitted to, unless contestColumns asks for more
	contestColumns = 20   // the same per column
	contestHoldOut = 5    // at least one in this many rows of the pool is held out, to judge by
	contestSteps   = 200  // most EM steps of each run of the search
)

// contest compares candidates for the pool. It has a learner of its own, with a copy of the pool and the moments, so that
// a candidate is fitted and scored by the same steps as the stream's metric. They are fitted to a part of the pool's rows with
// the whole pool as neighbours, and judged by the leave-one-out NLL of the other rows:
//
//	current    as it is
//	gaussian   no Parzen direction: N(μ, C_G + ν_g)
//	red, …     what lca.Search finds: other d_P, and other directions
//	nu …       other ν, units and kernels, from the best of those before
//
// The winner has the lowest NLL of those that are better than the current metric by two standard errors.
type contest struct {
	learner     *Learner
	free        freedom
	train, rest batch
	out         outcome
	was         []float64 // scores of the rest under the current metric
	start       candidate // from which other settings begin: the best so far that has a Parzen direction
	least       float64   // its NLL
}

// newContest copies what it needs.
func newContest(l *Learner) *contest {
	d, pool := l.cfg.Dim, l.pool.len()
	f := &Learner{asked: l.asked, cfg: l.cfg, family: l.family, estimator: newEstimator(l.cfg), counts: l.counts}
	f.regime = regime{
		settings: l.settings, pool: l.pool.clone(), moments: l.moments.clone(), gap: timeGap{rows: l.gap.rows}, split: true,
		cl: make([]float64, d*d), gate: scoreGate{limit: math.Inf(1)},
	}
	c := &contest{learner: f, free: l.free}
	n := min(pool-pool/contestHoldOut, max(contestRows, contestColumns*d))
	var train, rest []int
	for i := range pool {
		if i*n/pool < (i+1)*n/pool {
			train = append(train, i)
		} else {
			rest = append(rest, i)
		}
	}
	c.train, c.rest = new(batch).pick(f.pool.batch(), train, d), new(batch).pick(f.pool.batch(), rest, d)
	l.metric.current(f.cl, l.cl, d, &l.work)
	c.start, c.least = candidate{l.cfg.recipe(), l.metric.parzen, f.cl}, math.Inf(1)
	c.out.Rows = l.counts.Learnt
	return c
}

// run compares the candidates. It ends early, with nothing better, when ctx ends.
func (c *contest) run(ctx context.Context) outcome {
	current := c.start
	c.try("current", current, false)
	if c.free.gaussian {
		c.try("gaussian", candidate{current.recipe, 0, current.cl}, false)
	}
	if current.parzen == 0 { // EM starts where Algorithm 1 does
		c.start.cl, c.start.parzen = c.learner.moments.full(), len(c.learner.metric.Active)
		c.try("lca_gauss", c.start, true)
	}
	if c.free.red {
		c.search(ctx)
	}
	start := c.start
	for _, r := range c.free.recipes(current.recipe, c.learner.asked.DOF) {
		if ctx.Err() == nil {
			c.try(r.String(), candidate{r, start.parzen, start.cl}, true)
		}
	}
	return c.out
}

// search tries what the search of a batch fit finds in the rows. C_L from n rows is wider than from the N of the pool by
// (N/n)^(2/(d_P+4)), which is corrected.
func (c *contest) search(ctx context.Context) {
	l, d := c.learner, c.learner.cfg.Dim
	f := l.cfg.Fit()
	f.Precision, f.MaxIter, f.Tol, f.Seed = l.cfg.Precision, contestSteps, replayGain, mix(l.cfg.Seed^l.counts.Rows)
	order, window := new(inTime).windows(c.train.places, c.train.places, l.gap.rows)
	if window != nil {
		f.Near = func(row int) []int32 { return order[window[row][0]:window[row][1]] }
	}
	_, found, err := lca.Search(ctx, mat.NewDense(c.train.len(), d, c.train.x), nil, f)
	if err != nil {
		return // cancelled, or all of them collapsed
	}
	for _, m := range found {
		if m.Model == nil || m.Parzen == 0 {
			c.add(lca.Trial{Name: m.Name, NLL: math.Inf(1)}, l.cfg.recipe())
			continue
		}
		cl, _ := withoutNu(m.Model)
		factor := prop1.WidthFactor(c.train.len(), l.pool.len(), m.Parzen)
		for k := range cl {
			cl[k] *= factor
		}
		c.try(m.Name, candidate{l.cfg.recipe(), m.Parzen, cl}, true)
	}
}

// try scores a candidate, after EM to convergence if it is to be fitted.
func (c *contest) try(name string, from candidate, fitted bool) {
	l := c.learner
	err := l.begin(from)
	if err == nil && fitted && l.metric.parzen > 0 {
		_, err = l.convergeOnPool(c.train, new(Step))
	}
	if err != nil {
		c.add(lca.Trial{Name: name, NLL: math.Inf(1)}, from.recipe)
		return
	}
	scores := slices.Clone(l.score(c.rest))
	nll := meanOf(scores)
	c.add(lca.Trial{Name: name, Parzen: l.metric.parzen, NLL: nll}, from.recipe)
	now := candidate{recipe: from.recipe, parzen: l.metric.parzen, cl: make([]float64, len(l.cl))}
	l.metric.current(now.cl, l.cl, l.cfg.Dim, &l.work)
	if now.parzen > 0 && nll < c.least {
		c.start, c.least = now, nll
	}
	if c.was == nil {
		c.was = scores
		return
	}
	if nll < c.out.Candidates[c.out.Taken].NLL && surelyLower(scores, c.was, l.independent(len(scores))) {
		c.out.Taken, c.out.best = len(c.out.Candidates)-1, now
	}
}

// add notes a candidate.
func (c *contest) add(t lca.Trial, r recipe) {
	t.Nu, t.NuUnit, t.Kernel = r.nu, r.unit, r.kernel
	c.out.Candidates = append(c.out.Candidates, t)
}

// meanOf returns the mean of the scores that are numbers, +Inf if there is none.
func meanOf(scores []float64) float64 {
	var n, sum float64
	for _, v := range scores {
		if !math.IsNaN(v) {
			n, sum = n+1, sum+v
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / n
}
