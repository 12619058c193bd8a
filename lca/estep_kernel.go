package lca

import (
	"context"
	"math"
	"runtime"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// kernelRows is how many rows one call of the kernels takes: enough to share among threads, few
// enough that a fit of many rows ends soon after its context. Sums over calls run in order.
const kernelRows = 2048

// kernelSpace is the buffers of kernelStep. A fit makes many steps over the same rows, and those of a small pool
// take less time than new memory for each.
type kernelSpace[T kernel.Float] struct {
	scratch    kernel.Scratch[T]
	pool       kernel.Neighbours[T]
	q, p       []T // rows in whitened coordinates
	moments    kernel.Moments
	exclusions []kernel.Exclusion // of each kernelRows rows
	whitening  whiteningSpace
}

func spaceOf[T kernel.Float](s *pairs) *kernelSpace[T] {
	if s.space == nil {
		s.space = new(kernelSpace[T])
	}
	return s.space.(*kernelSpace[T])
}

// kernelStep is eStep on the kernels of the stream: all of it happens in coordinates z = Bᵀx that the
// whole metric whitens, where C_L is near the identity and float32 loses nothing to cancellation; the
// first d_P coordinates are the Parzen part.
func kernelStep[T kernel.Float](ctx context.Context, s *pairs, b prop1.Parts) (expectation, error) {
	n, _ := s.q.Dims()
	d, parzen := prop1.Columns(b.BL)+prop1.Columns(b.BG), prop1.Columns(b.BL)
	w := spaceOf[T](s)
	w.scratch.Threads, w.pool.Shape = runtime.GOMAXPROCS(0), s.shape
	w.p = whitenInto(w.p, s.p, b, &w.whitening)
	w.pool.Pack(w.p, len(w.p)/d, d, parzen)
	q := w.p
	if s.q != s.p {
		w.q = whitenInto(w.q, s.q, b, &w.whitening)
		q = w.q
	}
	out := expectation{LogSum: make([]float64, n), Admissible: make([]int, n)}
	sum, m := mat.NewDense(d, d, nil), &w.moments
	for from := 0; from < n; from += kernelRows {
		if err := ctx.Err(); err != nil {
			return expectation{}, err
		}
		to := min(n, from+kernelRows)
		if len(w.exclusions) == from/kernelRows {
			w.exclusions = append(w.exclusions, s.exclusion(from, to, d))
		}
		kernel.Update(m, &w.scratch, q[from*d:to*d], to-from, &w.pool, w.exclusions[from/kernelRows])
		sum.Add(sum, mat.NewDense(d, d, m.Cov()))
		out.add(m, from)
	}
	out.Effective /= math.Max(float64(out.Used), 1)
	if out.Used == 0 {
		return out, nil
	}
	sum.Scale(1/float64(out.Used), sum)
	var err error
	out.CL, err = unwhitened(sum, b)
	return out, err
}

// add takes the results of the rows from there on.
func (e *expectation) add(m *kernel.Moments, from int) {
	e.Copies += m.Copies
	e.Used += m.Rows
	for i, admissible := range m.Admissible {
		e.LogSum[from+i], e.Admissible[from+i] = m.LSE(i), int(admissible)
		e.Effective += m.Effective[i]
	}
}

// exclusion says which slots of p rows from … to−1 of q must not be compared with.
func (s *pairs) exclusion(from, to, d int) kernel.Exclusion {
	var ex kernel.Exclusion
	if s.nearCopies {
		ex.NearCopy = kernel.NearCopy * float64(d)
	}
	if s.self == nil && s.near == nil {
		return ex
	}
	ex.Start = []int32{0}
	for i := from; i < to; i++ {
		if s.self != nil && s.self[i] >= 0 {
			ex.Index = append(ex.Index, int32(s.self[i]))
		}
		if s.near != nil {
			ex.Index = append(ex.Index, s.near(i)...)
		}
		ex.Start = append(ex.Start, int32(len(ex.Index)))
	}
	return ex
}

// whiteningSpace is the buffers of whitenInto.
type whiteningSpace struct {
	projection kernel.Projection
	scratch    kernel.Scratch[float64]
}

// whitened returns z = Bᵀx of each row in float64, rounded last. Rows are centred, as working rows are.
func whitened[T kernel.Float](x *mat.Dense, b prop1.Parts) []T {
	return whitenInto[T](nil, x, b, new(whiteningSpace))
}

// whitenInto is whitened into dst, which it returns, or into new memory.
func whitenInto[T kernel.Float](dst []T, x *mat.Dense, b prop1.Parts, w *whiteningSpace) []T {
	n, dim := x.Dims()
	all := b.Joined()
	_, d := all.Dims()
	w.projection.Pack(make([]float64, dim), linalg.Elements(all.T()), dim, d)
	dst = linalg.Resize(dst, n*d)
	kernel.Project(&w.projection, dst, &w.scratch, x.RawMatrix().Data, n)
	return dst
}

// unwhitened returns B^(−T) C B^(−1), a covariance of z = Bᵀx as one of x.
func unwhitened(c *mat.Dense, b prop1.Parts) (*mat.SymDense, error) {
	inverse, err := b.Inverse()
	if err != nil {
		return nil, err
	}
	var left, out mat.Dense
	linalg.Mul(&left, inverse.T(), c)
	linalg.Mul(&out, &left, inverse)
	return prop1.Symmetric(&out), nil
}

// Where |z_i|² + |z_j|² − 2 z_i·z_j lost more than four digits, |z_i−z_j|² is summed again.
const cancelled = 1e-4

// pairs are the rows an E-step runs over: every row of q against every row of p.
type pairs struct {
	q, p *mat.Dense
	// self[i] is the row of p that is row i of q itself, or −1; nil when no row is in both.
	self       []int
	near       func(row int) []int32 // more rows of p that do not count for a row of q; nil: none
	nearCopies bool
	shape      kernel.Shape
	precision  Precision // of the kernels; 0 = the plain loops
	space      any       // *kernelSpace of that precision, kept from one E-step to the next; nil before the first
}

// pairKernel evaluates the kernels of δ_ij = |B_Lᵀ(x_i−x_j)|² for the rows of pairs, in the coordinates
// z = B_Lᵀx where the Parzen metric is the identity.
type pairKernel struct {
	pairs
	prop1.Parts
	zq, zp mat.Dense
	nq, np []float64 // |z|²
	closer float64   // near copies are closer than this, squared; 0 = off
}

func newKernel(s pairs, b prop1.Parts) *pairKernel {
	k := &pairKernel{pairs: s, Parts: b}
	k.zq.Mul(s.q, b.BL)
	k.zp.Mul(s.p, b.BL)
	k.nq, k.np = squaredNorms(&k.zq), squaredNorms(&k.zp)
	if s.nearCopies {
		k.closer = kernel.NearCopy * float64(prop1.Columns(b.BL)+prop1.Columns(b.BG))
	}
	return k
}

// neighbours returns the number of rows of p.
func (k *pairKernel) neighbours() int { return len(k.np) }

// logits returns −½δ for rows from … to−1 of q against all of p.
func (k *pairKernel) logits(from, to int) *mat.Dense {
	var l mat.Dense
	l.Mul(k.zq.Slice(from, to, 0, prop1.Columns(k.BL)), k.zp.T())
	for i := from; i < to; i++ {
		row, zi := l.RawRowView(i-from), k.zq.RawRowView(i)
		for j, dot := range row {
			lengths := k.nq[i] + k.np[j]
			distance := lengths - 2*dot
			if distance < cancelled*lengths {
				distance = squaredDistance(zi, k.zp.RawRowView(j))
			}
			row[j] = -0.5 * distance
		}
	}
	return &l
}

// exclude sets to −Inf the logits of row i with itself and with near copies of it, which would
// pull the kernel to width 0; it returns the number of near copies.
func (k *pairKernel) exclude(row []float64, i int) (copies int) {
	if k.self != nil && k.self[i] >= 0 {
		row[k.self[i]] = math.Inf(-1)
	}
	if k.near != nil {
		for _, j := range k.near(i) {
			row[j] = math.Inf(-1)
		}
	}
	if k.closer == 0 {
		return 0
	}
	for j, l := range row {
		if -2*l < k.closer && -2*l+k.gaussianDistance(i, j) < k.closer {
			row[j] = math.Inf(-1)
			copies++
		}
	}
	return copies
}

// responsibilities turns the logits of a row into the λ of each pair times its pull (kernel.Shape). It returns the logarithm
// of the sum of the kernels, the number of admissible neighbours, their effective number and the sum of the row.
func (k *pairKernel) responsibilities(row []float64) (logSum float64, admissible int, effective, sum float64) {
	if k.shape.DOF == 0 {
		logSum, admissible, effective = softmax(row)
		return logSum, admissible, effective, 1
	}
	p, delta := prop1.Columns(k.BL), make([]float64, len(row))
	for j, l := range row {
		delta[j] = -2 * l
		row[j] = k.shape.Log(delta[j], p)
	}
	logSum, admissible, _ = softmax(row)
	squares := 0.0
	for j, l := range row {
		if l > 0 {
			squares += l * l
			row[j] = l * k.shape.Pull(delta[j], p)
			sum += row[j]
		}
	}
	if admissible > 0 {
		effective = 1 / squares
	}
	return logSum, admissible, effective, sum
}

// gaussianDistance returns |B_Gᵀ(x_i−x_j)|².
func (k *pairKernel) gaussianDistance(i, j int) float64 {
	sum := 0.0
	qi, pj := k.q.RawRowView(i), k.p.RawRowView(j)
	for c := range prop1.Columns(k.BG) {
		dot := 0.0
		for a := range qi {
			dot += k.BG.At(a, c) * (qi[a] - pj[a])
		}
		sum += dot * dot
	}
	return sum
}

func squaredNorms(z *mat.Dense) []float64 {
	n, _ := z.Dims()
	norms := make([]float64, n)
	for i := range norms {
		norms[i] = floats.Dot(z.RawRowView(i), z.RawRowView(i))
	}
	return norms
}

func squaredDistance(a, b []float64) float64 {
	sum := 0.0
	for k := range a {
		sum += (a[k] - b[k]) * (a[k] - b[k])
	}
	return sum
}
