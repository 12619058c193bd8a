package backtest

import (
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

const (
	rivalColumns = 192 // with more it would take longer than all else
	rivalPause   = 30  // rows of a series below the threshold that end an episode, as for ours
	rivalShare   = 0.1 // of the rows, at most, are above its threshold: beyond that all is one episode
	rivalSteps   = 1.1 // between the numbers of rows above that are tried
)

// rival is what a person would try first, next to which labels judge the episodes: a Mahalanobis distance of each row, by mean and covariance of all rows
// before the newest cut. Cuts are where the models of a backtest are: at each doubling, and then every 1,000 rows. Its threshold is chosen afterwards, with the
// labels, for as many false episodes as the others have: no live detector could choose it as well.
type rival struct {
	features minibatch.Features
	read     minibatch.Rows
	models   map[string]*ellipsoid // by the value of model.by
	series   map[string]int32
	names    []string // of series
	rows     []rivalRow
	said     string // what is said of it
}

type rivalRow struct {
	distance float32
	series   int32
	row      int64
}

// take measures rows, of which the first are in the normal stretch, and learns them.
func (r *rival) take(rec arrow.Record, c *cells, normal int) error {
	if len(r.features.Names) > rivalColumns {
		return nil
	}
	if err := r.features.Gather(&r.read, rec); err != nil {
		return err
	}
	d := len(r.features.Names)
	for i := range int(rec.NumRows()) {
		if r.read.Invalid[i] != minibatch.ReasonNone {
			continue
		}
		m, x := r.model(c, i), r.read.X[i*d:(i+1)*d]
		if i >= normal {
			if m.normal {
				m.refresh()
				m.normal = false
			}
			if m.cut > 0 {
				r.rows = append(r.rows, rivalRow{float32(m.distance(x)), r.number(c, i), c.first + int64(i)})
			}
		}
		m.normal = m.normal || i < normal
		m.add(x)
	}
	return nil
}

// model is that of the row, as ours.
func (r *rival) model(c *cells, i int) *ellipsoid {
	value := ""
	if c.model.Len() > 0 {
		value, _ = c.model.At(i)
	}
	m, ok := r.models[value]
	if !ok {
		m = newEllipsoid(len(r.features.Names))
		r.models[strings.Clone(value)] = m
	}
	return m
}

// number is that of the row's series, as the labels know it.
func (r *rival) number(c *cells, i int) int32 {
	value := ""
	if c.key.Len() > 0 {
		value, _ = c.key.At(i)
	}
	n, ok := r.series[value]
	if !ok {
		n, value = int32(len(r.names)), strings.Clone(value)
		r.series[value], r.names = n, append(r.names, value)
	}
	return n
}

// met returns the number of faults that the distance meets with at most that number of false episodes, and the number of false ones it then has.
func (r *rival) met(j *judge, most int) (met, wrong int) {
	sorted := make([]float32, len(r.rows))
	for i, one := range r.rows {
		sorted[i] = one.distance
	}
	slices.Sort(sorted)
	slices.Reverse(sorted)
	for above := 1.; above <= rivalShare*float64(len(sorted)); above = math.Ceil(above * rivalSteps) {
		m := j.met(r.episodes(sorted[int(above)-1]))
		if m.wrong > most {
			break
		}
		met, wrong = m.met, m.wrong
	}
	return met, wrong
}

// episodes are the stretches of series with rows at the threshold or above it.
func (r *rival) episodes(threshold float32) (all []*episode.Record) {
	open, below := make([]*episode.Record, len(r.names)), make([]int, len(r.names))
	for _, one := range r.rows {
		e := open[one.series]
		switch {
		case one.distance >= threshold && e == nil:
			e = &episode.Record{Series: &r.names[one.series], From: episode.Place{Offset: one.row}}
			open[one.series], all = e, append(all, e)
			fallthrough
		case one.distance >= threshold:
			e.To.Offset, below[one.series] = one.row, 0
		case e != nil:
			if below[one.series]++; below[one.series] >= rivalPause {
				open[one.series] = nil
			}
		}
	}
	return all
}

// ellipsoid is a mean and a covariance that grow with the rows.
type ellipsoid struct {
	n, cut  int  // rows, and those of the factor
	normal  bool // rows of the normal stretch are not in the factor yet
	mean    []float64
	moments *mat.SymDense // Σ (x − mean)(x − mean)ᵀ
	factor  mat.Cholesky
	centre  []float64
	off     *mat.VecDense
	solved  mat.VecDense
}

func newEllipsoid(d int) *ellipsoid {
	return &ellipsoid{mean: make([]float64, d), centre: make([]float64, d), moments: mat.NewSymDense(d, nil), off: mat.NewVecDense(d, nil)}
}

// add takes a row, as Welford does.
func (e *ellipsoid) add(x []float64) {
	e.n++
	for k, v := range x {
		e.off.SetVec(k, v-e.mean[k])
		e.mean[k] += (v - e.mean[k]) / float64(e.n)
	}
	e.moments.SymRankOne(e.moments, 1-1/float64(e.n), e.off)
	if least := max(publishedRows/10, 5*len(x)); e.n >= least && (e.n >= 2*e.cut || e.n >= e.cut+publishedRows) {
		e.refresh()
	}
}

// refresh measures by all rows so far. With few of them correlations count less, and a column that stands still has some width.
func (e *ellipsoid) refresh() {
	d := len(e.mean)
	n, less := float64(e.n), float64(e.n)/float64(e.n+d)
	c := mat.NewSymDense(d, nil)
	for i := range d {
		for k := i; k < d; k++ {
			c.SetSym(i, k, less*e.moments.At(i, k)/n)
		}
		c.SetSym(i, i, e.moments.At(i, i)/n*(1+1e-6)+1e-8*e.mean[i]*e.mean[i]+1e-12)
	}
	if e.factor.Factorize(c) {
		e.cut = e.n
		copy(e.centre, e.mean)
	}
}

func (e *ellipsoid) distance(x []float64) float64 {
	for k, v := range x {
		e.off.SetVec(k, v-e.centre[k])
	}
	_ = e.factor.SolveVecTo(&e.solved, e.off) // of a bad condition: it is as far as can be told
	return mat.Dot(e.off, &e.solved)
}
