package online

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// alignEvery is the number of minibatches after which the reference that models are aligned to
// moves on. It moves by count alone, so that publishing a model changes nothing. How often hardly matters: with 4 and
// with 128, fixed points move equally far from model to model, in three digits, even where the data turn all the time.
const alignEvery = 128

// reference is the W that the next models are rotated towards. The metric M = WᵀW does not say
// which W; one that follows from each eigendecomposition by itself jumps by more than the kernel's width
// when two eigenvalues cross, although all distances hardly change. The rotation is
//
//	O = argmin E|O W(x−μ) − W_ref(x−μ)|²,  x ~ C_G,  = U Vᵀ of W_ref C_G Wᵀ = U S Vᵀ
//
// (orthogonal Procrustes, Schönemann 1966). O W has the metric of W to the last bits, and a fixed
// point hardly moves from model to model.
type reference struct {
	w       []float64 // W_ref, dim×dim; nil before the first minibatch
	parzen  []float64 // B_L at that time, dim×d_P
	radians float64   // largest angle between the Parzen subspaces of this reference and the one before

	// Buffers of advance; they are no state.
	b, bl, next, left, cross []float64
	spans                    prop1.Spans
}

func (r *reference) clone() reference {
	return reference{w: slices.Clone(r.w), parzen: slices.Clone(r.parzen), radians: r.radians}
}

// advance replaces the reference by the current W if a multiple of alignEvery minibatches have been learnt.
func (r *reference) advance(l *model) error {
	if l.cfg.Unaligned || r.w != nil && l.counts.Minibatches%alignEvery != 0 {
		return nil
	}
	m, d, w := l.metric, l.cfg.Dim, l.work
	n := len(m.Active)
	r.b, r.bl = m.spread(r.b, d, w), linalg.Resize(r.bl, d*m.parzen)
	for k := range d {
		copy(r.bl[k*m.parzen:][:m.parzen], r.b[k*n:])
	}
	r.next = linalg.Resize(r.next, d*d)
	if err := r.align(r.next, r.b, d, n, l.moments.full(), w); err != nil {
		return err
	}
	if r.w != nil {
		r.radians = r.angle(d, m.parzen, l.moments.full(), w)
	}
	r.w, r.next = r.next, r.w
	r.parzen = append(r.parzen[:0], r.bl...)
	return nil
}

// spread sets dst to the current B over all dim columns, dim×n, with rows of 0 where a column is constant.
func (m *metricState) spread(dst []float64, dim int, w *linalg.Workspace) []float64 {
	n := len(m.Active)
	dst = linalg.Resize(dst, dim*n)
	clear(dst)
	if m.form != wholeForm {
		b := m.dense(w)
		for i, k := range m.Active {
			copy(dst[k*n:][:n], b[i*n:])
		}
		return dst
	}
	m.scratch[0] = m.local(m.scratch[0], w)
	for i, k := range m.Active {
		row := dst[k*n:][:n]
		for j := range m.parzen {
			row[j] = m.scratch[0][j*n+i]
		}
		copy(row[m.parzen:], m.basis[i*n+m.parzen:][:n-m.parzen])
	}
	return dst
}

// align sets dst to the d×d W with WᵀW = B Bᵀ that is nearest the reference; the symmetric root where there
// is none. b is d×n. Any root R will do for M^½ above; the nearest is Bᵀ itself.
func (r *reference) align(dst, b []float64, d, n int, cov []float64, w *linalg.Workspace) error {
	if r.w == nil {
		copy(dst, linalg.Elements(prop1.MetricRoot(mat.NewDense(d, n, b))))
		return nil
	}
	r.left, r.cross = linalg.Resize(r.left, d*d), linalg.Resize(r.cross, d*n)
	w.Product(r.left, d, linalg.Dense(r.w, d), linalg.Dense(cov, d), d, d, d, linalg.Set)
	w.Product(r.cross, n, linalg.Dense(r.left, d), linalg.Dense(b, n), d, n, d, linalg.Set)
	if !w.Polar(r.cross, d, n) {
		return r.alignUnknown(dst, mat.NewDense(d, n, b), cov)
	}
	w.Product(dst, d, linalg.Dense(r.cross, n), linalg.Dense(b, n).T(), d, d, n, linalg.Set)
	return nil
}

// alignUnknown is align where the reference does not know all directions, such as a column that was constant until
// now. They get the place that they have in the symmetric root, of which 1e-9 is added; elsewhere that is too little
// to matter. This case is rare, so it can afford a singular value decomposition.
func (r *reference) alignUnknown(dst []float64, b *mat.Dense, cov []float64) error {
	d, _ := b.Dims()
	root := prop1.MetricRoot(b)
	target := mat.NewDense(d, d, append([]float64(nil), r.w...))
	target.Apply(func(i, j int, v float64) float64 { return v + 1e-9*root.At(i, j) }, target)
	var left, w mat.Dense
	linalg.Mul(&left, target, mat.NewDense(d, d, cov))
	o, err := prop1.Polar(&left, root)
	if err != nil {
		return err
	}
	linalg.Mul(&w, o, root)
	copy(dst, w.RawMatrix().Data)
	return nil
}

// whitening returns the aligned W of a model. With the Parzen part alone it is
// the same rotation of B_L by itself: W = Q (B_L, B_G)ᵀ and W_P = Q (B_L, 0)ᵀ, so that the two never
// disagree, and a direction that changes sides enters or leaves without moving the others. With weighted directions it
// is the same rotation of those.
func (r *reference) whitening(m *lca.Model) (*mat.Dense, error) {
	parts, comps, cg := prop1.Parts{BL: m.BL, BG: m.BG, Ratio: m.Ratio}, m.Components, linalg.Elements(m.CG)
	b := parts.Joined()
	d, n := b.Dims()
	work, w := linalg.Borrow(), mat.NewDense(d, d, nil)
	defer work.Return()
	reference := &reference{w: r.w}
	err := reference.align(w.RawMatrix().Data, b.RawMatrix().Data, d, n, cg, work)
	if err != nil || comps == lca.ComponentsAll || (comps == lca.ComponentsParzen && prop1.Columns(m.BG) == 0) {
		return w, err
	}
	if prop1.Columns(m.BL) == 0 { // no direction is Parzen
		return mat.NewDense(d, d, nil), nil
	}
	// W C B = Q BᵀC B for any C: C_G makes BᵀC B near diagonal, whatever the scales of the columns.
	var s prop1.Spans
	if err := s.Factor(prop1.Span{Data: b.RawMatrix().Data, Columns: n}, d, cg, work); err != nil {
		return nil, err
	}
	var q mat.Dense
	linalg.Mul(&q, w, mat.NewDense(d, n, s.Product))
	work.SolveRight(linalg.Dense(s.Low, n), q.RawMatrix().Data, n, n, d)
	blas64.Trsm(blas.Right, blas.NoTrans, 1, blas64.Triangular{N: n, Stride: n, Data: s.Low, Uplo: blas.Lower, Diag: blas.NonUnit}, q.RawMatrix())
	var shown mat.Dense
	if comps == lca.ComponentsWeighted {
		linalg.Mul(&shown, &q, parts.Weighted().T())
	} else {
		linalg.Mul(&shown, q.Slice(0, d, 0, prop1.Columns(m.BL)), m.BL.T())
	}
	return &shown, nil
}

// angle returns the largest principal angle between the span of B_L at the last advance and now, in radians.
func (r *reference) angle(d, parzen int, cov []float64, w *linalg.Workspace) float64 {
	all := r.spans.Angles(prop1.Span{Data: r.parzen, Columns: len(r.parzen) / d}, prop1.Span{Data: r.bl, Columns: parzen}, d, cov, w)
	if len(all) == 0 {
		return math.Pi / 2
	}
	return all[len(all)-1]
}
