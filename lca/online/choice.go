package online

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/timegap"
)

const (
	choiceJudge  = 1000 // newest rows of the stream that choose between the best candidate and the current metric
	choiceSurely = 2    // standard errors by which a candidate must be better
	choiceLeast  = 300  // rows that a pool must hold for a choice before it is full
	choiceEarly  = 8    // the first choice is at one row in this many of a full pool
	choiceWait   = 100  // least rows after which a choice takes effect, unless that is half the pool

	searchYoung   = 2 // a search needs searchColumns rows per column once the stream has been this many pools long
	searchColumns = 5 // rows per column to fit to
)

// choice lets the data choose what Config leaves to them: ν, its unit and the kernel with lca.PresetDensity, a single
// Gaussian in place of the whole, and d_P. EM hardly ever moves a direction from one part to the other (section 4,
// "Escaping local optima"), and a stream is no better at it. So from time to time candidates are fitted to the pool in the
// background. This starts when the pool holds N/8, N/4, N/2 and N rows, because a young metric may be far worse than
// a single Gaussian, and then when 2N, 4N … rows have been learnt, so that its cost per row goes to zero. Learners of small pools are many, one for
// each key, and a comparison is most of what such a learner costs: after one that changed nothing they wait until the rows have become four times as many.
// The best candidate takes effect when half as many rows more have come, or N/2, if it explains the newest 1000 of them better than the
// current metric by two standard errors. Learn waits at that row for a comparison that has not ended, and so does a checkpoint. So what is learnt
// depends on the rows alone, and not on how fast the comparison was.
//
// A drift alarm drops the comparison, because its rows are from before the change, and with it the settings chosen before.
type choice struct {
	began uint64     // counts.Since at the start; 0 = no comparison is running
	rows  pool.Batch // the newest rows since, at most choiceJudge
	*comparison
}

// comparison is one in the background, and its outcome.
type comparison struct {
	found  outcome
	done   chan struct{} // closed when found is set; nil when it was restored
	cancel context.CancelFunc
}

// outcome is what a comparison found.
type outcome struct {
	lca.Choice
	best candidate // the one at Taken; unless that is 0
}

// candidate is a metric for the pool.
type candidate struct {
	recipe recipe
	parzen int       // d_P
	cl     []float64 // C_L without ν, dim×dim
}

// Close ends a comparison in the background, and waits for its end. The learner must not be used afterwards.
func (l *Learner) Close() { l.choice.drop() }

// drop cancels the comparison and waits for its end.
func (c *choice) drop() {
	if c.comparison != nil && c.cancel != nil {
		c.cancel()
		<-c.done
	}
	*c = choice{}
}

// Await waits until no comparison in the background is left that Learn of that many rows would wait for, or, of no rows, a checkpoint. Where ctx
// ends before, it returns its error.
func (l *Learner) Await(ctx context.Context, rows int) error {
	c := &l.choice
	if c.began == 0 || c.done == nil || rows > 0 && l.counts.Since+uint64(rows) < c.began+l.choiceWait() {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait returns the comparison's outcome.
func (c *comparison) wait() outcome {
	if c.done != nil {
		<-c.done
	}
	return c.found
}

// stepChoice starts a comparison and ends it, each at its place; b are the rows just learnt, before which since had been learnt and the
// pool held that many.
func (l *Learner) stepChoice(b pool.Batch, since uint64, held int, s *Step) (err error) {
	if !l.free.any() {
		return nil
	}
	if held < l.cfg.Neighbours && l.pool.Len() == l.cfg.Neighbours {
		l.choice.drop() // one of a smaller pool: the first of a full one may be due
	}
	if c := &l.choice; c.began > 0 {
		if c.keep(b, l.cfg.Dim); l.counts.Since < c.began+l.choiceWait() {
			return nil
		}
		if s.Choice, err = l.endChoice(); err != nil {
			return err
		}
		s.Gaussian, s.Parzen = len(l.metric.Active)-l.metric.parzen, l.metric.parzen
	}
	if l.choiceDue(since, held) && l.open().any() {
		l.startChoice()
	}
	return nil
}

// open returns what a comparison may change now. Of a pool with few rows per column, a search finds what is in these rows and not what
// is in the stream. That is better than a metric that has learnt few rows itself, and worse than one that has learnt
// more than the pool holds.
func (l *Learner) open() freedom {
	f := l.free
	if l.counts.Since >= searchYoung*uint64(l.cfg.Neighbours) && contestTrains(l.pool.Len(), l.cfg.Dim) < searchColumns*len(l.metric.Active) {
		f.red, f.affine = false, false
	}
	return f
}

// choiceWait is how many rows after its start a comparison takes effect.
func (l *Learner) choiceWait() uint64 {
	return min(max(l.choice.began/2, choiceWait), uint64(l.cfg.Neighbours)/2)
}

// choiceDue reports whether a comparison starts. Before the last minibatch, since rows had been learnt and the pool held that many. The
// first fit may have filled the pool beyond N/8, and the pool may be full later than N rows have been learnt.
func (l *Learner) choiceDue(since uint64, held int) bool {
	full, now := l.cfg.Neighbours, l.pool.Len()
	if now < full {
		first := !l.compared()
		return now >= max(choiceLeast, full/choiceEarly) && (first || doubled(uint64(held), uint64(now), uint64(full)/choiceEarly))
	}
	late := held < full && l.counts.Since >= uint64(full)
	return late || doubled(since, l.counts.Since, uint64(full)) && !l.waits()
}

// waits reports whether the next comparison can wait for another doubling: the pool is small, the last one of a full pool changed nothing, and since it
// began the rows have doubled once.
func (l *Learner) waits() bool {
	full, after := uint64(l.cfg.Neighbours), l.counts.Learnt-l.chosen.Rows
	if full >= choiceJudge || !l.compared() || l.chosen.Taken != 0 || after >= l.counts.Since {
		return false
	}
	began := l.counts.Since - after
	return began >= full && bits.Len64(l.counts.Since/full) < bits.Len64(began/full)+2
}

// compared reports whether a comparison has ended since the regime began; the choice at the beginning is none.
func (l *Learner) compared() bool { return len(l.chosen.Candidates) > 0 && !l.chosen.Beginning() }

// doubled says whether a number has just passed unit·2^k.
func doubled(before, now, unit uint64) bool {
	return bits.Len64(now/unit) > bits.Len64(before/unit)
}

// keep appends rows and forgets the oldest.
func (c *choice) keep(b pool.Batch, dim int) {
	c.rows.Append(b)
	c.rows.Forget(max(0, c.rows.Len()-choiceJudge), dim)
}

func (l *Learner) startChoice() {
	compared := newContest(l)
	ctx, cancel := context.WithCancel(context.Background())
	c := &comparison{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(c.done)
		c.found = compared.run(ctx)
	}()
	l.choice = choice{began: l.counts.Since, comparison: c}
}

// endChoice ends a comparison: what it found becomes current if the newest rows say so.
func (l *Learner) endChoice() (*lca.Choice, error) {
	c := l.choice
	found := c.wait()
	l.choice.drop()
	if found.Taken != 0 {
		adopted, err := l.adopt(found.best, c.rows)
		if err != nil {
			return nil, fmt.Errorf("lca: choice: %w", err)
		}
		if !adopted {
			found.Taken = 0
		}
	}
	l.chosen = found.Choice
	return &found.Choice, nil
}

// EndOfSet ends a set of rows after which no more come. If its rows were too few for a choice of a full pool to take effect, one is made
// now of all rows, and judged by the pool's. It returns nil if there is none to make. If they were too few for a first model, it is made of them (warmup.go).
// The figures of Info are then those of the metric as it has become (prequential.go).
func (l *Learner) EndOfSet() (*lca.Choice, error) {
	made, err := l.lastChoice()
	if err == nil {
		l.judgeSet()
		l.recent.settle()
	}
	return made, err
}

// lastChoice makes the choice of EndOfSet.
func (l *Learner) lastChoice() (*lca.Choice, error) {
	full := uint64(l.cfg.Neighbours)
	if l.metric == nil || l.counts.Minibatches == 0 {
		if few, err := l.endWarmup(); few || err != nil {
			return nil, err
		}
	}
	if l.metric == nil || l.counts.Minibatches == 0 || !l.open().any() {
		return nil, nil
	}
	if l.compared() && (l.counts.Since >= full+full/2 || l.chosen.Rows == l.counts.Learnt) {
		return nil, nil
	}
	if l.choice.began < full { // none is running, or one of a smaller pool
		l.choice.drop()
		l.startChoice()
	}
	l.choice.wait()
	l.choice.rows = pool.Batch{}
	l.choice.rows.Append(new(pool.Batch).Sample(l.pool.Batch(), choiceJudge, 0, l.cfg.Dim))
	return l.endChoice()
}

// adopt makes a candidate current, unless the rows are not explained better by it.
func (l *Learner) adopt(best candidate, rows pool.Batch) (adopted bool, err error) {
	before, was := l.regime, slices.Clone(l.score(rows))
	if err = l.begin(best); err == nil {
		if now := l.score(rows); surelyLower(now, was, l.independent(rows.Len())) {
			l.drift.nll.MoveTo(was, now, float64(l.cfg.Minibatch))
			l.setGate(new(pool.Batch).Sample(l.pool.Batch(), gateRows, int(l.gate.turn), l.cfg.Dim))
			return true, nil
		}
	}
	l.setRegime(before)
	return false, err
}

// begin makes a candidate current.
func (l *Learner) begin(c candidate) error {
	l.use(c.recipe)
	l.cl, l.spare = slices.Clone(c.cl), nil
	return l.findFirstSplit(c.parzen)
}

// score returns −log p of rows under the current metric, NaN for one without a neighbour.
func (l *Learner) score(b pool.Batch) []float64 {
	l.estimator.load(l.pool, l.metric, l.work)
	l.estimator.project(b.X, l.moments.mean)
	scores := l.densities(l.estimator.update(l.exclusion(b)))
	for i, nats := range l.estimator.departures() {
		scores[i] += nats
	}
	return scores
}

// independent returns how many independent rows that number of rows stands for.
func (l *Learner) independent(rows int) float64 {
	if g := l.gap.Rows; g > 1 {
		return min(float64(rows), float64(max(l.counts.Since, uint64(l.pool.Len())))/float64(g))
	}
	return float64(rows)
}

// surelyLower says whether a is below b by two standard errors of their difference, row by row. The rows count as
// independent ones.
func surelyLower(a, b []float64, independent float64) bool {
	mean, squares, n := differences(a, b)
	independent *= n / float64(len(a))
	return independent > 1 && mean < -choiceSurely*math.Sqrt(squares/n/(independent-1))
}

// differences returns the mean of a − b over the n rows that both know, and the sum of the squares from that mean.
func differences(a, b []float64) (mean, squares, n float64) {
	for i := range a {
		if d := a[i] - b[i]; !math.IsNaN(d) {
			n, mean = n+1, mean+d
		}
	}
	mean /= n
	for i := range a {
		if d := a[i] - b[i]; !math.IsNaN(d) {
			squares += float64((d - mean) * (d - mean))
		}
	}
	return mean, squares, n
}

const (
	contestRows    = 1000 // rows of the pool that candidates are fitted to, unless contestColumns asks for more
	contestColumns = 20   // the same per column
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
	learner     *Learner
	free        freedom
	train, rest pool.Batch
	out         outcome
	was         []float64 // scores of the rest under the current metric
	start       candidate // from which other settings begin: the best so far that has a Parzen direction
	least       float64   // its NLL
}

// newContest copies what it needs.
func newContest(l *Learner) *contest {
	d, rows := l.cfg.Dim, l.pool.Len()
	f := &Learner{asked: l.asked, cfg: l.cfg, family: l.family, estimator: newEstimator(l.cfg), counts: l.counts, work: new(linalg.Workspace)}
	f.regime = regime{
		settings: l.settings, pool: l.pool.Clone(), moments: l.moments.clone(), gap: timegap.Fixed(l.gap.Rows), split: true,
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
	return min(pool-pool/contestHoldOut, max(contestRows, contestColumns*dim))
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
	f.Precision, f.MaxIter, f.Tol, f.Seed = l.cfg.Precision, contestSteps, contestGain, pool.Mix(l.cfg.Seed^l.counts.Rows)
	order, window := new(pool.Near).Windows(c.train.Places, c.train.Places, l.gap.Rows)
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
		_, err = l.converge(ctx, c.train, new(Step))
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

// recipe are the settings that the data may choose: they are part of what is learnt.
type recipe struct {
	nu     float64
	unit   lca.Unit
	kernel lca.Kernel
	dof    int // degrees of freedom; 0 unless the kernel is a t
}

// freedom says which settings are left to the data. A setting that was given is obeyed.
type freedom struct {
	red              bool // d_P, by the search of LCA-Gauss-Red
	affine           bool // the unit of ν for this search, with lca.PresetMetric
	gaussian         bool // no Parzen direction at all
	nu, unit, kernel bool
}

// freedom returns what the configuration leaves open, given as it was before Auto was replaced. With
// lca.PresetMetric only d_P is, because a likelihood says little about clusters.
func (c Config) freedom() freedom {
	if c.InnerSteps != lca.Auto || c.Gamma == 0 && c.HalfLifeRows == 0 {
		return freedom{} // the caller counts the steps
	}
	density := c.Preset == lca.PresetDensity
	searched := c.Metric == lca.MetricFull && (c.Kind == lca.KindAuto || c.Kind == lca.KindLCAGaussRed)
	return freedom{
		red:      searched,
		affine:   searched && !density && c.NuUnit == lca.UnitAuto,
		gaussian: density && c.Metric == lca.MetricFull && c.Kind != lca.KindLCA,
		nu:       density && c.Nu == lca.Auto,
		unit:     density && c.NuUnit == lca.UnitAuto,
		kernel:   density && c.Kernel == lca.KernelAuto,
	}
}

// any reports whether something is open.
func (f freedom) any() bool { return f != freedom{} }

// recipes returns what the open settings can become, other than r; t kernels with that many degrees of freedom, 0 for the default.
func (f freedom) recipes(r recipe, dof int) (out []recipe) {
	if !f.kernel {
		dof = r.dof
	}
	nus, units, kernels := []float64{r.nu}, []lca.Unit{r.unit}, []lca.Kernel{r.kernel}
	if f.nu {
		nus = []float64{0.001, 0.01, 0.1}
	}
	if f.unit {
		units = []lca.Unit{lca.UnitCovariance, lca.UnitRelative}
	}
	if f.kernel {
		kernels = []lca.Kernel{lca.KernelGaussian, lca.KernelStudent}
	}
	for _, kernel := range kernels {
		for _, unit := range units {
			for _, nu := range nus {
				other := recipe{nu: nu, unit: unit}
				other.kernel, other.dof = kernel.Resolve(dof)
				if other != r {
					out = append(out, other)
				}
			}
		}
	}
	return out
}

// String names the settings as a trial is named.
func (r recipe) String() string { return fmt.Sprintf("nu %v %v, %v", r.nu, r.unit, r.kernel) }

// recipe returns the current settings.
func (c Config) recipe() recipe { return recipe{c.Nu, c.NuUnit, c.Kernel, c.DOF} }

// use replaces the settings. The metric is then still that of the former ones, unless a split follows.
func (l *Learner) use(r recipe) {
	c := &l.cfg
	kernels := r.kernel != c.Kernel || r.dof != c.DOF
	l.settings, c.Nu, c.NuUnit, c.Kernel, c.DOF = r, r.nu, r.unit, r.kernel, r.dof
	if kernels {
		l.estimator = newEstimator(*c)
	}
}

// write stores the settings that the data may choose.
func (r recipe) write(w *state.Writer) {
	w.F64(r.nu)
	w.U64(uint64(r.unit))
	w.U64(uint64(r.kernel))
	w.Count(r.dof)
}

func readRecipe(r *reader) recipe {
	out := recipe{nu: r.F64(), unit: lca.Unit(r.U64()), kernel: lca.Kernel(r.U64()), dof: int(r.U64())}
	if r.Err == nil && (!(out.nu >= 0) || !known(out.unit, lca.ParseUnit) || !known(out.kernel, lca.ParseKernel) || out.dof < 0 || out.dof > lca.MostDOF ||
		(out.kernel == lca.KernelStudent) != (out.dof > 0)) {
		r.Err = fmt.Errorf("settings %+v", out)
	}
	return out
}

// restore takes the settings of a state, except those that the configuration gives.
func (l *Learner) restore(was recipe) {
	r := l.cfg.recipe()
	if l.free.nu {
		r.nu = was.nu
	}
	if l.free.unit || l.free.affine {
		r.unit = was.unit
	}
	if l.free.kernel {
		r.kernel, r.dof = was.kernel, was.dof
	}
	l.use(r)
}
