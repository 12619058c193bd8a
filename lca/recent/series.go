package recent

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

const (
	// MostColumns is the number of columns up to which the last rows are scored: beyond it, a part of a snapshot would not be one chunk.
	MostColumns = 192

	shortRate     = 1.0 / 5
	longRate      = 1.0 / 20
	deviationRate = 1.0 / 50

	// FirstRows of a series are scored by the row alone.
	FirstRows = 50
	// unlike rows at the beginning of a series have means that are unlike those of later rows, and are not learnt.
	unlike = 20

	cutBegins = 10. // in scales
	rawUntil  = 1e4 // the same, of a column that was constant so far, as long as the evaluator is not settled
	mostUncut = 1e140
	leastT2   = 1e-9 // per column: two rows that are equal to the mean have a score too
)

// Series is what is kept of the rows of a series: all that is needed to score the next one. It is changed by Scorer.Score alone. The zero value
// is a series without a row.
type Series struct {
	Short, Long, Deviation []float64 // d each, in the units of the input; NaN: the column had no value. Deviations are rounded: see state.Round
	Rows                   uint32    // since it began, at most 2³²−1

	steps steps // where causes are told

	run    run // a learner's
	hold   hold
	joined bool    // it was accepted among others
	others float64 // what those weighed up to where it got its share
}

// SeriesBytes is the most that AppendBinary writes of a series of d columns.
func SeriesBytes(d int) int { return 8*(2+6) + 36*d }

// Clone returns a copy that shares nothing.
func (s *Series) Clone() Series {
	c := *s
	c.Short, c.Long, c.Deviation = slices.Clone(s.Short), slices.Clone(s.Long), slices.Clone(s.Deviation)
	c.steps.last, c.steps.mean = slices.Clone(s.steps.last), slices.Clone(s.steps.mean)
	c.steps.slow = slices.Clone(s.steps.slow)
	return c
}

// start begins a series.
func (s *Series) start(d int) {
	memory := make([]float64, 3*d)
	s.Short, s.Long, s.Deviation = memory[:d:d], memory[d:2*d:2*d], memory[2*d:]
	for k := range memory {
		memory[k] = math.NaN()
	}
	s.Rows, s.steps = 0, steps{}
}

// follow moves the series on by a row, and writes z and x′ as they then are. A null in x is a NaN in x′, and one in z where the column had no value so far, and without an evaluator that could cut it
// so is a number whose square overflows.
func (s *Series) follow(e *Evaluator, row, z, x []float64) {
	d := len(row)
	if s.Rows == 0 || len(s.Short) != d {
		s.start(d)
	}
	if s.Rows < math.MaxUint32 {
		s.Rows++
	}
	begins := 1 / float64(s.Rows) // the means of the first rows are plain ones
	short, long, deviation := max(shortRate, begins), max(longRate, begins), max(deviationRate, begins)
	m1, m2, v := s.Short[:d], s.Long[:d], s.Deviation[:d]
	z, x = z[:3*d], x[:d]
	for k, u := range row {
		if e != nil {
			u = e.cut(k, u)
		} else if math.Abs(u) > mostUncut {
			u = math.NaN()
		}
		if x[k] = u; u == u {
			if m1[k] != m1[k] { // its first value; where other columns have come before, its means begin at those of all series
				if m1[k], m2[k], v[k] = u, u, 0; e != nil && s.Rows > 1 {
					m1[k], m2[k], v[k] = e.Charts.Mean[k], e.Charts.Mean[d+k], e.Charts.Mean[2*d+k]
				}
			}
			m1[k] += float64(short * (u - m1[k]))
			m2[k] += float64(long * (u - m2[k]))
			v[k] = state.Round(v[k] + float64(deviation*(math.Abs(u-m1[k])-v[k])))
		}
		z[k], z[d+k], z[2*d+k] = m1[k], m2[k], v[k]
	}
}

// cut is x′ of column k: the identity within limit scales of the centre, logarithmic beyond.
func (e *Evaluator) cut(k int, x float64) float64 {
	c, s, limit := e.Centre[k], e.Scale[k], e.limit(k)
	u := (x - c) / s
	switch {
	case u > limit:
		return c + float64(s*limit)*(1+math.Log(min(u, math.MaxFloat64)/limit))
	case u < -limit:
		return c - float64(s*limit)*(1+math.Log(min(-u, math.MaxFloat64)/limit))
	}
	return x
}

// uncut is the number of which x is the cut.
func (e *Evaluator) uncut(k int, x float64) float64 {
	c, s, limit := e.Centre[k], e.Scale[k], e.limit(k)
	u := (x - c) / s
	if !(math.Abs(u) > limit) {
		return x
	}
	return max(-math.MaxFloat64, min(c+math.Copysign(float64(s*limit)*math.Exp(math.Abs(u)/limit-1), u), math.MaxFloat64))
}

func (e *Evaluator) limit(k int) float64 {
	if !e.Settled && e.Constant[k] {
		return rawUntil
	}
	return cutBegins
}
