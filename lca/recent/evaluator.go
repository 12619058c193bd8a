package recent

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// chartsShare of the score is that of T²(z), the rest that of T²(v).
const chartsShare = 0.8

// Gaussian is a distribution of p numbers as T² needs it: T² = |F u|² with u = (z−Mean)/scale.
type Gaussian struct {
	Mean   []float64 // p, in the units of the input
	Factor []float32 // F, the rows of a lower triangle: the inverse of the Cholesky factor of the shrunk covariance, in scales
}

// Evaluator is what scores need, frozen after a number of rows. It is immutable, and safe for concurrent use.
type Evaluator struct {
	Dim      int
	Learnt   uint64    // rows behind it
	Settled  bool      // the rows of its beginning are behind it: see Learner.Settle
	Centre   []float64 // c, d
	Scale    []float64 // s, d, > 0
	Constant []bool    // d: columns that have not moved

	Charts     Gaussian // of z, 3d; its factor is zeros where they are not known
	Deviations Gaussian // of v, d: Mean is the last third of Charts.Mean
	Row        Gaussian // of x′, d

	Scores Distribution // of rows in series with more than FirstRows
	First  Distribution // of the others
	Tail   Tail         // of the peaks of Scores

	Turn     uint64       // acceptances so far
	Accepted []Acceptance // the last ones, in order
}

// LeastRows is the number of rows after which an evaluator is fit for use: max(100, 5 d).
func LeastRows(dim int) uint64 { return uint64(max(100, 5*dim)) }

// charted reports whether the charts of series are known. In a stream of many series these are all too young for a long time.
func (e *Evaluator) charted() bool { return e.Charts.Factor[0] != 0 }

// alone reports whether a row is scored by the row alone, in a series with its number of rows: in a young one, and in each as long as no score of another is known.
func (e *Evaluator) alone(rows uint32) bool { return rows <= FirstRows || e.Scores.Sum == 0 }

// Scorer scores rows. It keeps memory that is used again, and serves one goroutine at a time.
type Scorer struct {
	z, x     []float64 // of the rows of a batch
	counts   []uint32  // rows of its series, each with itself
	centre   []float64
	units    []float64 // 1/scale
	y        []float64
	spread   [3]spread // of the distributions of the evaluator that scored last
	t2       []float64
	residual []float64 // see residuals
	before   []float64 // the same
	work     linalg.Workspace
}

// spread is a factor with its zeros.
type spread struct {
	of  *Gaussian
	all []float64
}

// Score moves each row's series on by it, in order, and writes its score, +Inf where it overflows. rows are n×d. A score says nothing of the order
// in which batches are cut: it is a function of the evaluator, the series and the row.
func (c *Scorer) Score(e *Evaluator, dst []float64, rows []float64, series []*Series) {
	c.follow(e, rows, series)
	c.score(e, dst[:len(series)])
}

// Rows returns how many rows the series of row i of the last call of Score had with it.
func (c *Scorer) Rows(i int) uint32 { return c.counts[i] }

// follow sets z and x to those of the rows.
func (c *Scorer) follow(e *Evaluator, rows []float64, series []*Series) {
	n := len(series)
	if n == 0 {
		return
	}
	d := len(rows) / n
	c.z, c.x = linalg.Resize(c.z, 3*d*n), linalg.Resize(c.x, d*n)
	c.counts = linalg.Resize(c.counts, n)
	for i, s := range series {
		s.follow(e, rows[i*d:][:d], c.z[3*d*i:], c.x[d*i:])
		c.counts[i] = s.Rows
	}
}

// score writes the scores of the rows that the series were moved on by.
func (c *Scorer) score(e *Evaluator, dst []float64) {
	n, d := len(dst), e.Dim
	first := 0
	for _, rows := range c.counts[:n] {
		if e.alone(rows) {
			first++
		}
	}
	if first < n {
		copy(dst, c.distances(e, &e.Charts, c.z, 3*d, 0, n))
		for i, t := range c.distances(e, &e.Deviations, c.z, 3*d, 2*d, n) {
			dst[i] = together(dst[i], t, d)
		}
	}
	if first > 0 {
		for i, t := range c.distances(e, &e.Row, c.x, d, 0, n) {
			if e.alone(c.counts[i]) {
				dst[i] = logShare(t, d)
			}
		}
	}
}

// together is the score by T² of z and of v.
func together(charts, deviations float64, d int) float64 {
	return chartsShare*logShare(charts, 3*d) + (1-chartsShare)*logShare(deviations, d)
}

func logShare(t2 float64, p int) float64 { return math.Log(max(t2/float64(p), leastT2)) }

// distances returns T² of n rows of the given stride, whose numbers begin at from; until the next call.
func (c *Scorer) distances(e *Evaluator, g *Gaussian, rows []float64, stride, from, n int) []float64 {
	p, d := len(g.Mean), e.Dim
	c.centre, c.y, c.t2 = linalg.Resize(c.centre, n*p), linalg.Resize(c.y, n*p), linalg.Resize(c.t2, n)
	c.units = linalg.Resize(c.units, p)
	for k := range c.units {
		c.units[k] = 1 / e.Scale[k%d]
	}
	for i := range n {
		u, row, units := c.centre[i*p:][:p], rows[i*stride+from:][:p], c.units[:p]
		for k, mean := range g.Mean {
			u[k] = (row[k] - mean) * units[k]
		}
		if magnitude := kernel.MaxAbs(u); magnitude > infinite {
			for k, v := range u {
				if v != v {
					u[k] = 0
				}
			}
		}
	}
	c.project(e, g, n)
	for i := range c.t2 {
		c.t2[i] = kernel.NormSquared(c.y[i*p:][:p])
	}
	return c.t2
}

// infinite is what kernel.MaxAbs says of an infinity; of NaN it says more.
var infinite = math.Float64bits(math.Inf(1))

// fewRows are multiplied without the factor being spread out first.
const fewRows = 8

// project writes F u of n rows to y: each number is one chain of fused multiply-adds, for few rows as for many.
func (c *Scorer) project(e *Evaluator, g *Gaussian, n int) {
	p := len(g.Mean)
	if n < fewRows {
		for i := range n {
			u, y, f := c.centre[i*p:][:p], c.y[i*p:][:p], g.Factor
			for k := range y {
				sum := 0.
				for j, v := range f[:k+1] {
					sum = math.FMA(u[j], float64(v), sum)
				}
				y[k], f = sum, f[k+1:]
			}
		}
		return
	}
	f := &c.spread[0]
	switch g {
	case &e.Deviations:
		f = &c.spread[1]
	case &e.Row:
		f = &c.spread[2]
	}
	if f.of != g {
		f.of, f.all = g, g.spread(f.all)
	}
	c.work.Product(c.y, p, linalg.Dense(c.centre, p), linalg.Dense(f.all, p).T(), n, p, p, linalg.Set)
}

// spread returns F with its zeros, in the memory given if that suffices.
func (g *Gaussian) spread(memory []float64) []float64 {
	p := len(g.Mean)
	all := linalg.Resize(memory, p*p)
	clear(all)
	for i := range p {
		for j, v := range g.Factor[i*(i+1)/2:][:i+1] {
			all[i*p+j] = float64(v)
		}
	}
	return all
}

// P returns the probability of a score at least as high, of a row in a series with its number of rows, this one included.
func (e *Evaluator) P(score float64, rows uint32) float64 {
	if e.alone(rows) {
		return e.First.P(score)
	}
	return e.Scores.P(score)
}
