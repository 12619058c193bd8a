package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// thinBasis is the B of a family of few numbers, kept as these, so that no step multiplies matrices of d×d.
type thinBasis struct {
	form  basisForm
	order []int        // axesForm: coordinate j is the active column order[j] times 1/root[j]
	root  []float64    // so that root² is its variance in Σ
	sigma prop1.Narrow // narrowForm: Σ in units of s; B = S⁻¹Σ^(−½)
}

// basisForm is the representation of B.
type basisForm uint8

const (
	wholeForm  basisForm = iota // as a matrix, in metricState
	axesForm                    // one number in each column and row
	narrowForm                  // a multiple of the identity except in a few directions, in units of s
)

func (b *thinBasis) clone() thinBasis {
	return thinBasis{form: b.form, order: slices.Clone(b.order), root: slices.Clone(b.root), sigma: b.sigma.Clone()}
}

// dense returns B as a matrix, whatever its form; until the next split.
func (m *metricState) dense(w *linalg.Workspace) []float64 {
	n := len(m.Active)
	switch m.form {
	case axesForm:
		m.basis = linalg.Resize(m.basis, n*n)
		clear(m.basis)
		for j, k := range m.order {
			m.basis[k*n+j] = 1 / m.root[j]
		}
	case narrowForm:
		m.basis = linalg.Resize(m.basis, n*n)
		clear(m.basis)
		for i := range n {
			m.basis[i*n+i] = 1
		}
		m.sigma.Times(m.basis, n, -0.5, w)
		for i, s := range m.Scale {
			for k := range n {
				m.basis[i*n+k] /= s
			}
		}
	}
	return m.basis
}

// axesOut adds C, which is known along the axes alone, to the diagonal of dst, of which it leaves keep.
func (m *metricState) axesOut(dst, cl []float64, dim int) {
	for j, k := range m.order {
		at := m.Active[k] * (dim + 1)
		dst[at] = float64(m.keep*cl[at]) + float64(float64(m.root[j]*m.fresh[j])*m.root[j])
	}
}

// outOfNarrow sets c to SΣ^½ F Σ^½S for the rows since the split.
func (m *metricState) outOfNarrow(c []float64, w *linalg.Workspace) {
	copy(c, m.freshFull())
	m.sigma.Around(c, m.Scale, w)
}

// packThin is pack for the columns from … to−1 of a thin B.
func (p *projector[T]) packThin(m *metricState, from, to int, centre, deviation []float64) {
	p.out = to - from
	p.column, p.weight = linalg.Resize(p.column, p.out), linalg.Resize(p.weight, p.out)
	var more []float64
	for j := range p.out {
		if m.form == axesForm {
			p.column[j], p.weight[j] = m.Active[m.order[from+j]], 1/m.root[from+j]
		} else {
			p.column[j], p.weight[j] = m.Active[j], 1/(math.Sqrt(m.sigma.V[j])*m.Scale[j])
		}
	}
	if m.form == narrowForm && p.out > 0 {
		for _, v := range m.sigma.W {
			more = append(more, math.Sqrt(m.sigma.V[0]/v)-1)
		}
	}
	p.coordinates.PackThin(centre, p.column, p.weight, m.sigma.U, more, deviation)
}

// freshLen is the length of fresh.
func (m *metricState) freshLen() int {
	if n := len(m.Active); m.form != axesForm {
		return n * n
	}
	return len(m.Active)
}

// averageAxes is average along the axes.
func (m *metricState) averageAxes(sum *kernel.Moments, discount float64) {
	m.keep *= discount
	share := (1 - discount) / float64(sum.Rows)
	for k, v := range sum.Diagonal[:len(m.fresh)] {
		m.fresh[k] = float64(discount*m.fresh[k]) + float64(share*v)
	}
}

// basisFields passes B and what is kept of its inverse. Up to the second edition a B was a matrix.
func (m *metricState) basisFields(f *state.Fields, n int) {
	if f.Version > state.SecondEdition {
		state.Numbers(f, &m.form)
	}
	switch m.form {
	case wholeForm:
		f.Sized("B", &m.basis, n*n)
		f.Sized("inverse of B", &m.inverse, n*n)
	case axesForm:
		state.List(f, &m.order, 8, func(k *int) { state.Numbers(f, k) })
		f.Sized("B", &m.root, n)
		f.Check(permutes(m.order, n), "axes %v of %d", m.order, n)
	case narrowForm:
		s := &m.sigma
		f.Floats(&s.W)
		f.Sized("variances of B", &s.V, n)
		f.Floats(&s.U)
		f.Check(len(s.W) < n && len(s.U) >= len(s.W)*n && len(s.U)%n == 0, "%d directions of %d in %d numbers", len(s.W), n, len(s.U))
	default:
		f.Check(false, "a B of form %d", m.form)
	}
}

// permutes reports whether all holds 0 … n−1, each once.
func permutes(all []int, n int) bool {
	seen := make([]bool, n)
	for _, k := range all {
		if k < 0 || k >= n || seen[k] {
			return false
		}
		seen[k] = true
	}
	return len(all) == n
}
