package lca

import (
	"context"
	"math"
	"runtime"

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
		out.Copies += m.Copies
		out.Used += m.Rows
		for i, admissible := range m.Admissible {
			out.LogSum[from+i], out.Admissible[from+i] = m.LSE(i), int(admissible)
			out.Effective += m.Effective[i]
		}
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
