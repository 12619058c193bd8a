package lca

import (
	"math"
	"runtime"
	"sync"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// mostScored is how many neighbours at most are scored without themselves: their quantiles say no more with more of them.
const mostScored = 4000

// excursions is how many excursions to high scores a stream of slow sensors makes in the time in which its rows become others: these last a
// fraction of it. Measured: with 3, rows of AR(1) .99 have the right p down to 0.001.
const excursions = 3

// ownLeast bounds what withoutOwn divides by: a row that has made a direction its own has no distance without it.
const ownLeast = 0.25

// scoring is the memory that scoring a model's neighbours takes: a program with many models publishes one every few milliseconds.
type scoring struct {
	whitening whiteningSpace
	z, q      []float64
	pool      kernel.Neighbours[float64]
	index     []int32
	start     []int32
	scratch   kernel.Scratch[float64]
	moments   kernel.Moments
}

// spareScoring holds it between calls.
var spareScoring = sync.Pool{New: func() any { return &scoring{scratch: kernel.Scratch[float64]{Threads: runtime.GOMAXPROCS(0)}} }}

// Admissible says which neighbours of a model count when one of them is scored without itself.
type Admissible struct {
	Copies bool                  // near copies count too, as in discrete data
	Near   func(row int) []int32 // more neighbours that do not count for this one; nil: none
	Limit  float64               // rows with scores beyond it are not among the neighbours, however usual they are; 0: there is no limit
	// Independent is how many independent rows μ and C_G come from, fewer than there were where rows that are near in time are alike; 0: many more
	// than there are neighbours.
	Independent float64
}

// ScoreNeighbours sets Scores from the model's neighbours, or from 4000 of them that are evenly spaced: each is scored by
// −log p without itself, its near copies and those that Near names. A row with many near copies that is far from all others has these
// as its neighbours: fresh rows like it will have them, too. The bits depend on neither time nor GOMAXPROCS.
func (m *Model) ScoreNeighbours(a Admissible) {
	m.Scores = nil
	if a.Limit == 0 {
		a.Limit = math.Inf(1)
	}
	if len(m.Neighbours) == 0 {
		return
	}
	share := 1.0
	if a.Independent > 0 {
		share = min(1, excursions*a.Independent*float64(m.Dim)/float64(len(m.Neighbours)))
	}
	m.Scores = newScores(m.leaveOneOut(a), a.Limit, share)
}

func (m *Model) leaveOneOut(a Admissible) []float64 {
	b := prop1.Parts{BG: m.BG, BL: m.BL}
	x := m.offsets()
	n, _ := x.Dims()
	rows := evenly(n, mostScored)
	scores := make([]float64, len(rows))
	weight := 0.0
	if a.Independent > 0 {
		weight = 1 / a.Independent
	}
	constant, half := normaliser(b, m.shape()), halfSquares(x, m.BG)
	for i, row := range rows {
		scores[i] = constant + withoutOwn(half[row], weight)
	}
	parzen := m.Parzen()
	if parzen == 0 {
		return scores
	}
	t := spareScoring.Get().(*scoring)
	defer spareScoring.Put(t)
	d := parzen + m.Gaussian()
	t.z = whitenInto(t.z, x, b, &t.whitening)
	t.pool.Shape = m.shape()
	t.pool.Pack(t.z, n, d, parzen)
	// No pair passes the gate, because only the sums are wanted. A row is scored all the same.
	ex := kernel.Exclusion{Index: t.index[:0], Start: append(t.start[:0], 0), Gate: math.SmallestNonzeroFloat64}
	if !a.Copies {
		ex.NearCopy, ex.Atom = kernel.NearCopy*float64(d), kernel.AtomCopies
	}
	t.q = t.q[:0]
	for _, row := range rows {
		t.q = append(t.q, t.z[row*d:(row+1)*d]...)
		ex.Index = append(ex.Index, int32(row))
		if a.Near != nil {
			ex.Index = append(ex.Index, a.Near(row)...)
		}
		ex.Start = append(ex.Start, int32(len(ex.Index)))
	}
	t.index, t.start = ex.Index, ex.Start
	kernel.Update(&t.moments, &t.scratch, t.q, len(rows), &t.pool, ex)
	for i, admissible := range t.moments.Admissible {
		scores[i] -= t.moments.LSE(i) - math.Log(float64(admissible))
	}
	return scores
}

// withoutOwn returns half the squared distance |B_Gᵀ(x−μ)|²/2 that a row would have if it had no part in μ and C_G, where its share w is
//
//	Q = q / (1 − w − w q)
//
// by the formula of Sherman and Morrison. Moments that are from few independent rows per column, as those of slow sensors are, fit these better than others.
func withoutOwn(half, w float64) float64 {
	return half / max(1-w-2*w*half, ownLeast)
}

// evenly returns at most most of the numbers 0 … n−1, evenly spaced.
func evenly(n, most int) []int {
	rows := make([]int, min(n, most))
	for i := range rows {
		rows[i] = i * n / len(rows)
	}
	return rows
}
