package lca

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// alignEvery is the number of minibatches after which the reference that models are aligned to
// moves on. It moves by count alone: a model that somebody asks for changes nothing.
const alignEvery = 16

// reference is the W that the next models are rotated towards. The metric M = WᵀW does not say
// which W; one that starts anew from each eigendecomposition jumps by more than the kernel's width
// when two eigenvalues cross, though all distances are as good as unchanged. The rotation is
//
//	O = argmin E|O W(x−μ) − W_ref(x−μ)|²,  x ~ C_G,  = U Vᵀ of W_ref C_G Wᵀ = U S Vᵀ
//
// (orthogonal Procrustes, Schönemann 1966). O W has the metric of W to the last bits, and a fixed
// point hardly moves from model to model.
type reference struct {
	w       []float64 // W_ref, dim×dim; nil before the first minibatch
	parzen  []float64 // B_L at that time, dim×d_P
	radians float64   // largest angle between the Parzen subspaces of this reference and the one before
}

// advance moves the reference on when its time has come.
func (r *reference) advance(l *Learner) error {
	if r.w != nil && l.counts.Minibatches%alignEvery != 0 {
		return nil
	}
	b := l.metric.spread(l.cfg.Dim)
	w, err := r.align(b, l.globals.cov)
	if err != nil {
		return err
	}
	bl := mat.DenseCopyOf(b.Slice(0, l.cfg.Dim, 0, l.metric.parzen))
	if r.w != nil {
		r.radians = angle(mat.NewDense(l.cfg.Dim, len(r.parzen)/l.cfg.Dim, r.parzen), bl, l.globals.cov)
	}
	r.w, r.parzen = w.RawMatrix().Data, bl.RawMatrix().Data
	return nil
}

// spread returns B over all dim columns, with rows of 0 where a column is constant.
func (m *inForce) spread(dim int) *mat.Dense {
	out := mat.NewDense(dim, len(m.active), nil)
	for i, k := range m.active {
		copy(out.RawRowView(k), m.b.RawRowView(i))
	}
	return out
}

// align returns the dim×dim W with WᵀW = B Bᵀ that is nearest the reference; the symmetric root
// where there is none.
func (r *reference) align(b *mat.Dense, cov []float64) (*mat.Dense, error) {
	root := metricRoot(b)
	if r.w == nil {
		return root, nil
	}
	d, _ := b.Dims()
	// A direction that the reference does not know, such as a column that was constant, gets the
	// place it has in the symmetric root; elsewhere 1e-9 of it does not count.
	target := mat.NewDense(d, d, append([]float64(nil), r.w...))
	target.Apply(func(i, j int, v float64) float64 { return v + 1e-9*root.At(i, j) }, target)
	var left, cross mat.Dense
	linalg.Mul(&left, target, mat.NewDense(d, d, cov))
	linalg.Mul(&cross, &left, root.T())
	o, err := orthogonalFactor(&cross)
	if err != nil {
		return nil, err
	}
	var w mat.Dense
	linalg.Mul(&w, o, root)
	return &w, nil
}

// whitening returns the aligned W of a model whose C_G + ν_g is cg. With the Parzen part alone it is
// the same rotation of B_L by itself: W = Q (B_L, B_G)ᵀ and W_P = Q (B_L, 0)ᵀ, so that the two never
// disagree, and a direction that changes sides enters or leaves without moving the others.
func (r *reference) whitening(bl, bg *mat.Dense, comps Components, cg []float64) (*mat.Dense, error) {
	b := parts{BL: bl, BG: bg}.joined()
	w, err := r.align(b, cg)
	if err != nil || comps == ComponentsAll || columns(bg) == 0 {
		return w, err
	}
	// W C B = Q BᵀC B for any C: C_G makes BᵀC B near diagonal, whatever the scales of the columns.
	d, n := b.Dims()
	var cb, inner, q mat.Dense
	linalg.Mul(&cb, mat.NewDense(d, d, cg), b)
	linalg.Mul(&inner, b.T(), &cb)
	low, _, err := factor(symmetrised(&inner), n)
	if err != nil {
		return nil, err
	}
	linalg.Mul(&q, w, &cb)
	solveRight(&q, low)
	blas64.Trsm(blas.Right, blas.NoTrans, 1, low.RawTriangular(), q.RawMatrix())
	var wp mat.Dense
	linalg.Mul(&wp, q.Slice(0, d, 0, columns(bl)), bl.T())
	return &wp, nil
}

// orthogonalFactor returns U Vᵀ of A = U S Vᵀ, which is A (AᵀA)^−½. Squaring costs digits that two steps
// of Newton and Schulz, O ← O (3 − OᵀO)/2, win back; where it would cost too many, or A is singular,
// the singular value decomposition is worth its time.
func orthogonalFactor(a *mat.Dense) (*mat.Dense, error) {
	const regular = 1e-10 // of squares: A loses at most five digits
	d, _ := a.Dims()
	var gram, scaled, root, o mat.Dense
	linalg.Mul(&gram, a.T(), a)
	e, v, err := eigenSym(symmetric(&gram))
	if err != nil || !(e[0] > regular*e[d-1]) {
		return singularFactor(a)
	}
	scaled.CloneFrom(v)
	for i := range d {
		for j, r := range e {
			scaled.Set(i, j, scaled.At(i, j)/math.Sqrt(r))
		}
	}
	linalg.Mul(&root, &scaled, v.T())
	linalg.Mul(&o, a, &root)
	for range 2 {
		linalg.Mul(&gram, o.T(), &o)
		gram.Scale(-0.5, &gram)
		for k := range d {
			gram.Set(k, k, gram.At(k, k)+1.5)
		}
		next := mat.NewDense(d, d, nil)
		linalg.Mul(next, &o, &gram)
		o = *next
	}
	return &o, nil
}

func singularFactor(a *mat.Dense) (*mat.Dense, error) {
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDFull) {
		return nil, errSingular
	}
	var u, v, o mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	linalg.Mul(&o, &u, v.T())
	return &o, nil
}

// angle returns the largest principal angle between the spans of a and b, in radians, for whitened
// rows: acos of the smallest singular value of Q_aᵀ C Q_b with Qᵀ C Q = I. With unequal numbers of
// columns it is that of the smaller span.
func angle(a, b *mat.Dense, cov []float64) float64 {
	all := angles(a, b, cov)
	if len(all) == 0 {
		return math.Pi / 2
	}
	return all[len(all)-1]
}

// angles returns all principal angles, ascending: as many as the smaller span has dimensions; none
// where they cannot be told.
func angles(a, b *mat.Dense, cov []float64) []float64 {
	qa, okA := orthonormal(a, cov)
	qb, okB := orthonormal(b, cov)
	if !okA || !okB {
		return nil
	}
	d, _ := a.Dims()
	var left, cosines mat.Dense
	linalg.Mul(&left, qa.T(), mat.NewDense(d, d, cov))
	linalg.Mul(&cosines, &left, qb)
	if r, c := cosines.Dims(); r < c { // the smaller of the two Gram matrices has the same squares
		cosines = *mat.DenseCopyOf(cosines.T())
	}
	var gram mat.Dense
	linalg.Mul(&gram, cosines.T(), &cosines)
	squares, _, err := eigenSym(symmetric(&gram))
	if err != nil {
		return nil
	}
	all := make([]float64, len(squares))
	for i, v := range squares {
		all[len(all)-1-i] = math.Acos(math.Sqrt(min(max(v, 0), 1)))
	}
	return all
}

// orthonormal returns columns of the same span with QᵀCQ = I; ok is false where C is singular on it.
func orthonormal(b *mat.Dense, cov []float64) (q *mat.Dense, ok bool) {
	d, k := b.Dims()
	var cb, inner mat.Dense
	linalg.Mul(&cb, mat.NewDense(d, d, cov), b)
	linalg.Mul(&inner, b.T(), &cb)
	low, _, err := factor(symmetrised(&inner), k)
	if err != nil {
		return nil, false
	}
	q = mat.DenseCopyOf(b)
	solveRight(q, low)
	return q, true
}
