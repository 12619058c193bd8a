package lca

import (
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// LeastP is the smallest probability that Scores.P returns.
const LeastP = 1e-12

// Scores says how often rows like those that a model was learnt from have a score −log p as high as a given one.
type Scores struct {
	// Sorted holds the scores of the model's neighbours, or of some of them, ascending, each without itself among the neighbours: what fresh rows
	// of the same kind would score. With itself, each would score less than any fresh row.
	Sorted []float64
	Tail   Tail
}

// Tail is a generalised Pareto distribution beyond the 90 % quantile of the scores:
//
//	P(s) = 0.1 · (1 + ξ (s−u)/β)^(−1/ξ),  exp(−(s−u)/β) in place of the power where ξ = 0.
//
// With β = 0 there is no tail.
type Tail struct {
	U    float64 `json:"u"`
	Xi   float64 `json:"xi"`
	Beta float64 `json:"beta"`
}

const (
	tailShare = 0.1
	// The shape is kept in these bounds: below, a few high scores would be impossible; above, p would hardly fall.
	leastShape, mostShape = -0.5, 3.
)

// newScores sorts leave-one-out scores and fits their tail. It keeps them and drops those that are not finite;
// with none left it returns nil. Scores beyond limit were left out when they came, and the given share of them is independent.
func newScores(values []float64, limit, share float64) *Scores {
	values = slices.DeleteFunc(values, func(v float64) bool { return v-v != 0 })
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	u := values[int((1-tailShare)*float64(len(values)))]
	first, _ := slices.BinarySearch(values, math.Nextafter(u, math.Inf(1)))
	s := &Scores{Sorted: values, Tail: Tail{U: u}}
	if beyond := values[first:]; len(beyond) > 0 {
		s.Tail.Xi, s.Tail.Beta = fitTail(beyond, u, limit, share)
	}
	return s
}

// P returns the probability of a score at least as high, from LeastP to 1: by rank among the scores, and by the tail beyond
// their 90 % quantile. It is NaN for NaN.
func (s *Scores) P(score float64) float64 {
	if score > s.Tail.U && s.Tail.Beta > 0 {
		return max(tailShare*s.Tail.survival(score), LeastP)
	}
	if score != score {
		return score
	}
	below, _ := slices.BinarySearch(s.Sorted, score)
	n := len(s.Sorted)
	return float64(n-below+1) / float64(n+1)
}

// Told returns the least probability that the scores can tell: a tenth of a rank. What P says below it is the tail, continued.
func (s *Scores) Told() float64 { return 0.1 / float64(len(s.Sorted)) }

// survival returns the share of the tail that is at least as high as a score beyond u.
func (t Tail) survival(score float64) float64 {
	x := (score - t.U) / t.Beta
	if t.Xi == 0 {
		return math.Exp(-x)
	}
	if !(t.Xi*x > -1) { // beyond the end of a tail that has one
		return 0
	}
	return math.Exp(-math.Log1p(t.Xi*x) / t.Xi)
}

// The tail of scores beyond u has few scores, and rare rows are far beyond the last of them. The likeliest shape, or the one by moments, is
// off by about 1/√n, and p falls by a power of it: so on average, rows below p = 0.0001 come several times too often even if
// the estimate has no bias. So all shapes and scales count here by how probable they are given the scores, as a Bayesian would have it,
//
//	P(s) = 0.1 · E[(1 + ξ (s−u)/β)^(−1/ξ)]
//
// and the tail is the one distribution of the contract's form that agrees with this at p = 0.01 and 0.0001.
//
// The prior of ξ is N(0.1, 0.3²): the scores of rows that are like the model fall exponentially, ξ = 0, and those of tails that are
// heavier than its kernels more slowly. That of log β is flat.
//
// Rows with scores beyond a gate are not among a stream's neighbours (package online). Scores are then those of a tail that was cut there:
// the likelihood is divided by the probability of a score below the gate.
const (
	shapeMean, shapeSpread = 0.1, 0.3
	// The cells of the grid over which the expectation is taken. One of them has θ = ξ/β and log β, in units of the mean score beyond u, m:
	// log(1+θ) in steps from leastTilt to mostTilt, and log β within scaleReach of −log(1+θ), where β = m (1−ξ).
	leastTilt, mostTilt   = -0.71, 2.5 // no step is at 0, where ξ is
	scaleReach, gridSteps = 1.2, 48
	leastWeight           = 1e-6 // relative to the most probable
	leastLogWeight        = -14. // less than its logarithm
	// The quantiles that are searched for are between these, in the same units.
	leastQuantile, mostQuantile = 1e-3, 1e12
	// The search ends when the logarithm of the share is as near, or after that number of steps, which are never needed.
	quantileError, quantileSteps = 1e-9, 100
)

// tailLevels are the shares of the tail at which the fit agrees with the expectation.
var tailLevels = [2]float64{0.1, 0.001}

// tailCells are tails of one θ, with scores in units of their mean beyond u: their powers 1/ξ, and how probable they are.
type tailCells struct {
	theta   float64
	powers  []float64
	weights []float64
}

// fitTail returns the shape and the scale for scores beyond u, which ascend. None of them was beyond limit, which may be infinite. That share of
// them is independent.
func fitTail(beyond []float64, u, limit, share float64) (xi, beta float64) {
	mean, n := 0.0, float64(len(beyond))
	for _, v := range beyond {
		mean += (v - u) / n
	}
	x := make([]float64, len(beyond))
	for i, v := range beyond {
		x[i] = (v - u) / mean
	}
	cut := math.Inf(1)
	if limit < math.Inf(1) {
		cut = max((limit-u)/mean, x[len(x)-1]) // the gate moves: some may be beyond the last
	}
	grid := tailPosterior(x, cut, share)
	refused := 0.0
	if cut < math.Inf(1) {
		refused, _ = expectedBeyond(grid, cut)
	}
	var at [len(tailLevels)]float64
	for k, level := range tailLevels {
		// 0.1 of the neighbours have scores beyond u, and so more of all rows.
		at[k] = expectedQuantile(grid, level*(1-(1-tailShare)*refused))
	}
	// Rounded, so that they are the same on any processor: math.Exp is not, in its last bit.
	xi = float64(float32(shapeThrough(at[1] / at[0])))
	return xi, mean * float64(float32(at[0]/paretoAt(tailLevels[0], xi)))
}

// tailPosterior returns the tails that are probable, given scores beyond u that were cut.
func tailPosterior(x []float64, cut, share float64) []tailCells {
	n, last, best := float64(len(x)), x[len(x)-1], math.Inf(-1)
	grid := make([]tailCells, 0, gridSteps)
	powers, weights := make([]float64, gridSteps*gridSteps), make([]float64, gridSteps*gridSteps)
	var logScales, scales [gridSteps]float64 // of β (1+θ)
	for j := range scales {
		logScales[j] = scaleReach * (2*(float64(j)+0.5)/gridSteps - 1)
		scales[j] = math.Exp(logScales[j])
	}
	for i := range gridSteps {
		tilt := leastTilt + (mostTilt-leastTilt)*(float64(i)+0.5)/gridSteps
		at := i * gridSteps
		c := tailCells{math.Expm1(tilt), powers[at : at : at+gridSteps], weights[at : at : at+gridSteps]}
		if c.theta*last <= -1 {
			continue // it would end before the last score
		}
		sum := 0.0
		for _, v := range x {
			sum += math.Log1p(c.theta * v)
		}
		atCut := math.Log1p(max(-1, c.theta*cut)) // one that ends before the cut has nothing beyond it
		for j, scale := range scales {
			logBeta, xi := logScales[j]-tilt, c.theta*scale/(1+c.theta)
			l := -n*logBeta - (1+1/xi)*sum
			if cut < math.Inf(1) {
				l -= n * math.Log1p(-math.Exp(-atCut*(1/xi)))
			}
			z := (xi - shapeMean) / shapeSpread
			l = share*l - 0.5*z*z + logBeta + tilt // dξ = β dθ, and dθ = (1+θ) d log(1+θ)
			best = max(best, l)
			c.powers, c.weights = append(c.powers, 1/xi), append(c.weights, l)
		}
		grid = append(grid, c)
	}
	return probable(grid, best)
}

// probable turns logarithms into weights whose sum is 1, and drops what hardly counts.
func probable(grid []tailCells, best float64) []tailCells {
	total := 0.0
	for i := range grid {
		c, kept := &grid[i], 0
		for k, l := range c.weights {
			if l-best < leastLogWeight {
				continue
			}
			if w := math.Exp(l - best); w > leastWeight {
				total += w
				c.powers[kept], c.weights[kept] = c.powers[k], w
				kept++
			}
		}
		c.powers, c.weights = c.powers[:kept], c.weights[:kept]
	}
	for _, c := range grid {
		for k := range c.weights {
			c.weights[k] /= total
		}
	}
	return grid
}

// expectedBeyond returns the expected share of the tail beyond x, and the slope of its logarithm by log x.
func expectedBeyond(grid []tailCells, x float64) (share, slope float64) {
	for _, c := range grid {
		if len(c.powers) == 0 || c.theta*x <= -1 {
			continue
		}
		l, sum := math.Log1p(c.theta*x), 0.0
		for k, power := range c.powers {
			w := c.weights[k] * math.Exp(-l*power)
			share += w
			sum += w * power
		}
		slope -= sum * c.theta * x / (1 + c.theta*x)
	}
	return share, slope / share
}

// expectedQuantile returns where the expected share of the tail beyond is that one, by Newton's steps in logarithms from where it is in an
// exponential tail. A step that leaves what the others have enclosed becomes half of that.
func expectedQuantile(grid []tailCells, share float64) float64 {
	low, high := math.Log(leastQuantile), math.Log(mostQuantile)
	t := math.Log(-math.Log(share))
	for range quantileSteps {
		beyond, slope := expectedBeyond(grid, math.Exp(t))
		above := math.Log(beyond / share)
		if math.Abs(above) < quantileError {
			break
		}
		if above > 0 {
			low = t
		} else {
			high = t
		}
		if t -= above / slope; !(t > low && t < high) {
			t = 0.5 * (low + high)
		}
	}
	return math.Exp(t)
}

// paretoAt returns where the share of a tail beyond is that one, with β = 1.
func paretoAt(share, xi float64) float64 {
	if math.Abs(xi) < 1e-9 {
		return -math.Log(share)
	}
	return math.Expm1(-xi*math.Log(share)) / xi
}

// shapeThrough returns the ξ with which the quantiles at tailLevels have that ratio. It rises with ξ.
func shapeThrough(ratio float64) float64 {
	low, high := float64(leastShape), float64(mostShape)
	for range 45 {
		if middle := 0.5 * (low + high); paretoAt(tailLevels[1], middle) < ratio*paretoAt(tailLevels[0], middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return 0.5 * (low + high)
}

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
	Shrunk      float64 // share of C_G that is its diagonal, in which a row has hardly a part
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
		scores[i] = constant + withoutOwn(half[row], weight, 1-a.Shrunk)
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
//	Q = q / (1 − w − own w q)
//
// by the formula of Sherman and Morrison, of which C_G has only the share own. Moments that are from few independent rows per column, as those of slow sensors are, fit these better than others.
func withoutOwn(half, w, own float64) float64 {
	return half / max(1-w-2*own*w*half, ownLeast)
}

// evenly returns at most most of the numbers 0 … n−1, evenly spaced.
func evenly(n, most int) []int {
	rows := make([]int, min(n, most))
	for i := range rows {
		rows[i] = i * n / len(rows)
	}
	return rows
}
