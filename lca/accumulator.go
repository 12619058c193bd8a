package lca

import (
	"math"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Accumulator makes the [Statistics] of rows under a model, part by part. A part's rows are taken in steps of a fixed number, so that
// its sums have the same bits whatever the rows came in, and for any GOMAXPROCS. It serves one goroutine.
//
// A row that is among the model's neighbours is no neighbour of its own, because it is a near copy. So data that holds equal rows
// on purpose is fitted by Fit with NearCopies false, and not by parts.
type Accumulator struct {
	model      *Model
	constant   float64 // of −log p
	projection kernel.Projection
	responses  responses // nil where all directions are Gaussian

	parts   []*Statistics
	rows    []float64 // of a step that is not full
	ids     []uint64  // of these rows
	taken   uint64    // rows of the part, without the invalid ones
	kept    poolCandidates
	step    *Statistics // sums of one step
	full    []float64   // its scatter, both triangles
	centre  []float64
	centred []float64

	z       []float64
	project kernel.Scratch[float64]
	work    linalg.Workspace
}

// responses are the E-step against the model's neighbours.
type responses interface {
	// of returns the moments of n rows; they are valid until the next call.
	of(z []float64, n int) *kernel.Moments
}

// responsesIn are responses in one precision.
type responsesIn[T kernel.Float] struct {
	pool      kernel.Neighbours[T]
	exclusion kernel.Exclusion
	rounded   []T
	scratch   kernel.Scratch[T]
	moments   kernel.Moments
}

func newResponses[T kernel.Float](m *Model) *responsesIn[T] {
	r := &responsesIn[T]{pool: kernel.Neighbours[T]{Shape: m.shape()}, scratch: kernel.Scratch[T]{Threads: runtime.GOMAXPROCS(0)}}
	d := m.Parzen() + m.Gaussian()
	z := whitened[T](m.offsets(), m.parts())
	r.pool.Pack(z, len(z)/d, d, m.Parzen())
	r.exclusion.NearCopy = kernel.NearCopy * float64(d)
	return r
}

func (r *responsesIn[T]) of(z []float64, n int) *kernel.Moments {
	q, exact := any(z).([]T)
	if !exact {
		r.rounded = linalg.Resize(r.rounded, len(z))
		q = r.rounded
		for i, v := range z {
			q[i] = T(v)
		}
	}
	kernel.Update(&r.moments, &r.scratch, q, n, &r.pool, r.exclusion)
	return &r.moments
}

// NewAccumulator prepares a model for E-steps in a precision. Float64 gives the sums of Fit, up to the rounding of the model's neighbours; Float32 is the
// arithmetic of a stream, about twice as fast and right to some 1e-5. What sums over rows is float64 in both.
func (m *Model) NewAccumulator(precision Precision) *Accumulator {
	b := m.parts()
	all := b.Joined()
	d := prop1.Columns(all)
	a := &Accumulator{model: m, constant: normaliser(b, m.shape()), step: newStatistics(0, d)}
	a.projection.Pack(m.Mean, linalg.Elements(all.T()), m.Dim, d)
	a.project.Threads = runtime.GOMAXPROCS(0)
	switch {
	case m.Parzen() == 0:
	case precision == Float32:
		a.responses = newResponses[float32](m)
	default:
		a.responses = newResponses[float64](m)
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

// Add takes rows (rows×Dim, all finite) with their identities, hashes that no two rows share, and counts the rows that were left out of
// them as invalid.
func (a *Accumulator) Add(x []float64, ids []uint64, invalid int) {
	d := a.model.Dim
	a.part().Invalid += uint64(invalid)
	for len(ids) > 0 {
		n := min(kernelRows-len(a.ids), len(ids))
		if n == kernelRows {
			a.expect(x[:n*d], ids[:n])
		} else {
			a.rows, a.ids = append(a.rows, x[:n*d]...), append(a.ids, ids[:n]...)
			if len(a.ids) == kernelRows {
				a.flush()
			}
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

// flush adds the rows that have gathered.
func (a *Accumulator) flush() {
	if len(a.ids) > 0 {
		a.expect(a.rows, a.ids)
	}
	a.rows, a.ids = a.rows[:0], a.ids[:0]
}

// expect adds the rows of a step to the part.
func (a *Accumulator) expect(x []float64, ids []uint64) {
	n, d := len(ids), len(a.step.Mean)
	a.offer(x, ids)
	a.z = linalg.Resize(a.z, n*d)
	kernel.Project(&a.projection, a.z, &a.project, x, n)
	s := a.step
	*s = Statistics{Rows: uint64(n), Mean: s.Mean, Scatter: s.Scatter, Local: s.Local}
	a.scatter(n, d)
	a.local(n, d)
	a.part().add(s)
}

// offer offers the rows of a step as neighbours of the next model.
func (a *Accumulator) offer(x []float64, ids []uint64) {
	d, most, part := a.model.Dim, a.model.poolRows(), a.part().Part
	for i, id := range ids {
		c := partCandidate{PoolCandidate{ID: id, Row: a.taken}, part}
		a.taken++
		if a.kept.wants(&c, most) {
			c.X = slices.Clone(x[i*d : (i+1)*d])
			a.kept.offer(c, most)
		}
	}
}

// scatter sets the moments of a step.
func (a *Accumulator) scatter(n, d int) {
	a.centre, a.centred, a.full = linalg.Resize(a.centre, d), linalg.Resize(a.centred, n*d), linalg.Resize(a.full, d*d)
	prop1.Mean(a.step.Mean, a.centre, a.z, d)
	for i := range n {
		kernel.SubScale(a.centred[i*d:][:d], a.z[i*d:], a.step.Mean, 1)
	}
	clear(a.full)
	a.work.AddGram(a.full, a.centred, n, d)
	at := 0
	for i := range d {
		for j := i; j < d; j++ {
			a.step.Scatter[at] = a.full[j*d+i]
			at++
		}
	}
}

// local sets what the E-step says of a step.
func (a *Accumulator) local(n, d int) {
	s, parzen := a.step, a.model.Parzen()
	if a.responses == nil { // a single Gaussian, which no row is near or far from
		clear(s.Local)
		s.Used = uint64(n)
		for i := range n {
			s.NLL += a.constant + 0.5*kernel.NormSquared(a.z[i*d:][:d])
		}
		return
	}
	m := a.responses.of(a.z, n)
	s.Used, s.Copies = uint64(m.Rows), uint64(m.Copies)
	at := 0
	for i := range d {
		at += copy(s.Local[at:], m.Upper[i*d+i:(i+1)*d])
	}
	for i, admissible := range m.Admissible {
		if !m.Used[i] {
			continue
		}
		s.Effective += m.Effective[i]
		s.NLL += a.constant + 0.5*kernel.NormSquared(a.z[i*d+parzen:(i+1)*d]) - m.LSE(i) + math.Log(float64(admissible))
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
