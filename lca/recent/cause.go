package recent

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/state"
)

const (
	stepRate   = 1.0 / 1000
	slowRate   = 1.0 / 200
	firstSteps = 20 // rows that the evaluator's deviation stands for in the first mean of steps
	// leastNoise is what steps and deviations are compared with at least, in scales: a column at rest has none.
	leastNoise = 0.05
	noiseShare = 1.5 // of the noise in the rank
	quietBelow = 0.1 // of its noise a column has lost its life; of the first quietTold rows less: by chance one is near the row before …
	quietTold  = 10
	quietWhole = 0.2       // … over a whole episode of more rows than end it: its first and last rows are not quiet
	steady     = 3.0       // … if that is so many standard deviations below its mean
	restRows   = 200       // that a column has hardly moved, of one that did: it is steady, whatever later versions say
	far        = 3.0       // scales of its noise a column has moved: its onset
	moved      = 2.0       // the same of its mean: a direction
	calmRows   = 5         // after which a change that comes is another one; within thirty a column that wanders is far again by itself
	mostRow    = 1 << 20   // rows are counted up to it: it has as many bits as are kept
	causeReach = 1e-5      // least weight of a row in the means of an episode …
	lastRows   = 7         // … and 1/this in those of the last rows: docs/quality.md compares 5 and 10
	driftRate  = 1.0 / 500 // of what a column has moved since the episode began: docs/quality.md

	// A column has changed by itself from this rank on, and from so much more in a single row; is strange to the others from this residual on.
	ownChange    = 2.5
	ownOfARow    = 0.5
	leastStrange = 1.75

	// Another column is told if its rank is above that of the one that was told by movedBy, for movedRows rows running. One that was told before is told again
	// after againRows at the earliest: of two changes that last, each comes first by turns.
	movedBy   = 0.2
	movedRows = 3
	againRows = 50
)

// steps are what is kept of a series' steps from row to row, as long as no episode is open.
type steps struct {
	rows uint32
	last []float64 // x′ − Short, of the last row
	mean []float64 // |x′ − x′ of the row before|
	slow []float64 // mean of x′
}

// Cause is the account of an episode that is open: how its rows differ from those before it.
type Cause struct {
	Rows uint32 // so far

	first uint16 // the column that was told first, and one; 0: none was
	other uint16 // rows in a row that told another one

	before []float64 // the slow mean when it opened, d, not cut: each version cuts it by itself
	all    account   // of its rows, each by how high its score is
	ended  account   // the same of the first of them, up to where it would end if the others are those behind it
	end    uint32    // how many these are
	top    float64   // highest score
	weight float64   // of the rows, the highest score's being 1
	last   account   // the same, of the last ones
	drift  []float64 // slow mean of x′ − before in the episode, from 0

	// Rows, from the first of the episode on; NaN: none.
	onset []float64 // the first in which the column was far away or noisy
	since []float64 // the same, without those before calmRows in which it was not
	far   []float64 // the last in which it was
	rest  []float64 // that it has hardly moved since
	told  []float64 // that were told of it, as the first column, last
}

// A Change is what became of a column.
type Change struct {
	Column      int
	Rank        float64
	Direction   string // up, down, noisy or quiet
	Before, Now float64
	Onset       int // rows from the first of the episode, less than 0: before it

	lately float64 // its rank if x′ is compared with the slow mean of the episode
	still  bool    // it has next to no noise: it is quiet, or so far away that it is cut
}

// Account takes row i of the last call of Score, of that series, into account: into what is known of the steps of the series, or, while an episode
// is open, into its cause, by the row's score. It returns the cause, nil: there is no episode.
func (c *Scorer) Account(e *Evaluator, i int, s *Series, open bool, score float64, cause *Cause) *Cause {
	d := e.Dim
	x, z := c.x[i*d:][:d], c.z[3*d*i:][:3*d]
	if !open {
		cause = nil
	} else if cause == nil || len(cause.before) != d { // what others have written has any width
		cause = newCause(e, x, z, s.steps.slow)
	}
	if cause != nil {
		c.residuals(e, x, z, cause)
	}
	s.steps.follow(e, x, z, cause, c.counts[i], c.before, c.residual, score)
	return cause
}

// residuals sets before to what each column was before the episode, as this version cuts it, and residual to how far each column has moved away from what the others tell of it, in deviations: with P the inverse of their covariance,
// (P u)ₖ / √Pₖₖ, u from what was before the episode. A null has not moved. A single row says little: of the first it is that of the short means.
func (c *Scorer) residuals(e *Evaluator, x, z []float64, cause *Cause) {
	d := e.Dim
	f := e.Row.Factor
	c.before = linalg.Resize(c.before, d)
	for k, v := range cause.before {
		c.before[k] = e.cut(k, v)
	}
	if cause.Rows == 0 && e.charted() {
		x, f = z[:d], e.Charts.Factor[:d*(d+1)/2] // the factor of the first columns alone is where that of all begins
	}
	c.distances(e, &Gaussian{Mean: c.before, Factor: f}, x, d, 0, 1) // y = F u
	c.residual, c.units = linalg.Resize(c.residual, d), linalg.Resize(c.units, d)
	clear(c.residual)
	clear(c.units)
	for i, y := range c.y[:d] {
		for k, v := range f[:i+1] {
			c.residual[k] = math.FMA(float64(v), y, c.residual[k])
			c.units[k] = math.FMA(float64(v), float64(v), c.units[k])
		}
		f = f[i+1:]
	}
	for k, p := range c.units {
		c.residual[k] /= math.Sqrt(p)
	}
}

// follow takes the next row; rows are those of the series with it. What was before, and residuals, are looked at in an episode alone.
func (s *steps) follow(e *Evaluator, x, z []float64, cause *Cause, rows uint32, before, residual []float64, score float64) {
	d := e.Dim
	if len(s.last) != d {
		memory := make([]float64, 3*d)
		*s = steps{last: memory[:d:d], mean: memory[d : 2*d : 2*d], slow: memory[2*d:]}
		for k := range d {
			s.last[k], s.mean[k], s.slow[k] = math.NaN(), state.Round(e.Charts.Mean[2*d+k]), z[d+k]
		}
	}
	short, rate, slow, share := max(shortRate, 1/float64(rows)), 0., 0., 0.
	if cause != nil {
		share = cause.share(score)
	} else {
		s.rows = min(s.rows+1, 1/stepRate)
		rate = max(stepRate, 1/float64(s.rows+firstSteps))
		slow = max(slowRate, 1/float64(s.rows+firstSteps))
	}
	for k, v := range x {
		if v != v {
			continue
		}
		away := v - z[k] // (1−r) times as far as from the mean before
		step := math.Abs(away/(1-short) - s.last[k])
		if step != step {
			step = s.mean[k]
		}
		s.last[k] = state.Round(away)
		if cause == nil {
			s.mean[k] = state.Round(s.mean[k] + float64(rate*(step-s.mean[k])))
			if s.slow[k] != s.slow[k] {
				s.slow[k] = v
			}
			s.slow[k] += float64(slow * (v - s.slow[k]))
			continue
		}
		cause.add(e, k, v-before[k], away, step, s.mean[k], residual[k], share)
	}
}

func newCause(e *Evaluator, x, z, slow []float64) *Cause {
	d := e.Dim
	c := &Cause{before: make([]float64, d), all: newAccount(d), ended: newAccount(d), last: newAccount(d), drift: make([]float64, d), onset: unknown(d), since: unknown(d), far: unknown(d), rest: unknown(d), told: unknown(d)}
	for k := range d {
		short, long := z[k], z[d+k]
		if long != long {
			long = e.Centre[k]
			short = long
		}
		c.before[k] = long
		if len(slow) == d && slow[k] == slow[k] {
			c.before[k] = slow[k]
		}
		c.before[k] = e.uncut(k, c.before[k])
		c.onset[k] = began(e, k, x[k], short, long)
		if c.since[k] = c.onset[k]; c.since[k] == c.since[k] {
			c.far[k] = 0
		}
	}
	return c
}

// began is when a step began that has taken a column from its long mean to x, in rows from this one on: of a step k rows ago the long mean has yet to
// go (1−r₂)^k, the short one (1−r₁)^k.
func began(e *Evaluator, k int, x, short, long float64) float64 {
	noise := max(leastNoise*e.Scale[k], e.Charts.Mean[2*e.Dim+k])
	if !(math.Abs(short-long) > far*noise) || !((x-long)*(short-long) >= 0) { // a null tells nothing
		return math.NaN()
	}
	rows := math.Log(math.Abs(x-long)/max(math.Abs(x-short), noise)) / math.Log((1-longRate)/(1-shortRate))
	return 1 - math.Round(min(max(rows, 1), 40))
}

// unknown are d NaNs.
func unknown(d int) []float64 { return slices.Repeat([]float64{math.NaN()}, d) }

// rowOf is a row that may be none.
func rowOf(row float64, none int) int {
	if row != row {
		return none
	}
	return int(row)
}

// Columns returns the number of columns.
func (c *Cause) Columns() int { return len(c.before) }

// share counts a row, and returns its weight in the means of the episode.
func (c *Cause) share(score float64) float64 {
	c.Rows = min(c.Rows, math.MaxUint32-1) + 1
	if score = min(score, math.MaxFloat64); !(score > 0) {
		score = 0
	}
	if score > c.top {
		c.weight, c.top = float64(c.weight*power(c.top/score)), score
	}
	w := 1.
	if c.top > 0 {
		w = power(score / c.top)
	}
	c.weight += w
	return max(w/c.weight, causeReach)
}

// power is the fourth: docs/quality.md compares others.
func power(x float64) float64 { x *= x; return x * x }

// add takes a number of a row: how far x′ is from what was before, from its mean, from the row before, and from what the other columns tell of it.
func (c *Cause) add(e *Evaluator, k int, moved, away, step, steps, residual, share float64) {
	scale, typical := e.Scale[k], e.Charts.Mean[2*e.Dim+k]
	least := leastNoise * scale
	noise := (step/max(steps, least) + math.Abs(away)/max(typical, least)) / 2
	c.all.add(k, share, noise, moved, 0, scale, residual)
	c.last.add(k, max(1/float64(c.Rows), 1./lastRows), noise, moved, c.drift[k], scale, residual)
	c.drift[k] = state.Round(c.drift[k] + float64(driftRate*(moved-c.drift[k])))
	c.dates(k, math.Abs(moved) > far*max(typical, least) || noise > far, steps > least && step < quietWhole*steps)
}

// dates follows since when column k has been as it is: far from what it was, or noisy; or at rest.
func (c *Cause) dates(k int, away, rests bool) {
	row := float64(min(c.Rows-1, mostRow))
	switch {
	case away:
		c.far[k] = row
		for _, began := range []*float64{&c.onset[k], &c.since[k]} {
			if *began != *began {
				*began = row
			}
		}
	case row-c.far[k] >= calmRows:
		c.since[k] = math.NaN()
	}
	if !rests {
		c.rest[k] = math.NaN()
	} else if c.rest[k] != c.rest[k] {
		c.rest[k] = row
	}
}

// Ends says that the episode ends with the last row that was taken into account, if those to come are no part of it.
func (c *Cause) Ends() {
	c.end = c.Rows
	for i, v := range c.all.lists() {
		copy(*c.ended.lists()[i], *v)
	}
}

// Ranked returns the columns with values in the episode that have changed most, in order. A column has changed by itself by
//
//	1.5 log(1 + noise) + log(1 + rms (x′ − before)/scale)
//
// and a steady one that has gone quiet, by how far below its usual noise it is. Where none has, and one is strange to the
// others, a relation has broken: they are in the order of their rms residuals.
func (c *Cause) Ranked(e *Evaluator, most int) []Change {
	quiet := quietOf(c.end)
	if c.end > quietRows {
		quiet = quietWhole
	}
	all, own := c.changes(e, &c.ended, c.end, quiet)
	if !own {
		broken(&c.ended, all)
	}
	return ranked(all, most)
}

// Now is Ranked of the last rows alone. As columns that have changed for good are part of a long episode, they are ranked by x′ less its slow mean
// in the episode, if one has changed by that. The first of them is what Moved compares with from now on.
func (c *Cause) Now(e *Evaluator, most int) []Change {
	all, _ := c.lately(e)
	all = ranked(all, most)
	if c.first, c.other = 0, 0; len(all) > 0 {
		c.first = uint16(all[0].Column) + 1
		c.told[all[0].Column] = float64(min(c.Rows, mostRow))
	}
	return all
}

// Moved reports whether another column than the one that Now has returned first has changed most in the last rows, and for some rows running. Where none has
// changed much, as behind a fault, it is by chance that one is first. It is asked once for a row.
func (c *Cause) Moved(e *Evaluator) bool {
	told, most, top := math.Inf(-1), math.Inf(-1), 0
	all, changed := c.lately(e)
	for _, one := range all {
		if one.Rank > most {
			most, top = one.Rank, one.Column
		}
		if one.Column+1 == int(c.first) {
			told = one.Rank
		}
	}
	if changed && most > told+movedBy && !(float64(c.Rows)-c.told[top] < againRows) {
		c.other = min(c.other, movedRows) + 1
	} else {
		c.other = 0
	}
	return c.other >= movedRows
}

// lately returns the changes of the last rows, and whether a column has changed by itself, or a relation has broken.
func (c *Cause) lately(e *Evaluator) (changes []Change, changed bool) {
	rows := min(c.Rows, lastRows)
	changes, own := c.changes(e, &c.last, rows, quietOf(rows))
	for _, one := range changes {
		if changed = one.changed(one.lately, rows); changed {
			break
		}
	}
	if !changed {
		return changes, own || broken(&c.last, changes)
	}
	for i := range changes {
		changes[i].Rank = changes[i].lately
	}
	return changes, true
}

// quietOf is below which noise a column of a few rows has lost its life.
func quietOf(rows uint32) float64 { return quietBelow * min(1, float64(rows)/quietTold) }

func ranked(changes []Change, most int) []Change {
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(b.Rank, a.Rank) })
	return changes[:min(most, len(changes))]
}

// changes are what became of the columns with values, by an account and its number of rows, and whether one has changed by itself.
func (c *Cause) changes(e *Evaluator, a *account, rows uint32, quiet float64) (changes []Change, own bool) {
	for k := range c.before {
		if a.noise[k] != a.noise[k] {
			continue
		}
		one := c.change(e, a, k, quiet)
		own = own || one.changed(one.Rank, rows)
		changes = append(changes, one)
	}
	return changes, own
}

// changed reports whether a column has changed by itself, if that is its rank after a number of rows.
func (c *Change) changed(rank float64, rows uint32) bool {
	return c.still || rank >= ownChange+ownOfARow/math.Sqrt(float64(rows))
}

// broken reports whether a relation has broken, and ranks the columns by how far they are from what the others tell of them then.
func broken(a *account, changes []Change) bool {
	strangest := 0.
	for _, one := range changes {
		strangest = max(strangest, a.strange[one.Column])
	}
	if !(strangest > leastStrange*leastStrange) {
		return false
	}
	for i := range changes {
		changes[i].Rank = math.Sqrt(a.strange[changes[i].Column])
	}
	return true
}

// change is what became of column k by itself.
func (c *Cause) change(e *Evaluator, a *account, k int, quiet float64) Change {
	late, mean := a.rms[k]/e.Scale[k], a.mean[k]/e.Scale[k]
	rms := late
	if a == &c.last {
		drift := c.drift[k] / e.Scale[k]
		rms = math.Sqrt(max(float64(late*late)+float64(drift*(2*mean-drift)), float64(mean*mean))) // of (x′ − before)² again, as if drift were the same in all its rows
	}
	own := noiseShare * math.Log1p(a.noise[k])
	one := Change{Column: k, Rank: own + math.Log1p(rms), lately: own + math.Log1p(late), Before: c.before[k]}
	rest := 0.
	if one.Onset = rowOf(c.onset[k], 0); a == &c.last {
		one.Onset, rest = rowOf(c.since[k], 0), c.rest[k]
	} else if one.Onset >= int(c.end) { // it began behind the end
		one.Onset = 0
	}
	is := e.cut(k, c.before[k]) + a.mean[k]
	one.Now = e.uncut(k, is)
	typical := e.Charts.Mean[2*e.Dim+k]
	if a.noise[k] < quiet && typical > leastNoise*e.Scale[k] {
		below := (1 - a.noise[k]) * typical / (e.Scale[k] * e.deviationOf(k))
		if a == &c.last && float64(c.Rows)-c.rest[k] >= restRows {
			below = max(below, steady)
		}
		if below >= steady {
			more := noiseShare * math.Log1p(below)
			one.Rank, one.lately, one.still = one.Rank+more, one.lately+more, true
			if one.Now == is { // what is cut says nothing of its noise
				one.Direction, one.Onset = "quiet", rowOf(rest, int(c.Rows-min(c.Rows, lastRows)))
				return one
			}
		}
	}
	switch noise := max(typical/e.Scale[k], leastNoise); {
	case math.Abs(mean) < moved*noise && a.noise[k] > 1, math.Abs(mean) < rms/2:
		one.Direction = "noisy"
	case mean < 0:
		one.Direction = "down"
	default:
		one.Direction = "up"
	}
	return one
}

// deviationOf returns the standard deviation of v of column k, in scales: Σ = F⁻¹ F⁻ᵀ, of which only row k of F⁻¹ is needed. It is asked for at each row of an
// episode with a quiet column.
func (e *Evaluator) deviationOf(k int) float64 {
	at := func(i, j int) float64 { return float64(e.Deviations.Factor[i*(i+1)/2+j]) }
	row, squares := make([]float64, k+1), 0. // u F = eₖ, by backward substitution
	for j := k; j >= 0; j-- {
		sum := 0.
		if j == k {
			sum = 1
		}
		for i := j + 1; i <= k; i++ {
			sum -= float64(row[i] * at(i, j))
		}
		row[j] = sum / at(j, j)
		squares += float64(row[j] * row[j])
	}
	return math.Sqrt(squares)
}

// Clone returns a copy that shares nothing; nil of nil.
func (c *Cause) Clone() *Cause {
	if c == nil {
		return nil
	}
	clone := *c
	clone.before, clone.all, clone.ended, clone.last = slices.Clone(c.before), c.all.clone(), c.ended.clone(), c.last.clone()
	for i, v := range c.halves() {
		*clone.halves()[i] = slices.Clone(*v)
	}
	return &clone
}

// halves are the lists of which the upper halves of numbers are kept.
func (c *Cause) halves() [6]*[]float64 {
	return [6]*[]float64{&c.drift, &c.onset, &c.since, &c.far, &c.rest, &c.told}
}

// AppendBinary appends the cause, 80 bytes for each column.
func (c *Cause) AppendBinary(b []byte) ([]byte, error) {
	w := state.Writer{B: b}
	w.U64(uint64(c.Rows) | uint64(c.first)<<32 | uint64(c.other)<<48)
	w.U64(uint64(c.end))
	w.Floats([]float64{c.top, c.weight})
	w.Floats(c.before)
	c.all.write(&w)
	c.ended.write(&w)
	c.last.write(&w)
	for _, v := range c.halves() {
		w.Halves(*v)
	}
	return w.B, nil
}

// ReadCause reads what AppendBinary wrote, and returns what follows it.
func ReadCause(b []byte) (c *Cause, rest []byte, err error) {
	r := &state.Reader{B: b}
	rows, end := r.U64(), r.U64()
	c = &Cause{Rows: uint32(rows), first: uint16(rows >> 32), other: uint16(rows >> 48), end: uint32(end)}
	if total := r.Floats(); len(total) != 2 || !(total[0] >= 0) || !(total[1] >= 0) {
		r.Fail(errors.New("no weights of an account"))
	} else {
		c.top, c.weight = total[0], total[1]
	}
	c.before = r.Floats()
	c.all.read(r, len(c.before))
	c.ended.read(r, len(c.before))
	c.last.read(r, len(c.before))
	for _, v := range c.halves() {
		if *v = r.Halves(); len(*v) != len(c.before) {
			r.Fail(fmt.Errorf("%d numbers of %d columns", len(*v), len(c.before)))
		}
	}
	return c, r.B, failed(r, "cause")
}
