package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/timegap"
)

// momentsRowsPerColumn is the least memory of C_G, in rows per column: a covariance of fewer is noise, and EM on a pool of fewer fits its rows and not the stream.
const momentsRowsPerColumn = 10

// runningMoments are μ and C_G (section 4, below eq. 6) as a stream knows them. They look back as far as
// the pool does: under drift a longer memory than the neighbours' makes the old and the new place
// of a cluster look like one wide Gaussian, and all that is local like anything but Gaussian. The
// pool's own covariance would do, but it is from N rows; a moving average of all rows with the
// pool's mean age N/0.3 is from 2N/0.3 in effect, with a seventh of the variance.
//
// So a row's weight decays by e in N/0.3 rows, but never in fewer than 10 rows per column, and not at all over a finite set
// (Config.Finite). Until as many rows have come, all of them have equal weight. The
// moments cover all columns, the constant ones too, so that one that starts to move is seen.
type runningMoments struct {
	dim        int
	memory     float64        // rows in which a weight decays by e; +Inf = never
	mean       []float64      // μ
	cov        []float64      // C_G without ν_g, dim×dim; above the diagonal only once whole was called
	upperStale bool           // the upper triangle must be mirrored before it is read
	count      float64        // rows that the moments stand for, while fewer than memory
	sparse     []prop1.Sparse // the columns that were at the start
	changes    int            // of them since they are in memory; not part of the state

	momentsSpace
}

// momentsSpace is their working memory.
type momentsSpace struct{ centre, centred, outer []float64 }

// momentsMemory returns the memory that suits the pool, in rows.
func (c Config) momentsMemory() float64 {
	if c.Finite {
		return math.Inf(1)
	}
	return max(float64(c.Neighbours)/pool.Entry, momentsRowsPerColumn*float64(c.Dim))
}

func newRunningMoments(memory float64, dim int) *runningMoments {
	return &runningMoments{dim: dim, memory: memory, mean: make([]float64, dim), cov: make([]float64, dim*dim)}
}

// clone returns moments of its own.
func (g *runningMoments) clone() *runningMoments {
	c := newRunningMoments(g.memory, g.dim)
	copy(c.mean, g.mean)
	copy(c.cov, g.full())
	c.count, c.sparse = g.count, slices.Clone(g.sparse)
	return c
}

func (g *runningMoments) start(rows []float64, work *linalg.Workspace) {
	g.count, g.sparse = 0, prop1.SparseColumns(rows, g.dim)
	g.learn(rows, work)
}

// learn lets rows have their share w of the moments (Chan, Golub, LeVeque 1979):
//
//	C ← (1−w) C + w C_x + w(1−w)(μ_x−μ)(μ_x−μ)ᵀ,   μ ← μ + w(μ_x−μ)
func (g *runningMoments) learn(rows []float64, work *linalg.Workspace) {
	d := g.dim
	n := float64(len(rows) / d)
	if n == 0 {
		return
	}
	g.changes++
	g.count = min(g.count+n, max(g.memory, n))
	w := n / g.count
	for i := range g.sparse {
		s := &g.sparse[i]
		s.Share += float64(w * (s.Differ(rows, d) - s.Share))
	}
	g.centre, g.outer = linalg.Resize(g.centre, d), linalg.Resize(g.outer, 2*d)
	if copy(g.centre, g.mean); w == 1 {
		prop1.MoveToMean(g.centre, g.outer[:d], rows, d)
	}
	prop1.MoveToMean(g.centre, g.outer[:d], rows, d)
	g.decay(1-w, float64(w*(1-w)))
	g.addSquares(rows, g.centre, math.Sqrt(w/n), work)
	g.upperStale = true
	for i := range d {
		g.mean[i] += float64(w * (g.centre[i] - g.mean[i]))
	}
}

// independent returns how many independent rows the moments stand for, where rows within the gap are hardly more than one.
func (g *runningMoments) independent(gap uint64) float64 {
	return max(1, g.count*min(1, timegap.Lags/float64(gap)))
}

// keepConstant takes back what has been learnt since of the columns that were constant then.
func (g *runningMoments) keepConstant(then *runningMoments) {
	g.changes++
	for k := range g.dim {
		if then.varies(k) {
			continue
		}
		g.mean[k] = then.mean[k]
		for j := range g.dim {
			g.cov[k*g.dim+j], g.cov[j*g.dim+k] = 0, 0
		}
	}
}

// momentsAt is moments as they were at some time.
type momentsAt struct {
	moments *runningMoments
	changes int
}

func (g *runningMoments) at() momentsAt { return momentsAt{g, g.changes} }

// full returns C_G with both triangles, which few ask for: not each minibatch does.
func (g *runningMoments) full() []float64 {
	if g.upperStale {
		linalg.Mirror(g.cov, g.dim)
		g.upperStale = false
	}
	return g.cov
}

// addSquares adds Σ s²(x−o)(x−o)ᵀ over rows to C_G on and below its diagonal, a block of rows at a time.
func (g *runningMoments) addSquares(rows, o []float64, s float64, w *linalg.Workspace) {
	const block = 256
	d := g.dim
	for ; len(rows) > 0; rows = rows[min(block*d, len(rows)):] {
		n := min(block, len(rows)/d)
		g.centred = linalg.Resize(g.centred, n*d)
		for i := range n {
			kernel.SubScale(g.centred[i*d:][:d], rows[i*d:], o, s)
		}
		w.AddGram(g.cov, g.centred, n, d)
	}
}

// decay is C_G ← keep·C_G + w (μ−o)(μ−o)ᵀ, with the centre o, on and below the diagonal.
func (g *runningMoments) decay(keep, w float64) {
	d := g.dim
	r, scaled := g.outer[:d], g.outer[d:]
	for k := range r {
		r[k] = g.mean[k] - g.centre[k]
		scaled[k] = w * r[k]
	}
	for i, ri := range r {
		kernel.Fade(g.cov[i*d:i*d+i+1], scaled, keep, ri)
	}
}

// The columns that are learnt and their units follow from the running moments at each minibatch, and are
// no state of their own:
//
//   - A column whose variance is below 1e-20 of its mean square (prop1.RunningRounding) is constant: what moves is rounding.
//     It is left out of C_G, C_L and W and comes back when it moves; ν alone must never carry it,
//     or a column that says nothing would weigh more than all others.
//   - s is the running standard deviation, except for sparse columns (prop1.Sparse).
//
// All matrices of the learner stay in the input's units: Cholesky factors and triangular solves
// round alike whatever the scale of a column, and a change of s then changes no state.

// columnScale returns the columns that vary, with their units.
func (g *runningMoments) columnScale(unit lca.Unit) (f prop1.ColumnScale) {
	g.scaleInto(&f, unit)
	return f
}

// scaleInto is columnScale into memory that is there.
func (g *runningMoments) scaleInto(f *prop1.ColumnScale, unit lca.Unit) {
	f.Active, f.Scale = f.Active[:0], f.Scale[:0]
	left := g.sparse
	for k := range g.dim {
		if !g.varies(k) {
			continue
		}
		f.Active = append(f.Active, k)
		s := prop1.ScaleOf(g.cov[k*g.dim+k], k, &left)
		if unit == lca.UnitAbsolute {
			s = 1
		}
		f.Scale = append(f.Scale, s)
	}
}

// varies reports whether a column is not constant.
func (g *runningMoments) varies(k int) bool {
	return prop1.Varies(g.cov[k*g.dim+k], g.mean[k], prop1.RunningRounding)
}

// vary reports whether exactly the active columns vary.
func (g *runningMoments) vary(active []int) bool {
	left := active
	for k := range g.dim {
		known := len(left) > 0 && left[0] == k
		if g.varies(k) != known {
			return false
		}
		if known {
			left = left[1:]
		}
	}
	return true
}

// enter gives the columns that became active a place in C_L, and takes those that fell silent out:
// a new column starts from its variance in C_G, on its own, which keeps C_L positive definite.
func enter(cl []float64, dim int, was, now []int, cov []float64) {
	for k := range dim {
		_, before := slices.BinarySearch(was, k)
		_, after := slices.BinarySearch(now, k)
		if before == after {
			continue
		}
		for j := range dim {
			cl[k*dim+j], cl[j*dim+k] = 0, 0
		}
		if after {
			cl[k*dim+k] = cov[k*dim+k]
		}
	}
}
