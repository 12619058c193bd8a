package lca

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Scorer whitens and scores rows by one model: y = W(x−μ) and −log p(x), in nats,
//
//	½|B_Gᵀ(x−μ)|² + ½ d log 2π − log|det(B_G,B_L)| − log( (1/N) Σ_j exp(−½|B_Lᵀ(x−x_j)|²) )
//
// over the model's N neighbours, or with KernelStudent as LogDensity has it. It is what a transform of a stream runs: after the first call it allocates nothing,
// and what scores need is prepared when the first score is asked for. The Parzen sum runs in float64: in float32 the
// small difference of two large squares would show in the fifth digit for rows far from the mean. A Scorer serves
// one goroutine; make one for each. They share nothing but the model.
type Scorer struct {
	model                 *Model // nil once scores are prepared for
	dim, parzen, gaussian int
	constant              float64
	whiten, local, global kernel.Projection // W(x−μ), B_Lᵀ(x−c) and B_Gᵀ(x−μ)
	neighbours            kernel.Neighbours[float64]
	scratch               kernel.Scratch[float64]
	z, g, lse             []float64
	blame                 blame
	impute                impute
}

// NewScorer prepares the model for fast scoring.
func (m *Model) NewScorer() *Scorer {
	s := &Scorer{model: m, dim: m.Dim, parzen: m.Parzen(), gaussian: m.Gaussian(), blame: blame{parts: prop1.Parts{BG: m.BG, BL: m.BL}}, impute: impute{mean: m.Mean}}
	s.whiten.Pack(m.Mean, linalg.Elements(m.W), m.Dim, m.Dim)
	return s
}

// prepare makes what scores need: the neighbours take more memory than all the rest.
func (s *Scorer) prepare() {
	m := s.model
	if m == nil {
		return
	}
	s.model = nil
	s.constant = normaliser(prop1.Parts{BG: m.BG, BL: m.BL}, m.shape())
	if s.gaussian > 0 {
		s.global.Pack(m.Mean, linalg.Elements(m.BG.T()), m.Dim, s.gaussian)
	}
	if s.parzen > 0 {
		s.packNeighbours(m)
	}
}

// packNeighbours centres the neighbours on their own mean c, which may be far from μ.
func (s *Scorer) packNeighbours(m *Model) {
	rows := make([]float64, len(m.Neighbours))
	for k, v := range m.Neighbours {
		rows[k] = float64(v)
	}
	n, offset := len(rows)/m.Dim, make([]float64, m.Dim) // c − μ
	prop1.Mean(offset, make([]float64, m.Dim), rows, m.Dim)
	z, basis := make([]float64, n*s.parzen), linalg.Elements(m.BL.T())
	s.local.Pack(offset, basis, m.Dim, s.parzen)
	kernel.Project(&s.local, z, &s.scratch, rows, n)
	for k := range offset {
		offset[k] += m.Mean[k]
	}
	s.local.Pack(offset, basis, m.Dim, s.parzen)
	s.neighbours.Shape = m.shape()
	s.neighbours.Pack(z, n, s.parzen, s.parzen)
	s.constant += math.Log(float64(n))
}

// PropagatesNonFinite reports whether a NaN or an infinity in x always shows in y. It is false where W skips
// columns without weight.
func (s *Scorer) PropagatesNonFinite() bool { return s.whiten.PropagatesNonFinite() }

// Score writes y (rows×dim) and −log p (one per row) for the rows of x, which is row-major, and reports whether
// all that it wrote is finite. Either of y and score may be nil.
func (s *Scorer) Score(y, score []float32, x []float64, rows int) (finite bool) {
	return scoreRows(s, y, score, x, rows)
}

// Score32 is Score for rows as they come from a stream of float32; the bits are the same.
func (s *Scorer) Score32(y, score, x []float32, rows int) (finite bool) {
	return scoreRows(s, y, score, x, rows)
}

func scoreRows[X float32 | float64](s *Scorer, y, score []float32, x []X, rows int) (finite bool) {
	if y != nil {
		kernel.Project(&s.whiten, y, &s.scratch, x, rows)
	}
	finite = kernel.Finite(y[:min(len(y), rows*s.dim)])
	if score == nil {
		return finite
	}
	s.prepare()
	s.lse, s.g = linalg.Resize(s.lse, rows), linalg.Resize(s.g, rows*s.gaussian)
	clear(s.lse)
	if s.parzen > 0 {
		s.z = linalg.Resize(s.z, rows*s.parzen)
		kernel.Project(&s.local, s.z, &s.scratch, x, rows)
		kernel.LSE(s.lse, &s.scratch, s.z, rows, &s.neighbours)
	}
	if s.gaussian > 0 {
		kernel.Project(&s.global, s.g, &s.scratch, x, rows)
	}
	for i, lse := range s.lse {
		sum := 0.0
		for _, v := range s.g[i*s.gaussian : (i+1)*s.gaussian] {
			sum += float64(v * v)
		}
		score[i] = float32(s.constant + 0.5*sum - lse)
	}
	return finite && kernel.Finite(score[:rows])
}
