package lca

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Scorer whitens and scores rows by one model: y = W(x−μ) and −log p(x), in nats,
//
//	½|B_Gᵀ(x−μ)|² + ½ d log 2π − log|det(B_G,B_L)| − log( (1/N) Σ_j exp(−½|B_Lᵀ(x−x_j)|²) ) + Σ_k departure(x_k)
//
// over the model's N neighbours and its constant columns k, as LogDensity has them, or with KernelStudent as LogDensity has it. It is what a transform of a stream runs: after the first call it allocates nothing,
// and what scores need is prepared when the first score is asked for. The logarithm of the sum is right to two roundings of a
// float32 of 64, or of itself: it is formed in float32 around centres of near neighbours, its large terms again in float64. A Scorer serves
// one goroutine; make one for each. They share nothing but the model.
type Scorer struct {
	model                 *Model
	dim, parzen, gaussian int
	constant              float64
	constants             []int             // the columns that were constant while the model was learnt
	whiten, local, global kernel.Projection // W(x−μ), B_Lᵀ(x−c) and B_Gᵀ(x−μ), c the mean of the neighbours
	offset                []float64         // c − μ
	memory                []float64         // of local, global and offset
	groups                kernel.Groups     // the neighbours, for scores
	few                   kernel.Few        // in place of groups, if the model is small
	small                 bool
	neighbours            kernel.Neighbours[float64] // the neighbours, for Why and Impute
	prepared              bool
	blame                 blame
	*Workspace
}

// Workspace is the memory that a Scorer computes in. It holds nothing of a model from one call to the next, so that the Scorers of
// one goroutine may share one, see [Scorer.Use]. For small models it is larger than the rest of a Scorer.
type Workspace struct {
	scratch        kernel.Scratch[float64]
	sums           kernel.GroupScratch
	few            kernel.FewScratch
	around         kernel.Projection // of the neighbours of a small model
	z, g, lse      []float64
	rows           []float64 // the neighbours, while they are prepared
	matrix         []float64 // a matrix, while it is packed
	pull, residual []float64 // of Why
	impute         impute
}

// Use makes the Scorer compute in w from now on. No result depends on it.
func (s *Scorer) Use(w *Workspace) { s.Workspace = w }

// Bytes returns about how many bytes the model and what is prepared of it take, without the Workspace.
func (s *Scorer) Bytes() int {
	const word, single, fixed = 8, 4, 3 << 10
	m, d := s.model, s.dim
	packed := kernel.ProjectionSize(d, d) + kernel.ProjectionSize(d, s.parzen) + kernel.ProjectionSize(d, s.gaussian)
	size := fixed + single*len(m.Neighbours) + word*(3*d*d+packed+4*d+len(m.Ratio)) // W, B_L and B_G, as they are and packed
	if m.Scores != nil {
		size += word * len(m.Scores.Sorted)
	}
	return size + s.groups.Bytes() + s.few.Bytes() + s.neighbours.Bytes()
}

// Prepare makes what scores need, which otherwise the first call does; why: and what Why and Impute need.
func (s *Scorer) Prepare(why bool) {
	if s.model.Young() {
		return
	}
	s.group()
	if why {
		s.pack()
		s.blame.prepare(s.dim)
	}
}

// ForgetWhy lets go of what Why and Impute need, which may be several times as much as what scores need. They make it again.
func (s *Scorer) ForgetWhy() { s.neighbours = kernel.Neighbours[float64]{} }

// forget lets go of the neighbours that a large model was prepared from.
func (w *Workspace) forget() {
	const most = 64 << 10 // numbers
	if cap(w.rows) > most {
		w.rows = nil
	}
	if cap(w.z) > most {
		w.z = nil
	}
}

// NewScorer prepares the model for fast scoring.
func (m *Model) NewScorer() *Scorer { return m.NewScorerIn(new(Workspace)) }

// NewScorerIn is NewScorer with a Workspace that others may have used.
func (m *Model) NewScorerIn(w *Workspace) *Scorer {
	s := &Scorer{Workspace: w}
	s.Renew(m)
	return s
}

// Renew makes s the scorer of another model, in the memory that it has.
func (s *Scorer) Renew(m *Model) {
	first := s.model == nil
	s.model, s.dim, s.parzen, s.gaussian, s.prepared = m, m.Dim, m.Parzen(), m.Gaussian(), false
	s.blame = blame{parts: prop1.Parts{BG: m.BG, BL: m.BL}}
	s.groups.Clear()
	s.few.Clear()
	s.ForgetWhy()
	if m.Young() {
		return
	}
	if first {
		s.whiten.Reserve(kernel.Aligned(kernel.ProjectionSize(s.dim, s.dim)), s.dim, s.dim)
	}
	s.whiten.Pack(m.Mean, s.elements(m.W, false), m.Dim, m.Dim)
}

// elements returns the elements of a matrix, or of its transpose, row by row. They hold until the next call.
func (w *Workspace) elements(m *mat.Dense, transposed bool) []float64 {
	from := m.RawMatrix()
	if w.matrix = w.matrix[:0]; transposed {
		for c := range from.Cols {
			for r := range from.Rows {
				w.matrix = append(w.matrix, from.Data[r*from.Stride+c])
			}
		}
		return w.matrix
	}
	for r := range from.Rows {
		w.matrix = append(w.matrix, from.Data[r*from.Stride:][:from.Cols]...)
	}
	return w.matrix
}

// reserve makes room for what scores need, in one place.
func (s *Scorer) reserve() {
	if s.memory != nil {
		return
	}
	d := s.dim
	s.memory = kernel.Aligned(kernel.ProjectionSize(d, s.parzen) + kernel.ProjectionSize(d, s.gaussian) + d)
	s.offset = s.global.Reserve(s.local.Reserve(s.memory, d, s.parzen), d, s.gaussian)
}

// prepare makes what scores, Why and Impute have in common.
func (s *Scorer) prepare() {
	if s.prepared {
		return
	}
	s.prepared = true
	s.reserve()
	m := s.model
	s.constant = normaliser(m.parts(), m.shape())
	s.constants = m.parts().Constants(s.constants[:0], m.Dim)
	if s.gaussian > 0 {
		s.global.Pack(m.Mean, s.elements(m.BG, true), m.Dim, s.gaussian)
	}
	if s.small = kernel.FewFit(m.poolRows(), s.parzen, m.Dim); s.parzen > 0 {
		s.rows = linalg.Resize(s.rows, len(m.Neighbours))
		for i, v := range m.Neighbours {
			s.rows[i] = float64(v)
		}
		s.constant += math.Log(float64(len(m.Neighbours) / m.Dim))
		s.offset = linalg.Resize(s.offset, m.Dim)
		prop1.Mean(s.offset, make([]float64, m.Dim), s.rows, m.Dim)
		centre := slices.Clone(m.Mean)
		floats.Add(centre, s.offset)
		s.local.Pack(centre, s.elements(m.BL, true), m.Dim, s.parzen)
	}
}

// coordinates returns B_Lᵀ(x_j−c) of the neighbours.
func (s *Scorer) coordinates() (z []float64, n int) {
	var local kernel.Projection
	local.Pack(s.offset, s.elements(s.model.BL, true), s.dim, s.parzen)
	n = len(s.model.Neighbours) / s.dim
	s.z = linalg.Resize(s.z, n*s.parzen)
	kernel.Project(&local, s.z, &s.scratch, s.model.Neighbours, n)
	return s.z, n
}

// points is the projection that makes B_Lᵀ(x_j−c) of the neighbours of a small model.
func (s *Scorer) points() *kernel.Projection {
	s.around = s.local.Around(s.offset)
	return &s.around
}

// group prepares what scores need besides.
func (s *Scorer) group() {
	s.prepare()
	if s.parzen == 0 || s.few.Len() > 0 || s.groups.Len() > 0 {
		return
	}
	if s.small {
		s.few.Shape = s.model.shape()
		s.few.Pack(&s.Workspace.few, &s.scratch, s.points(), s.model.Neighbours, s.model.poolRows())
	} else {
		z, n := s.coordinates()
		s.groups.Shape = s.model.shape()
		s.groups.Pack(&s.sums, z, n, s.parzen)
		s.forget()
	}
}

// pack prepares what Why and Impute need besides.
func (s *Scorer) pack() {
	s.prepare()
	if s.parzen > 0 && s.neighbours.Len() == 0 {
		z, n := s.coordinates()
		s.neighbours.Shape = s.model.shape()
		s.neighbours.Pack(z, n, s.parzen, s.parzen)
		s.forget()
	}
}

// PropagatesNonFinite reports whether a NaN or an infinity in x always shows in y. It is false where W skips
// columns without weight.
func (s *Scorer) PropagatesNonFinite() bool {
	return !s.model.Young() && s.whiten.PropagatesNonFinite()
}

// Score writes y (rows×dim) and −log p (one per row) for the rows of x, which is row-major, and reports whether
// all that it wrote is finite. Either of y and score may be nil. By a model that is Young all is 0.
func (s *Scorer) Score(y, score []float32, x []float64, rows int) (finite bool) {
	return scoreRows(s, y, score, x, rows)
}

// Score32 is Score for rows as they come from a stream of float32; the bits are the same.
func (s *Scorer) Score32(y, score, x []float32, rows int) (finite bool) {
	return scoreRows(s, y, score, x, rows)
}

func scoreRows[X float32 | float64](s *Scorer, y, score []float32, x []X, rows int) (finite bool) {
	if s.model.Young() {
		clear(y)
		clear(score)
		return true
	}
	if y != nil {
		kernel.Project(&s.whiten, y, &s.scratch, x, rows)
	}
	finite = kernel.Finite(y[:min(len(y), rows*s.dim)])
	if score == nil {
		return finite
	}
	s.group()
	s.lse, s.g = linalg.Resize(s.lse, rows), linalg.Resize(s.g, rows*s.gaussian)
	clear(s.lse)
	if s.parzen > 0 {
		s.z = linalg.Resize(s.z, rows*s.parzen)
		kernel.Project(&s.local, s.z, &s.scratch, x, rows)
		if s.small {
			s.few.LSE(s.lse, &s.Workspace.few, &s.scratch, s.z, rows, s.points(), s.model.Neighbours)
		} else {
			s.groups.LSE(s.lse, &s.sums, s.z, rows)
		}
	}
	if s.gaussian > 0 {
		kernel.Project(&s.global, s.g, &s.scratch, x, rows)
	}
	for i, lse := range s.lse {
		sum := 0.0
		for _, v := range s.g[i*s.gaussian : (i+1)*s.gaussian] {
			sum += float64(v * v)
		}
		total := s.constant + 0.5*sum - lse
		for _, k := range s.constants {
			total += prop1.Departure(float64(x[i*s.dim+k]), s.model.Mean[k])
		}
		score[i] = float32(total)
	}
	return finite && kernel.Finite(score[:rows])
}

// Gain is how many nats −log p of a row would fall by if one column had its best other value and the rest stayed.
type Gain struct {
	Column int
	Nats   float64
}

// blame is what Scorer.Why needs besides the scores.
type blame struct {
	parts         prop1.Parts // empty once they are prepared for
	bl, bg        []float64   // B_L and B_G, by rows
	local, global []float64   // |row k of B_L|² and |row k of B_G|²
}

// prepare makes what Why needs.
func (b *blame) prepare(dim int) {
	if b.local == nil {
		b.bl, b.local = byRows(b.parts.BL, dim)
		b.bg, b.global = byRows(b.parts.BG, dim)
		b.parts = prop1.Parts{}
	}
}

// byRows returns the elements of a matrix and the squares of its rows' lengths.
func byRows(b *mat.Dense, dim int) (elements, squares []float64) {
	squares = make([]float64, dim)
	n := prop1.Columns(b)
	if n == 0 {
		return nil, squares
	}
	elements = linalg.Elements(b)
	for k := range squares {
		squares[k] = kernel.NormSquared(elements[k*n : (k+1)*n])
	}
	return elements, squares
}

// Why writes which columns make −log p of each row as high as it is, the largest gain first: len(dst)/rows of them for each
// row. With g the gradient of −log p and P_L, P_G = B_LB_Lᵀ, B_GB_Gᵀ, the gain of column k is
//
//	½ g_k² / (P_L + P_G)_kk
//
// which is exact where one neighbour has all the responsibility for the row. It is so for t kernels too, where the pull of the
// neighbours grows as the row comes nearer: see studentGain. The gain of a constant column is all of
// its part in the score. A row whose score is not
// finite has NaN. x is row-major. It allocates nothing after the first call.
func (s *Scorer) Why(dst []Gain, x []float64, rows int) {
	if rows == 0 {
		return
	}
	s.pack()
	s.blame.prepare(s.dim)
	p, most := s.parzen, len(dst)/rows
	s.lse, s.g = linalg.Resize(s.lse, rows), linalg.Resize(s.g, rows*s.gaussian)
	s.pull, s.residual = linalg.Resize(s.pull, rows), linalg.Resize(s.residual, rows*p)
	if p > 0 {
		s.z = linalg.Resize(s.z, rows*p)
		kernel.Project(&s.local, s.z, &s.scratch, x, rows)
		kernel.Attract(s.lse, s.pull, s.residual, &s.scratch, s.z, rows, &s.neighbours)
		for k, centre := range s.residual {
			s.residual[k] = s.z[k] - centre
		}
	}
	if s.gaussian > 0 {
		kernel.Project(&s.global, s.g, &s.scratch, x, rows)
	}
	for i := range rows {
		largest := dst[i*most : (i+1)*most]
		for k := range largest {
			largest[k] = Gain{-1, math.Inf(-1)}
		}
		for k := range s.dim {
			if s.blame.local[k]+s.blame.global[k] == 0 {
				insert(largest, Gain{k, prop1.Departure(x[i*s.dim+k], s.model.Mean[k])})
			} else {
				insert(largest, Gain{k, s.gain(i, k)})
			}
		}
	}
}

// gain returns the gain of column k of row i, which has weight.
func (s *Scorer) gain(i, k int) float64 {
	b, p, g := &s.blame, s.parzen, s.gaussian
	along, across := 0.0, 0.0 // of the gradients of half the squares
	for c, v := range s.residual[i*p : (i+1)*p] {
		along += float64(b.bl[k*p+c] * v)
	}
	for c, v := range s.g[i*g : (i+1)*g] {
		across += float64(b.bg[k*g+c] * v)
	}
	if p > 0 && s.neighbours.Shape.DOF > 0 {
		return studentGain(s.neighbours.Shape.DOF, p, s.pull[i], along, b.local[k], across, b.global[k])
	}
	sum := along + across
	return 0.5 * sum * sum / (b.local[k] + b.global[k])
}

// studentGain is the largest decrease over t of
//
//	½(ν+p) log(ν + δ + 2at + At²) + bt + ½Bt²
//
// which is −log p along a column, t away from the row, where one neighbour at squared distance δ has all the responsibility;
// with several, ν+δ is (ν+p)/pull and a the product of the column of B_L with the row's distance from their centre, and the
// gradient is right. Each of the two terms falls towards its own best value, so the best of both lies between. From either
// side, the best value for the pull at the last one comes ever nearer to it and never passes it.
func studentGain(dof, p int, pull, a, localSquare, b, globalSquare float64) float64 {
	half := 0.5 * float64(dof+p)
	spread := 2 * half / pull // ν+δ
	if localSquare == 0 {
		return 0.5 * b * b / globalSquare
	}
	least := max(spread-a*a/localSquare, float64(dof)) // ν+δ where the first term is least
	from := a / localSquare                            // t measured from there
	if globalSquare == 0 {
		return half * math.Log(spread/least)
	}
	to := from - b/globalSquare // where the second term is least
	gain := func(t float64) float64 {
		return half*math.Log(spread/(least+localSquare*t*t)) + 0.5*globalSquare*((from-to)*(from-to)-(t-to)*(t-to))
	}
	best := 0.0
	for _, t := range [2]float64{0, to} {
		for range 100 {
			w := globalSquare * (least + localSquare*t*t) / (2 * half * localSquare)
			next := to * w / (1 + w)
			done := math.Abs(next-t) <= 1e-9*math.Abs(to)
			if t = next; done {
				break
			}
		}
		best = max(best, gain(t))
	}
	if pull != pull || from != from || to != to {
		return math.NaN()
	}
	return best
}

// insert puts g into a list that descends, and drops what no longer fits. NaN comes last.
func insert(list []Gain, g Gain) {
	for k := range list {
		if g.Nats > list[k].Nats || list[k].Column < 0 {
			list[k], g = g, list[k]
		}
	}
}
