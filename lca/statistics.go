package lca

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Statistics are the sums over the rows of one part of the data that a step of EM needs, under a model that stays as it is: those of the
// E-step (eqs. 3 to 5), and the moments for μ and C_G (section 4, below eq. 6). An [Accumulator] makes them, [Model.Maximize] folds
// those of all parts in the order of their numbers. So the next model depends neither on which process summed a part, nor on when it was done.
//
// Rows are seen in the model's own coordinates z = Bᵀ(x−μ), B = (B_L, B_G), of which there are a, the number of columns that are not constant.
// Matrices are symmetric, and stored as their upper triangles row by row, a(a+1)/2 numbers.
type Statistics struct {
	Part      uint64  // the number of the part
	Rows      uint64  // rows that were added
	Invalid   uint64  // rows that were left out because a feature is missing or not finite, or too far away
	Used      uint64  // rows that have a neighbour other than near copies
	Copies    uint64  // pairs of a row and a neighbour left out as near copies
	NLL       float64 // Σ −log p(x_i) over the used rows, each without its near copies among the neighbours; nats
	Effective float64 // Σ of the effective numbers of neighbours of the used rows

	Mean    []float64 // mean of z over all rows, a numbers
	Scatter []float64 // Σ (z_i−Mean)(z_i−Mean)ᵀ over all rows
	Local   []float64 // Σ_i Σ_j λ_ij (z_i−z_j)(z_i−z_j)ᵀ over the used rows and their neighbours

	// Candidates are rows of the part for the next model's neighbours: of all parts of an Accumulator, those with the smallest identities.
	Candidates []PoolCandidate
}

// PoolCandidate is a row that may become a neighbour.
type PoolCandidate struct {
	ID  uint64    // its identity, a hash: the smallest of all are a uniform sample
	Row uint64    // its place in its part, by which neighbours are ordered
	X   []float64 // the row itself, d numbers in the input's units
}

// add lets other rows have their share of the moments and adds the other sums (Chan, Golub, LeVeque 1979).
func (s *Statistics) add(o *Statistics) {
	s.Invalid += o.Invalid
	if o.Rows == 0 {
		return
	}
	total := float64(s.Rows + o.Rows)
	share := float64(o.Rows) / total
	weight := float64(s.Rows) * share
	at := 0
	for i := range s.Mean {
		di := o.Mean[i] - s.Mean[i]
		for j := i; j < len(s.Mean); j++ {
			s.Scatter[at] += o.Scatter[at] + float64(weight*di*(o.Mean[j]-s.Mean[j]))
			s.Local[at] += o.Local[at]
			at++
		}
	}
	for i, v := range o.Mean {
		s.Mean[i] += float64(share * (v - s.Mean[i]))
	}
	s.Rows += o.Rows
	s.Used += o.Used
	s.Copies += o.Copies
	s.NLL += o.NLL
	s.Effective += o.Effective
}

// newStatistics returns sums of no rows.
func newStatistics(part uint64, coordinates int) *Statistics {
	packed := triangle(coordinates)
	return &Statistics{Part: part, Mean: make([]float64, coordinates), Scatter: make([]float64, packed), Local: make([]float64, packed)}
}

// triangle returns the size of a packed triangle.
func triangle(n int) int { return n * (n + 1) / 2 }

// check reports sums that cannot be of this model.
func (s *Statistics) check(m *Model) error {
	a := m.Parzen() + m.Gaussian()
	switch {
	case len(s.Mean) != a || len(s.Scatter) != triangle(a) || len(s.Local) != triangle(a):
		return fmt.Errorf("lca: part %d has sums of %d coordinates, the model has %d", s.Part, len(s.Mean), a)
	case s.Used > s.Rows:
		return fmt.Errorf("lca: part %d has %d used rows of %d", s.Part, s.Used, s.Rows)
	}
	for _, numbers := range [][]float64{{s.NLL, s.Effective}, s.Mean, s.Scatter, s.Local} {
		for _, v := range numbers {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("lca: part %d has a sum that is not finite", s.Part)
			}
		}
	}
	for _, c := range s.Candidates {
		if len(c.X) != m.Dim {
			return fmt.Errorf("lca: part %d has a candidate of %d numbers, the model has %d features", s.Part, len(c.X), m.Dim)
		}
	}
	return nil
}

// fold adds all parts by number, each into the sum of those before it, and returns the neighbours to be: the candidates with the smallest
// identities, at most as many as the model has, in the order of the data.
func (m *Model) fold(parts []*Statistics) (*Statistics, poolCandidates, error) {
	if len(parts) == 0 {
		return nil, nil, errors.New("lca: there are no statistics to maximize over")
	}
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b *Statistics) int { return cmp.Compare(a.Part, b.Part) })
	total := newStatistics(0, m.Parzen()+m.Gaussian())
	var pool poolCandidates
	for i, p := range parts {
		if i > 0 && p.Part == parts[i-1].Part {
			return nil, nil, fmt.Errorf("lca: part %d comes twice; its rows would count twice", p.Part)
		}
		if err := p.check(m); err != nil {
			return nil, nil, err
		}
		total.add(p)
		for _, c := range p.Candidates {
			pool.offer(partCandidate{PoolCandidate: c, part: p.Part}, m.poolRows())
		}
	}
	pool.sort()
	return total, pool, nil
}
