package recent

import (
	"cmp"
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
	steady     = 3.0  // … if that is so many standard deviations below its mean
	far        = 3.0  // scales of its noise a column has moved: its onset
	moved      = 2.0  // the same of its mean: a direction
	causeReach = 1e-5 // least weight of a row in the means of an episode
	unknown    = math.MinInt16

	// A column has changed by itself from this rank on, and from so much more in a single row; is strange to the others from this residual on.
	ownChange    = 2.5
	ownOfARow    = 0.5
	leastStrange = 1.75
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

	before  []float64 // the long mean when it opened, d, its upper 48 bits; the lowest 16 are the onset
	noise   []float64 // mean of half the step and half the deviation, each by what it is without an episode; NaN: no value yet
	rms     []float64 // root of the mean of (x′ − before)², in the column's own unit, as the scale is another in each version
	mean    []float64 // mean of x′ − before
	strange []float64 // mean of the squared residual of x′ given the other columns, by its variance
}

// A Change is what became of a column.
type Change struct {
	Column      int
	Rank        float64
	Direction   string // up, down, noisy or quiet
	Before, Now float64
	Onset       int // rows from the first of the episode, less than 0: before it
}

// Account takes row i of the last call of Score, of that series, into account: into what is known of the steps of the series, or, while an episode
// is open, into its cause. It returns the cause, nil: there is no episode.
func (c *Scorer) Account(e *Evaluator, i int, s *Series, open bool, cause *Cause) *Cause {
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
	s.steps.follow(e, x, z, cause, c.counts[i], c.residual)
	return cause
}

// residuals sets residual to how far each column has moved away from what the others tell of it, in deviations: with P the inverse of their covariance,
// (P u)ₖ / √Pₖₖ, u from what was before the episode. A null has not moved. A single row says little: of the first it is that of the short means.
func (c *Scorer) residuals(e *Evaluator, x, z []float64, cause *Cause) {
	d := e.Dim
	f := e.Row.Factor
	if cause.Rows == 0 && e.charted() {
		x, f = z[:d], e.Charts.Factor[:d*(d+1)/2] // the factor of the first columns alone is where that of all begins
	}
	c.distances(e, &Gaussian{Mean: cause.before, Factor: f}, x, d, 0, 1) // y = F u
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

// follow takes the next row; rows are those of the series with it. Residuals are looked at in an episode alone.
func (s *steps) follow(e *Evaluator, x, z []float64, cause *Cause, rows uint32, residual []float64) {
	d := e.Dim
	if len(s.last) != d {
		memory := make([]float64, 3*d)
		*s = steps{last: memory[:d:d], mean: memory[d : 2*d : 2*d], slow: memory[2*d:]}
		for k := range d {
			s.last[k], s.mean[k], s.slow[k] = math.NaN(), state.Round(e.Charts.Mean[2*d+k]), z[d+k]
		}
	}
	short, rate, weight, slow := max(shortRate, 1/float64(rows)), 0., 0., 0.
	if cause != nil {
		cause.Rows = min(cause.Rows, math.MaxUint32-1) + 1
		weight = max(1/float64(cause.Rows), causeReach)
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
		cause.add(e, k, v, away, step, s.mean[k], residual[k], weight)
	}
}

func newCause(e *Evaluator, x, z, slow []float64) *Cause {
	d := e.Dim
	memory := make([]float64, 5*d)
	c := &Cause{before: memory[:d:d], noise: memory[d : 2*d : 2*d], rms: memory[2*d : 3*d : 3*d], mean: memory[3*d : 4*d : 4*d], strange: memory[4*d:]}
	for k := range d {
		short, long := z[k], z[d+k]
		if long != long {
			long = e.Centre[k]
			short = long
		}
		c.before[k], c.noise[k] = long, math.NaN()
		if len(slow) == d && slow[k] == slow[k] {
			c.before[k] = slow[k]
		}
		c.begins(k, began(e, k, x[k], short, long))
	}
	return c
}

// began is when a step began that has taken a column from its long mean to x, in rows from this one on: of a step k rows ago the long mean has yet to
// go (1−r₂)^k, the short one (1−r₁)^k.
func began(e *Evaluator, k int, x, short, long float64) int {
	noise := max(leastNoise*e.Scale[k], e.Charts.Mean[2*e.Dim+k])
	if !(math.Abs(short-long) > far*noise) || !((x-long)*(short-long) >= 0) { // a null tells nothing
		return unknown
	}
	rows := math.Log(math.Abs(x-long)/max(math.Abs(x-short), noise)) / math.Log((1-longRate)/(1-shortRate))
	return -int(math.Round(min(max(rows, 1), 40))) + 1
}

func (c *Cause) begins(k, row int) {
	bits := math.Float64bits(c.before[k]) &^ (1<<16 - 1)
	c.before[k] = math.Float64frombits(bits | uint64(uint16(int16(row))))
}

// Columns returns the number of columns.
func (c *Cause) Columns() int { return len(c.before) }

// onset returns when column k began to change.
func (c *Cause) onset(k int) int { return int(int16(uint16(math.Float64bits(c.before[k])))) }

func (c *Cause) was(k int) float64 {
	return math.Float64frombits(math.Float64bits(c.before[k]) &^ (1<<16 - 1))
}

// add takes a number of a row: x′, how far it is from its mean, from the row before, and from what the other columns tell of it.
func (c *Cause) add(e *Evaluator, k int, x, away, step, steps, residual, weight float64) {
	scale, typical := e.Scale[k], e.Charts.Mean[2*e.Dim+k]
	least := leastNoise * scale
	noise := (step/max(steps, least) + math.Abs(away)/max(typical, least)) / 2
	moved := x - c.was(k)
	if c.noise[k] != c.noise[k] {
		weight, c.noise[k] = 1, 0
	}
	c.noise[k] = state.Round(c.noise[k] + float64(weight*(noise-c.noise[k])))
	was, is := c.rms[k]/scale, moved/scale // squares of which do not overflow
	c.rms[k] = state.Round(scale * math.Sqrt(float64(was*was)+float64(weight*(float64(is*is)-float64(was*was)))))
	c.mean[k] = state.Round(c.mean[k] + float64(weight*(moved-c.mean[k])))
	c.strange[k] = state.Round(c.strange[k] + float64(weight*(float64(residual*residual)-c.strange[k])))
	if c.onset(k) == unknown && (math.Abs(moved) > far*max(typical, least) || noise > far) {
		c.begins(k, int(min(c.Rows-1, math.MaxInt16)))
	}
}

// Ranked returns the columns with values in the episode that have changed most, in order. A column has changed by itself by
//
//	1.5 log(1 + noise) + log(1 + rms (x′ − before)/scale)
//
// and a steady one that has gone quiet, by how far below its usual noise it is. Where none has, and one is strange to the
// others, a relation has broken: they are in the order of their rms residuals.
func (c *Cause) Ranked(e *Evaluator, most int) []Change {
	changes := make([]Change, 0, len(c.before))
	var spread []float64
	own, strangest := 0., 0.
	for k := range c.before {
		if c.noise[k] != c.noise[k] {
			continue
		}
		if c.noise[k] < c.quietBelow() && spread == nil {
			spread = e.deviationSpread()
		}
		one := c.change(e, k, spread)
		if one.Direction == "quiet" {
			own = math.Inf(1)
		}
		own, strangest = max(own, one.Rank), max(strangest, c.strange[k])
		changes = append(changes, one)
	}
	if own < ownChange+ownOfARow/math.Sqrt(float64(c.Rows)) && strangest > leastStrange*leastStrange {
		for i := range changes {
			changes[i].Rank = math.Sqrt(c.strange[changes[i].Column])
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(b.Rank, a.Rank) })
	return changes[:min(most, len(changes))]
}

func (c *Cause) quietBelow() float64 { return quietBelow * min(1, float64(c.Rows)/quietTold) }

// change is what became of column k by itself.
func (c *Cause) change(e *Evaluator, k int, spread []float64) Change {
	rms, mean := c.rms[k]/e.Scale[k], c.mean[k]/e.Scale[k]
	one := Change{Column: k, Rank: noiseShare*math.Log1p(c.noise[k]) + math.Log1p(rms), Before: c.was(k), Onset: max(c.onset(k), -math.MaxInt16)}
	if c.onset(k) == unknown {
		one.Onset = 0
	}
	one.Now = one.Before + c.mean[k]
	typical := e.Charts.Mean[2*e.Dim+k]
	if c.noise[k] < c.quietBelow() && typical > leastNoise*e.Scale[k] {
		if below := (1 - c.noise[k]) * typical / (e.Scale[k] * spread[k]); below > steady {
			one.Rank, one.Direction, one.Onset = one.Rank+noiseShare*math.Log1p(below), "quiet", 0
			return one
		}
	}
	switch noise := max(typical/e.Scale[k], leastNoise); {
	case math.Abs(mean) < moved*noise && c.noise[k] > 1, math.Abs(mean) < rms/2:
		one.Direction = "noisy"
	case mean < 0:
		one.Direction = "down"
	default:
		one.Direction = "up"
	}
	return one
}

// deviationSpread returns the standard deviations of v, in scales: Σ = F⁻¹ F⁻ᵀ.
func (e *Evaluator) deviationSpread() []float64 {
	d := e.Dim
	root := make([]float64, d*d) // F⁻¹, by forward substitution, a column at a time
	out := make([]float64, d)
	for j := range d {
		for i := j; i < d; i++ {
			row, sum := e.Deviations.Factor[i*(i+1)/2:][:i+1], 0.
			if i == j {
				sum = 1
			}
			for k := j; k < i; k++ {
				sum -= float64(float64(row[k]) * root[k*d+j])
			}
			root[i*d+j] = sum / float64(row[i])
			out[i] += float64(root[i*d+j] * root[i*d+j])
		}
	}
	for i, v := range out {
		out[i] = math.Sqrt(v)
	}
	return out
}

// Clone returns a copy that shares nothing; nil of nil.
func (c *Cause) Clone() *Cause {
	if c == nil {
		return nil
	}
	return &Cause{c.Rows, slices.Clone(c.before), slices.Clone(c.noise), slices.Clone(c.rms), slices.Clone(c.mean), slices.Clone(c.strange)}
}

// AppendBinary appends the cause, 24 bytes for each column.
func (c *Cause) AppendBinary(b []byte) ([]byte, error) {
	w := state.Writer{B: b}
	w.U64(uint64(c.Rows))
	w.Floats(c.before)
	w.Halves(c.noise)
	w.Halves(c.rms)
	w.Halves(c.mean)
	w.Halves(c.strange)
	return w.B, nil
}

// ReadCause reads what AppendBinary wrote, and returns what follows it.
func ReadCause(b []byte) (c *Cause, rest []byte, err error) {
	r := &state.Reader{B: b}
	c = &Cause{Rows: uint32(r.U64()), before: r.Floats(), noise: r.Halves(), rms: r.Halves(), mean: r.Halves(), strange: r.Halves()}
	if d := len(c.before); len(c.noise) != d || len(c.rms) != d || len(c.mean) != d || len(c.strange) != d {
		r.Fail(fmt.Errorf("%d, %d, %d and %d numbers of %d columns", len(c.noise), len(c.rms), len(c.mean), len(c.strange), d))
	}
	return c, r.B, failed(r, "cause")
}
