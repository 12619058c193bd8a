package lca

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
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

// Accumulator makes the [Statistics] of rows under a model, part by part. A part's rows are taken in steps of a fixed number, so that
// its sums have the same bits whatever the rows came in, and for any GOMAXPROCS. It serves one goroutine.
//
// A row that is among the model's neighbours is no neighbour of its own, because it is a near copy. So data that holds equal rows
// on purpose is fitted by Fit with NearCopies false, and not by parts.
type Accumulator struct {
	model *Model
	rows  rowSums

	parts []*Statistics
	taken uint64 // rows of the part, without the invalid ones
	kept  poolCandidates
	step  *Statistics // sums of one step
}

// NewAccumulator prepares a model for E-steps in a precision. Float64 gives the sums of Fit, up to the rounding of the model's neighbours; Float32 is the
// arithmetic of a stream, about twice as fast and right to some 1e-5. In both, what sums over more than some hundred rows is float64.
func (m *Model) NewAccumulator(precision Precision) *Accumulator {
	a := &Accumulator{model: m, step: newStatistics(0, m.Parzen()+m.Gaussian())}
	if precision == Float32 {
		a.rows = newRowSums[float32](m)
	} else {
		a.rows = newRowSums[float64](m)
	}
	return a
}

// poolRows returns how many neighbours the next model has: as many as the model, if there are as many rows.
func (m *Model) poolRows() int { return len(m.Neighbours) / m.Dim }

// Begin ends the part before it, and begins one with a number of its own. Rows can be added from then on.
func (a *Accumulator) Begin(part uint64) {
	a.flush()
	a.taken = 0
	a.parts = append(a.parts, newStatistics(part, len(a.step.Mean)))
}

// Add takes rows (rows×Dim, all finite) with their identities, hashes that no two rows share. Rows further away than 9.5e7 standard deviations are left out and
// counted, because nothing else would count in sums with them.
func (a *Accumulator) Add(x []float64, ids []uint64) { addRows(a, x, ids, a.rows.project) }

// AddFloat32 is Add for rows of float32, to the bit.
func (a *Accumulator) AddFloat32(x []float32, ids []uint64) {
	addRows(a, x, ids, a.rows.projectFloat32)
}

// Leave counts rows that are left out.
func (a *Accumulator) Leave(rows int) { a.part().Invalid += uint64(rows) }

func addRows[X float32 | float64](a *Accumulator, x []X, ids []uint64, project func(x []X, n int) bool) {
	d := a.model.Dim
	for len(ids) > 0 {
		n := min(kernelRows-a.rows.count(), len(ids))
		switch {
		case project(x[:n*d], n):
			offerRows(a, x, ids[:n])
		case n == 1:
			a.Leave(1)
		default: // a row of them is too far away
			addRows(a, x[:n/2*d], ids[:n/2], project)
			addRows(a, x[n/2*d:n*d], ids[n/2:n], project)
		}
		if a.rows.count() == kernelRows {
			a.flush()
		}
		x, ids = x[n*d:], ids[n:]
	}
}

func (a *Accumulator) part() *Statistics { return a.parts[len(a.parts)-1] }

// End ends the last part and returns the sums of all. The Accumulator is done with then.
func (a *Accumulator) End() []*Statistics {
	a.flush()
	of := make(map[uint64]*Statistics, len(a.parts))
	for _, s := range a.parts {
		of[s.Part] = s
	}
	a.kept.sort()
	for _, c := range a.kept {
		of[c.part].Candidates = append(of[c.part].Candidates, c.PoolCandidate)
	}
	return a.parts
}

// flush adds the rows that have gathered to the part.
func (a *Accumulator) flush() {
	if a.rows.count() > 0 {
		a.rows.sums(a.step)
		a.part().add(a.step)
	}
}

// offerRows offers rows as neighbours of the next model.
func offerRows[X float32 | float64](a *Accumulator, x []X, ids []uint64) {
	d, most, part := a.model.Dim, a.model.poolRows(), a.part().Part
	for i, id := range ids {
		if a.kept.full(most) && id > a.kept[0].ID { // nearly all
			a.taken++
			continue
		}
		c := partCandidate{PoolCandidate{ID: id, Row: a.taken}, part}
		a.taken++
		if a.kept.wants(&c, most) {
			c.X = make([]float64, d)
			for k, v := range x[i*d:][:d] {
				c.X[k] = float64(v)
			}
			a.kept.offer(c, most)
		}
	}
}

// covariance returns the symmetric matrix of a packed upper triangle, times a factor.
func covariance(packed []float64, d int, factor float64) *mat.Dense {
	c := mat.NewDense(d, d, nil)
	at := 0
	for i := range d {
		for j := i; j < d; j++ {
			c.Set(i, j, factor*packed[at])
			c.Set(j, i, factor*packed[at])
			at++
		}
	}
	return c
}

// partCandidate is a PoolCandidate with the number of its part.
type partCandidate struct {
	PoolCandidate
	part uint64
}

// poolCandidates are the rows with the smallest identities of all that were offered: a heap with the largest on top. Which they are does not
// depend on the order of the offers, and those of several heaps, offered to one, are those of all rows.
type poolCandidates []partCandidate

func (c poolCandidates) Len() int           { return len(c) }
func (c poolCandidates) Less(i, j int) bool { return c[j].before(&c[i]) }
func (c poolCandidates) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }

// before orders rows by their identity, and those of one identity by their place.
func (c *partCandidate) before(o *partCandidate) bool {
	return cmp.Or(cmp.Compare(c.ID, o.ID), cmp.Compare(c.part, o.part), cmp.Compare(c.Row, o.Row)) < 0
}

// Push implements heap.Interface.
func (c *poolCandidates) Push(v any) { *c = append(*c, v.(partCandidate)) }

// Pop implements heap.Interface.
func (c *poolCandidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// full reports whether a row takes the place of another.
func (c poolCandidates) full(most int) bool { return most > 0 && len(c) >= most }

// wants reports whether a row would be kept among most.
func (c poolCandidates) wants(v *partCandidate, most int) bool {
	return len(c) < most || most > 0 && v.before(&c[0])
}

// offer keeps a row if it is wanted. The row must not be changed later.
func (c *poolCandidates) offer(v partCandidate, most int) {
	if !c.wants(&v, most) {
		return
	}
	if len(*c) < most {
		heap.Push(c, v)
		return
	}
	(*c)[0] = v
	heap.Fix(c, 0)
}

// sort brings the rows into the order of the data.
func (c poolCandidates) sort() {
	slices.SortFunc(c, func(a, b partCandidate) int { return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.Row, b.Row)) })
}

// Maximize is the M-step (Proposition 1, or eq. 5 for plain LCA) from the statistics of all rows under m, in one or more parts: the next model. Its
// μ, C_G and C_L are those of the rows, γ is 0, and its kind, metric, kernel, ν, ν_g and the scales of the columns are those of m. A model of LCA-Gauss-Red keeps its
// number of Parzen directions, which a search has found. Its neighbours are the candidates, which after the first step no longer
// change: from then on each step is one of [Fit] on the rows, whose neighbours are a sample of them, or all.
//
// In Info are the NLL of m over the rows, without near copies, that of a single Gaussian, and the sums' rows, copies and effective neighbours. Rows counts
// those of m too, so that it grows from step to step.
func (m *Model) Maximize(parts []*Statistics) (*Model, error) {
	s, pool, err := m.fold(parts)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Rows < 2:
		return nil, fmt.Errorf("lca: the statistics are of %d rows (%d invalid), want at least 2", s.Rows, s.Invalid)
	case s.Used == 0:
		return nil, errors.New("lca: in this metric every row is a near copy of all neighbours, or has none: begin with a model of more rows")
	case len(pool) == 0:
		return nil, errors.New("lca: the statistics have no candidates for neighbours")
	}
	w, err := m.working()
	if err != nil {
		return nil, err
	}
	in := prop1.Parts{BL: w.directionsIn(m.BL), BG: w.directionsIn(m.BG), Ratio: m.Ratio}
	global, err := unwhitened(covariance(s.Scatter, len(s.Mean), 1/float64(s.Rows)), in)
	if err != nil {
		return nil, err
	}
	local, err := unwhitened(covariance(s.Local, len(s.Mean), 1/float64(s.Used)), in)
	if err != nil {
		return nil, err
	}
	if err := w.move(s.Mean, in); err != nil {
		return nil, err
	}
	c, err := m.config()
	if err != nil {
		return nil, err
	}
	f, err := fittingOf(w, global, int(s.Rows), c)
	if err != nil {
		return nil, err
	}
	next, err := f.maximized(m, local)
	if err != nil {
		return nil, err
	}
	out := f.out(next, Info{
		Rows: m.Info.Rows + s.Rows, Learnt: s.Rows, NLL: s.NLL / float64(s.Used), GaussianNLL: f.gaussianNLL(global),
		Minibatch: int(s.Rows), PassRows: float64(s.Rows), Copies: s.Copies, Effective: s.Effective / float64(s.Used),
	})
	for _, c := range pool {
		for k, v := range c.X {
			out.Neighbours = append(out.Neighbours, float32(v-out.Mean[k]))
		}
	}
	out.ScoreNeighbours(Admissible{})
	return out, nil
}

// maximized is the M-step for a local covariance.
func (f *fitting) maximized(m *Model, local *mat.SymDense) (state, error) {
	if m.Parzen() == 0 { // nothing local is left to learn
		return f.noParzen(), nil
	}
	parzen := Auto
	if m.Kind == KindLCAGaussRed {
		parzen = m.Parzen()
	}
	b, sigma, err := f.solver.Solve(f.cg, f.ig, f.pull.Add(local, f.Nu), parzen)
	if err != nil {
		return state{}, fmt.Errorf("lca: maximize (raise ν in the first model, leave out rows that are far from all others, or sum in float64): %w", err)
	}
	if prop1.Columns(b.BL) == 0 {
		return f.noParzen(), nil
	}
	return state{Parts: b, CL: sigma}, nil
}

// gaussianNLL is the NLL of a single Gaussian over rows of that C_G: ½ tr M₁⁻¹C_G in place of the mean of ½|I_G(x−μ)|².
func (f *fitting) gaussianNLL(global *mat.SymDense) float64 {
	var left, all mat.Dense
	linalg.Mul(&left, f.ig, global)
	linalg.Mul(&all, &left, f.ig)
	return normaliser(f.noParzen().Parts, f.shape()) + f.logScale() + 0.5*mat.Trace(&all)
}

// config returns the settings that a model was found by.
func (m *Model) config() (Config, error) {
	c := Config{
		Kind: m.Kind, Metric: m.Metric, Rank: m.Info.Rank, Preset: PresetMetric, Nu: m.Info.Nu, NuGaussian: m.Info.NuGaussian, NuUnit: m.Info.NuUnit,
		Kernel: m.Kernel, DOF: m.DOF, Precision: Float32, NearCopies: true, Coordinates: m.Coordinates, Components: m.Components, Seed: 1,
	}
	if m.Metric == MetricLowRank && c.Rank == 0 {
		return c, errors.New("lca: the model does not say the rank of its low-rank metric, as those of former releases do not: begin with one of this release")
	}
	return c, c.Validate()
}

// working returns the units that m was learnt in, about its mean: that of each column is in the diagonal of C_G.
func (m *Model) working() (*working, error) {
	w := &working{dim: m.Dim, mean: slices.Clone(m.Mean), scales: m.Info.Scales}
	if len(w.scales) > 0 && len(w.scales) != m.Dim {
		return nil, fmt.Errorf("lca: the model has %d scales for %d columns", len(w.scales), m.Dim)
	}
	for k := range m.Dim {
		v := m.CG.At(k, k)
		if v == 0 {
			w.constant = append(w.constant, k)
			continue
		}
		s := 1.0
		switch {
		case !(v > 0):
			return nil, fmt.Errorf("lca: the model's C_G has %v for column %d, want a variance", v, k)
		case len(w.scales) > 0:
			s = w.scales[k]
		case m.Info.NuUnit != UnitAbsolute:
			s = math.Sqrt(v / (1 + m.Info.NuGaussian))
		}
		w.Active, w.Scale = append(w.Active, k), append(w.Scale, s)
	}
	return w, nil
}

// directionsIn brings columns of B into working units.
func (w *working) directionsIn(b *mat.Dense) *mat.Dense {
	columns := prop1.Columns(b)
	if columns == 0 {
		return &mat.Dense{}
	}
	in := mat.NewDense(len(w.Active), columns, nil)
	for a, k := range w.Active {
		for j := range columns {
			in.Set(a, j, b.At(k, j)*w.Scale[a])
		}
	}
	return in
}

// move moves the mean by what is z in coordinates Bᵀx.
func (w *working) move(z []float64, b prop1.Parts) error {
	inverse, err := b.Inverse()
	if err != nil {
		return err
	}
	for a, k := range w.Active {
		by := 0.0
		for j, v := range z {
			by += inverse.At(j, a) * v
		}
		w.mean[k] += w.Scale[a] * by
	}
	return nil
}
