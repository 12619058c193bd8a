package online

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	contestHoldOut = 5    // at least one in this many rows of the pool is held out, to judge by
	contestSteps   = 50   // most EM steps of each run of the search: EM on the pool follows
	contestGain    = 1e-3 // such a run ends when a step gains less than this, in nats per row
	contestNarrow  = 0.1  // nats per row that narrower kernels must gain, see narrower
	fewParzen      = 4    // few are one in this many
)

// contest compares candidates for the pool. It has a learner of its own, with a copy of the pool and the moments, so that
// a candidate is fitted and scored by the same steps as the stream's metric. They are fitted to a part of the pool's rows with
// the whole pool as neighbours, and judged by the leave-one-out NLL of the other rows, which the first two have learnt when they came:
//
//	current    as it is
//	gaussian   no Parzen direction: N(μ, C_G + ν_g)
//	red, …     what lca.Search finds: other d_P, and other directions
//	red, nu …  the same with ν C_G, for lca.PresetMetric
//	nu …       other ν, units and kernels, from the best of those before
//
// The winner has the lowest NLL of those that are better than the current metric by two standard errors; with a smaller ν than another, it
// must be better than that one by contestNarrow as well.
type contest struct {
	learner     *model
	free        freedom
	train, rest pool.Batch
	out         outcome
	was         []float64 // scores of the rest under the current metric
	start       candidate // from which other settings begin: the best so far that has a Parzen direction
	least       float64   // its NLL
}

// newContest copies what it needs.
func newContest(l *choices) *contest {
	d, rows := l.cfg.Dim, l.pool.Len()
	f := &model{asked: l.asked, cfg: l.cfg, family: l.family, counts: l.counts, space: newSpace(l.cfg)}
	f.regime = regime{
		since: l.since, settings: l.settings, pool: l.pool.Clone(), moments: l.moments.clone(), gap: l.gap, split: true,
		cl: make([]float64, d*d), gate: scoreGate{limit: math.Inf(1)},
	}
	c := &contest{learner: f, free: l.open()}
	n := contestTrains(rows, d)
	var train, rest []int
	for i := range rows {
		if i*n/rows < (i+1)*n/rows {
			train = append(train, i)
		} else {
			rest = append(rest, i)
		}
	}
	c.train, c.rest = new(pool.Batch).Pick(f.pool.Batch(), train, d), new(pool.Batch).Pick(f.pool.Batch(), rest, d)
	l.metric.current(f.cl, l.cl, d, l.work)
	c.start, c.least = candidate{l.cfg.recipe(), l.metric.parzen, f.cl}, math.Inf(1)
	c.out.Rows = l.counts.Learnt
	return c
}

// contestTrains returns how many rows of a pool candidates are fitted to.
func contestTrains(pool, dim int) int {
	return min(pool-pool/contestHoldOut, max(sampleRows, rowsPerColumn*dim))
}

// run compares the candidates. It ends early, with nothing better, when ctx ends.
func (c *contest) run(ctx context.Context) outcome {
	current := c.start
	c.consider(c.fit(ctx, "current", current, false))
	if c.free.gaussian {
		c.consider(c.fit(ctx, "gaussian", candidate{current.recipe, 0, current.cl}, false))
	}
	if current.parzen == 0 { // EM starts where Algorithm 1 does
		c.start.cl, c.start.parzen = c.learner.moments.full(), len(c.learner.metric.Active)
		c.consider(c.fit(ctx, "lca_gauss", c.start, true))
	}
	if c.free.red {
		for _, f := range c.search(ctx, current.recipe, "") {
			c.consider(f)
		}
	}
	if r := current.recipe; c.free.affine && r.unit != lca.UnitCovariance {
		r.unit = lca.UnitCovariance
		c.considerFew(c.search(ctx, r, ", "+r.String()))
	}
	start := c.start
	for _, r := range c.free.recipes(current.recipe, c.learner.asked.DOF) {
		if ctx.Err() == nil {
			c.consider(c.fit(ctx, r.String(), candidate{r, start.parzen, start.cl}, true))
		}
	}
	return c.out
}

// search fits what the search of a batch fit finds in the rows with those settings. C_L from n rows is wider than from the N of
// the pool by (N/n)^(2/(d_P+4)), which is corrected.
func (c *contest) search(ctx context.Context, r recipe, suffix string) (all []fitted) {
	l, d := c.learner, c.learner.cfg.Dim
	f := l.cfg.Fit()
	f.Nu, f.NuUnit, f.Kernel, f.DOF = r.nu, r.unit, r.kernel, r.dof
	f.Precision, f.MaxIter, f.Tol, f.Seed = l.cfg.Precision, contestSteps, contestGain, pool.Mix(pool.Seed^l.counts.Rows)
	order, window := new(pool.Near).Windows(c.train.Places, c.train.Places, l.gap)
	if window != nil {
		f.Near = func(row int) []int32 { return order[window[row][0]:window[row][1]] }
	}
	found, err := lca.Candidates(ctx, mat.NewDense(c.train.Len(), d, c.train.X), f)
	if err != nil || !slices.ContainsFunc(found, func(m lca.Candidate) bool { return m.Model != nil }) {
		return nil // cancelled, or all of them collapsed
	}
	for _, m := range found {
		switch {
		case m.Model == nil:
			c.add(lca.Trial{Name: m.Name + suffix, NLL: math.Inf(1)}, r)
			continue
		case m.Parzen == 0: // the Gaussian is a candidate of its own
			continue
		}
		cl, _ := withoutNu(m.Model)
		factor := prop1.WidthFactor(c.train.Len(), l.pool.Len(), m.Parzen)
		for k := range cl {
			cl[k] *= factor
		}
		all = append(all, c.fit(ctx, m.Name+suffix, candidate{r, m.Parzen, cl}, true))
	}
	return all
}

// fitted is a candidate after its fit.
type fitted struct {
	candidate
	index  int       // in the record
	nll    float64   // +Inf where it collapsed
	scores []float64 // of the rest
}

// fit scores a candidate, after EM to convergence if wanted, and notes it.
func (c *contest) fit(ctx context.Context, name string, from candidate, em bool) fitted {
	l, out := c.learner, fitted{index: len(c.out.Candidates), nll: math.Inf(1)}
	err := l.begin(from)
	if err == nil && em && l.metric.parzen > 0 {
		_, err = l.convergeOnPool(ctx, c.train, new(Step))
	}
	if err != nil {
		c.add(lca.Trial{Name: name, NLL: out.nll}, from.recipe)
		return out
	}
	out.scores = slices.Clone(l.score(c.rest))
	out.nll = meanOf(out.scores)
	out.candidate = candidate{recipe: from.recipe, parzen: l.metric.parzen, cl: make([]float64, len(l.cl))}
	l.metric.current(out.cl, l.cl, l.cfg.Dim, l.work)
	c.add(lca.Trial{Name: name, Parzen: out.parzen, NLL: out.nll}, from.recipe)
	return out
}

// consider takes a candidate if it is the best so far, and surely better than the current metric.
func (c *contest) consider(f fitted) {
	if f.scores == nil {
		return
	}
	if f.parzen > 0 && f.nll < c.least {
		c.start, c.least = f.candidate, f.nll
	}
	if f.index == 0 {
		c.was = f.scores
	} else if f.nll < c.out.Candidates[c.out.Taken].NLL-c.narrower(f) && surelyLower(f.scores, c.was, c.learner.independent(len(f.scores))) {
		c.out.Taken, c.out.best = f.index, f.candidate
	}
}

// narrower returns what a candidate must gain for having narrower kernels than the one that is taken so far. Where few directions are Parzen, the
// smallest ν halves their variance and is worth a few hundredths of a nat: no score needs them. But a row of which one column is wrong is then nearer to
// other neighbours than to its own, and Why, which takes those that are near, names other columns.
func (c *contest) narrower(f fitted) float64 {
	if taken := c.out.Candidates[c.out.Taken]; taken.Parzen > 0 && f.recipe.nu < taken.Nu {
		return contestNarrow
	}
	return 0
}

// considerFew takes the best of the candidates if few of its directions are Parzen. lca.PresetMetric measures ν by the columns,
// because thin directions are often noise, and to a kernel that is as thin they would be structure. Where the rows say
// that nearly all directions are Gaussian, thin or not, there is no such kernel; and ν by the columns only turns those
// directions that are left towards the thick ones.
func (c *contest) considerFew(all []fitted) {
	if len(all) == 0 {
		return
	}
	best := slices.MinFunc(all, func(a, b fitted) int { return cmp.Compare(a.nll, b.nll) })
	if fewParzen*best.parzen <= c.learner.cfg.Dim {
		c.consider(best)
	}
}

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
