package recent

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

const (
	halfLife = 70_000 // rows, of the moments
	memory   = halfLife / math.Ln2

	guardsAfter = 14_000 // rows after which rows have weights, in a stream that Settle was not called for

	firstEvaluator = 32
	lastOfItsOwn   = 64   // up to here evaluators are frozen within minibatches: the first that is fit for use must know scores of those before it
	evaluatorEvery = 1000 // from 1000 rows on; below, at the powers of two

	leastShrinkage = 0.002
	mostGrowth     = 1.05 // of a scale from one evaluator to the next, once settled: a fault must not widen the cut that keeps it out

	// A column whose variance is below this share of its squared mean is constant, whatever its unit. Its scale is a hundredth of its level; of one that was 0 alone
	// nothing says what its unit is.
	constantVariance = 1e-12
	constantShare    = 0.01
	scaleOfZero      = 1e-3
	leastDeviation   = 1e-95 // its square is prop1.LeastVariance

	scoresMemory = 20_000 // rows that the histograms stand for at most
	scoresShare  = 5      // and at most a fifth of those learnt: the scores of a young evaluator are higher

	chartsAfter = 4000 // rows, by their weights, from which on charts are known, and before, if they are half of all

	mostAfter   = 1000 // rows learnt, from which on the highest peak says how high they go
	heldAfter   = 1000 // rows learnt, from which on runs are held
	judgedAfter = 400  // … and rows judged: where the rows of many series come in no order, the first series that are old enough for that are few, and do not tell how high others go
	keptFor     = 2.5  // a tail is kept behind a fault until this times the rows that it is of have been judged: as many again as it was learnt from
	heldFar     = 10   // T²/3d, above which rows of a run that is held are not learnt at all, and have a weight before Settle, too
)

// Learner learns evaluators from the rows of a stream. What it learns depends on the rows, their series and their order, and on where minibatches
// end. It is not safe for concurrent use.
type Learner struct {
	dim     int
	learnt  uint64
	settled bool
	normal  bool    // see Normal
	charts  moments // of z
	rows    moments // of x′
	scores  Distribution
	first   Distribution
	peaks   peaks
	start   float64 // of runs of scores, by the newest evaluator
	usual   float64 // score up to which rows are usual where they are held
	held    float64 // level of runs that are held, by the newest evaluator
	left    float64 // … whose rows are not learnt however near they are
	newest  *Evaluator
	scorer  Scorer

	accepted []Acceptance
	turn     uint64  // acceptances so far
	joined   uint64  // series that were accepted among others
	others   float64 // weights of the rows of all others
	holds    []bool  // of the rows learnt last: see Held

	values, weights, charted, spread []float64
}

// NewLearner returns a learner of rows with dim columns.
func NewLearner(dim int) *Learner {
	return &Learner{dim: dim, charts: newMoments(3 * dim), rows: newMoments(dim)}
}

// Resume returns a learner that goes on from an evaluator: it scores with it at once, and what it has learnt is what the evaluator knows of it. The evaluator
// of which that cannot be told, because its numbers are none, gives one that begins.
func Resume(e *Evaluator) *Learner {
	l := &Learner{dim: e.Dim, learnt: e.Learnt, settled: e.Settled, scores: e.Scores.copy(), first: e.First.copy(), peaks: e.Tail.peaks()}
	l.use(e)
	l.accepted, l.turn = e.Accepted, e.Turn
	l.charts, l.rows = newMoments(3*e.Dim), e.Row.moments(e, &l.scorer.work)
	if e.charted() {
		l.charts = e.Charts.moments(e, &l.scorer.work)
	}
	for _, v := range slices.Concat(l.charts.mean, l.charts.cov, l.rows.mean, l.rows.cov) {
		if v-v != 0 {
			return NewLearner(e.Dim)
		}
	}
	return l
}

// moments returns the moments of which the distribution is, as those of the evaluator's rows.
func (g *Gaussian) moments(e *Evaluator, work *linalg.Workspace) moments {
	p := len(g.Mean)
	m := newMoments(p)
	m.count = min(float64(e.Learnt), memory)
	m.total = m.count
	copy(m.mean, g.Mean)
	root := make([]float64, p*p) // L, with Σ = L Lᵀ in scales
	for i := range p {
		root[i*p+i] = 1
	}
	work.SolveLeft(linalg.Dense(g.spread(nil), p), root, p, p, p)
	for i := range p {
		for k := range p {
			root[i*p+k] *= e.Scale[i%e.Dim]
		}
	}
	work.Product(m.cov, p, linalg.Dense(root, p), linalg.Dense(root, p).T(), p, p, p, linalg.Set)
	return m
}

// Learnt returns the number of rows learnt.
func (l *Learner) Learnt() uint64 { return l.learnt }

// Evaluator returns the newest evaluator, nil as long as there is none with LeastRows behind it.
func (l *Learner) Evaluator() *Evaluator {
	if l.newest == nil || l.newest.Learnt < LeastRows(l.dim) {
		return nil
	}
	return l.newest
}

// Learn scores the rows, n×d, each as the next one of its series, and then learns them. A row with a NaN, for a null, moves its series on as it does for
// a Scorer, and is not learnt. The series are the learner's own: a Scorer that scores the same rows moves others on.
func (l *Learner) Learn(rows []float64, series []*Series) {
	l.holds = l.holds[:0]
	for mark := uint64(firstEvaluator); mark <= lastOfItsOwn; mark *= 2 {
		for l.learnt < mark && len(series) > 0 {
			n := min(int(mark-l.learnt), len(series))
			l.learn(rows[:n*l.dim], series[:n])
			rows, series = rows[n*l.dim:], series[n:]
		}
	}
	l.learn(rows, series)
}

// Held says of each row that was learnt last whether its series is unusual with it, and has been for a while or may yet be: from where only one in
// eight of the runs of high scores gets that a stream makes by itself, until its rows are usual again.
func (l *Learner) Held() []bool { return l.holds }

// learn learns rows that no evaluator comes between.
func (l *Learner) learn(rows []float64, series []*Series) {
	n, d, judged := len(series), l.dim, len(l.holds)
	if n == 0 {
		return
	}
	l.scorer.follow(l.newest, rows, series)
	l.weights = linalg.Resize(l.weights, n)
	learnt := uint64(0)
	for i := range l.weights {
		l.weights[i] = 0
		if fillNulls(l.scorer.x[i*d:][:d], l.rows.mean) {
			fillNulls(l.scorer.z[3*d*i:][:3*d], l.charts.mean) // a weight of 0 does not rid sums of NaN
			continue
		}
		l.weights[i] = 1
		learnt++
	}
	if l.newest != nil {
		l.judge(series)
	}
	for len(l.holds) < judged+n { // without an evaluator none is
		l.holds = append(l.holds, false)
	}
	l.rows.add(l.scorer.x, l.weights, l.memory(), &l.scorer.work)
	for i, rows := range l.scorer.counts {
		if rows <= unlike {
			l.weights[i] = 0
		}
	}
	l.charts.add(l.scorer.z, l.weights, l.memory(), &l.scorer.work)
	before := l.learnt
	l.learnt += learnt
	if l.learnt >= guardsAfter {
		l.settled = true
	}
	if least := LeastRows(d); due(before, l.learnt) || before < least && least <= l.learnt {
		l.freeze()
	}
}

// Pass moves series on by rows as Learn does, and learns nothing.
func (l *Learner) Pass(rows []float64, series []*Series) { l.scorer.follow(l.newest, rows, series) }

// fillNulls replaces nulls by the means of their columns, and reports whether there are any.
func fillNulls(x, mean []float64) (any bool) {
	for k, v := range x {
		if v != v {
			x[k], any = mean[k], true
		}
	}
	return any
}

// judge counts the scores of the rows that have a weight, and sets it.
func (l *Learner) judge(series []*Series) {
	e, c := l.newest, &l.scorer
	n, d := len(series), l.dim
	l.values = linalg.Resize(l.values, 2*n)
	first, others := l.values[:0:n], l.values[n:n]
	l.charted = append(l.charted[:0], c.distances(e, &e.Charts, c.z, 3*d, 0, n)...)
	l.spread = append(l.spread[:0], c.distances(e, &e.Deviations, c.z, 3*d, 2*d, n)...)
	for i, t := range c.distances(e, &e.Row, c.x, d, 0, n) {
		if l.weights[i] == 0 {
			l.holds = append(l.holds, series[i].hold.Open)
			continue
		}
		first = append(first, logShare(t, d))
		share, far, leave := t/float64(d), false, false
		if c.counts[i] > FirstRows && e.charted() {
			share = l.charted[i] / float64(3*d)
			score := together(l.charted[i], l.spread[i], d)
			counted := l.start > leastScore
			if counted {
				l.peaks.follow(&series[i].run, score, l.start, l.held)
			}
			if l.holding() {
				series[i].hold.follow(score, l.held, l.usual)
			}
			far = share > heldFar && l.holding() && (l.settled || !l.normal)
			strange := l.settled && series[i].hold.Open && series[i].run.peak+leastScore > l.left
			leave = (far || strange) && counted && series[i].run.held(l.learnt)
			if leave {
				l.peaks.withdraw(&series[i].run)
			} else {
				others = append(others, score)
			}
		}
		l.holds = append(l.holds, series[i].hold.Open)
		switch {
		case leave:
			l.weights[i] = 0
		case share > 1 && (l.settled || far):
			l.weights[i] = 1 / (share * share)
		}
		l.weights[i] = l.weigh(series[i], l.weights[i])
	}
	keep := min(scoresMemory, max(float64(l.learnt)/scoresShare, firstEvaluator))
	l.first.add(first, keep)
	l.scores.add(others, keep)
}

// holding reports whether runs may be held.
func (l *Learner) holding() bool { return l.learnt >= heldAfter && l.peaks.judged >= judgedAfter }

// due says whether an evaluator is frozen between two numbers of rows.
func due(before, after uint64) bool {
	if after >= evaluatorEvery {
		return after/evaluatorEvery > before/evaluatorEvery
	}
	for mark := uint64(firstEvaluator); mark < evaluatorEvery; mark *= 2 {
		if before < mark && mark <= after {
			return true
		}
	}
	return false
}

// Normal says whether the rows to come are known to be normal: a young learner holds none of them, however far they are. It is no part of the state.
func (l *Learner) Normal(are bool) { l.normal = are }

// Settle says that the rows so far are a normal stretch: what comes is judged by them, and changes the moments slowly. It freezes an evaluator.
func (l *Learner) Settle() {
	if l.learnt == 0 {
		return
	}
	l.settled = true
	l.charts.count, l.rows.count = max(l.charts.count, memory), max(l.rows.count, memory)
	l.freeze()
}

// use makes an evaluator the newest.
func (l *Learner) use(e *Evaluator) {
	l.newest, l.start = e, e.Scores.runStart()
	l.hold(&e.Tail, e.Usual())
}

// hold sets from where on runs are held, and their rows not learnt, by how high peaks were in their time: of a young stream more is learnt. Rows whose scores are
// up to usual end a hold.
func (l *Learner) hold(t *Tail, usual float64) {
	l.held, l.left, l.usual = t.reachedBy(heldShare), t.reachedBy(leftShare), usual
}

// freeze makes the evaluator of what has been learnt.
func (l *Learner) freeze() {
	d, was := l.dim, l.newest
	if l.rows.total < 2 {
		return
	}
	e := &Evaluator{Dim: d, Learnt: l.learnt, Settled: l.settled, Turn: l.turn, Accepted: l.accepted, Centre: make([]float64, d), Scale: make([]float64, d), Constant: make([]bool, d)}
	for k := range d {
		mean, variance := l.rows.mean[k], l.rows.cov[k*d+k]
		c, s := mean, math.Sqrt(variance)
		if e.Constant[k] = variance <= max(constantVariance*mean*mean, prop1.LeastVariance); e.Constant[k] {
			if s = scaleOfZero; mean != 0 {
				s = max(constantShare*math.Abs(mean), leastDeviation)
			}
		}
		if was != nil && was.Settled {
			s = min(max(s, was.Scale[k]/mostGrowth), was.Scale[k]*mostGrowth)
			reach := (mostGrowth - 1) * s
			c = min(max(c, was.Centre[k]-reach), was.Centre[k]+reach)
			e.Constant[k] = was.Constant[k]
		}
		e.Centre[k], e.Scale[k] = c, s
	}
	work := &l.scorer.work
	if l.fewCharts() {
		e.uncharted()
	} else {
		e.Charts = l.charts.gaussian(e.Scale, 0, 3*d, work)
		e.Deviations = l.charts.gaussian(e.Scale, 2*d, 3*d, work)
	}
	e.Row = l.rows.gaussian(e.Scale, 0, d, work)
	e.Scores, e.First = l.scores.copy(), l.first.copy()
	start := e.Scores.runStart()
	e.Tail = l.peaks.tail(start, &e.Scores, func(p peak) float64 { return p.height(start) })
	then := l.peaks.tail(start, &e.Scores, func(p peak) float64 { return p.score })
	usual := e.Usual()
	if was != nil && l.learnt > mostAfter && e.Tail.Peaks < 2 && was.Tail.Peaks >= 2 && float64(l.peaks.judged) <= keptFor*was.Tail.Rows {
		// The first rows of a fault are a large share of the scores of a young stream: runs then begin above nearly all that it makes by itself, and rows would
		// tell how high the fault was. What is held is told by them all the same, or regimes that come later would be held for good.
		e.Tail = was.Tail
	}
	switch {
	case l.learnt < mostAfter:
		e.Tail.Most, then.Most = 0, 0
	case l.peaks.judged < judgedAfter:
		e.Tail.Peaks, e.Tail.Most, then.Most = 0, 0, 0 // nothing passes
	}
	l.use(e)
	l.hold(&then, usual)
}

// fewCharts reports whether the charts of series are not known: of those that are old enough there are few, which do not tell what the others are like. Where
// most series stay young for good, those of the others are known by enough rows.
func (l *Learner) fewCharts() bool {
	return l.charts.total < 2 || l.charts.total < chartsAfter && l.charts.total < (l.rows.total-unlike)/2
}

// uncharted says that the charts are not known: means are at the centre, and deviations as large as the scales.
func (e *Evaluator) uncharted() {
	d := e.Dim
	e.Charts = Gaussian{Mean: slices.Concat(e.Centre, e.Centre, e.Scale), Factor: make([]float32, 3*d*(3*d+1)/2)}
	e.Deviations = Gaussian{Mean: e.Charts.Mean[2*d:], Factor: make([]float32, d*(d+1)/2)}
	for i := range d {
		e.Deviations.Factor[i*(i+3)/2] = 1
	}
}

// moments are exponentially weighted means and covariances of rows with weights.
type moments struct {
	mean, cov []float64 // p, p×p on and below the diagonal
	count     float64   // rows that they stand for; where settled, as many even if fewer came
	total     float64   // rows that came, by their weights

	centre, centred, moved, units []float64
}

func newMoments(p int) moments {
	return moments{mean: make([]float64, p), cov: make([]float64, p*p)}
}

// add lets rows have their share w of the moments, which stand for at most that number (Chan, Golub, LeVeque 1979):
//
//	C ← (1−w) C + w C_x + w(1−w)(μ_x−μ)(μ_x−μ)ᵀ,   μ ← μ + w(μ_x−μ)
func (m *moments) add(rows, weights []float64, most float64, work *linalg.Workspace) {
	p := len(m.mean)
	sum := 0.
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		return
	}
	m.centre, m.centred = linalg.Resize(m.centre, p), linalg.Resize(m.centred, len(rows))
	for k := range m.centre { // about the mean as it was, which keeps the digits of large levels
		m.centre[k] = 0
	}
	for i, w := range weights {
		row := rows[i*p:][:p]
		if w == 1 {
			kernel.AddDiff(m.centre, row, m.mean)
			continue
		}
		mean, centre := m.mean[:p], m.centre[:p]
		for k, v := range row {
			centre[k] += float64(w * (v - mean[k]))
		}
	}
	for k := range m.centre {
		m.centre[k] = m.mean[k] + m.centre[k]/sum
	}
	m.count, m.total = min(m.count+sum, max(most, sum)), m.total+sum
	w := sum / m.count
	cross := float64(w * (1 - w))
	m.moved = linalg.Resize(m.moved, p)
	kernel.SubScale(m.moved, m.mean, m.centre, 1)
	for i, r := range m.moved {
		kernel.Fade(m.cov[i*p:][:i+1], m.moved[:i+1], 1-w, cross*r)
	}
	for i, weight := range weights {
		kernel.SubScale(m.centred[i*p:][:p], rows[i*p:][:p], m.centre, math.Sqrt(weight*(w/sum)))
	}
	work.AddGram(m.cov, m.centred, len(weights), p)
	for k := range p {
		m.mean[k] += float64(w * (m.centre[k] - m.mean[k]))
	}
}

// join lets rows have a share w of the moments, on top of what is known of others, so that those look no more unusual than before:
//
//	C ← C + w C_x + w(1−w)(μ_x−μ)(μ_x−μ)ᵀ,   μ ← μ + w(μ_x−μ)
//
// Where they are as far from each other as they please, T² of both is p in the mean if w = ½.
func (m *moments) join(rows, weights []float64, w, most float64, work *linalg.Workspace) {
	sum := 0.
	for _, v := range weights {
		sum += v
	}
	if sum == 0 {
		return
	}
	each := w * min(m.count/(1-w), most) / sum
	for i := range weights {
		weights[i] *= each
	}
	for k := range m.cov {
		m.cov[k] /= 1 - w
	}
	m.add(rows, weights, most, work)
}

// gaussian returns the distribution of the numbers from…to, shrunk towards the sphere in units of the scales:
//
//	Σ̂ = (1−a) Σ + a t I,  t = tr Σ / p,  a = max(0.002, ((tr Σ)² + |Σ|²) / (n |Σ − t I|²)) ≤ 1
func (m *moments) gaussian(scale []float64, from, to int, work *linalg.Workspace) Gaussian {
	all, p := len(m.mean), to-from
	c := make([]float64, p*p)
	m.units = linalg.Resize(m.units, p)
	units := m.units
	for i := range units {
		units[i] = scale[(from+i)%len(scale)]
	}
	trace, squares := 0., 0.
	for i := range p {
		of := m.cov[(from+i)*all+from:][:i+1]
		for j, v := range of {
			v /= units[i] * units[j]
			c[i*p+j] = v
			if squares += float64(v * v); i != j {
				squares += float64(v * v)
			}
		}
		trace += c[i*p+i]
	}
	t := max(trace/float64(p), 1e-3)
	away := squares - float64(2*t*trace) + float64(float64(p)*t*t)
	a := min(1, max(leastShrinkage, (float64(trace*trace)+squares)/(min(m.total, memory)*max(away, 1e-12))))
	for i := range p {
		for j := range i + 1 {
			c[i*p+j] *= 1 - a
		}
		c[i*p+i] += float64(a*t) + 1e-9
	}
	g := Gaussian{Mean: append([]float64(nil), m.mean[from:to]...), Factor: make([]float32, p*(p+1)/2)}
	if err := work.CholeskyLower(c, p); err != nil { // with the ridge only numbers that overflow lead here
		for i := range p {
			g.Factor[i*(i+3)/2] = 1
		}
		return g
	}
	inverse := make([]float64, p*p)
	for i := range p {
		inverse[i*p+i] = 1
	}
	work.SolveLeft(linalg.Dense(c, p), inverse, p, p, p)
	packed := g.Factor[:0]
	for i := range p {
		for _, v := range inverse[i*p:][:i+1] {
			packed = append(packed, float32(v))
		}
	}
	return g
}
