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

// kernelStep is eStep on the kernels of the stream: all of it happens in coordinates z = Bᵀx that the
// whole metric whitens, where C_L is near the identity and float32 loses nothing to cancellation; the
// first d_P coordinates are the Parzen part.
func kernelStep[T kernel.Float](ctx context.Context, s pairs, b prop1.Parts) (expectation, error) {
	n, _ := s.q.Dims()
	d, parzen := prop1.Columns(b.BL)+prop1.Columns(b.BG), prop1.Columns(b.BL)
	scratch := kernel.Scratch[T]{Threads: runtime.GOMAXPROCS(0)}
	pool := kernel.Neighbours[T]{Shape: s.shape}
	z := whitened[T](s.p, b)
	pool.Pack(z, len(z)/d, d, parzen)
	q := z
	if s.q != s.p {
		q = whitened[T](s.q, b)
	}
	out := expectation{LogSum: make([]float64, n), Admissible: make([]int, n)}
	sum := mat.NewDense(d, d, nil)
	var m kernel.Moments
	for from := 0; from < n; from += kernelRows {
		if err := ctx.Err(); err != nil {
			return expectation{}, err
		}
		to := min(n, from+kernelRows)
		kernel.Update(&m, &scratch, q[from*d:to*d], to-from, &pool, s.exclusion(from, to, d))
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
func (s pairs) exclusion(from, to, d int) kernel.Exclusion {
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

// whitened returns z = Bᵀx of each row in float64, rounded last. Rows are centred, as working rows are.
func whitened[T kernel.Float](x *mat.Dense, b prop1.Parts) []T {
	n, dim := x.Dims()
	var p kernel.Projection
	all := b.Joined()
	_, d := all.Dims()
	p.Pack(make([]float64, dim), linalg.Elements(all.T()), dim, d)
	z := make([]T, n*d)
	var scratch kernel.Scratch[float64]
	kernel.Project(&p, z, &scratch, x.RawMatrix().Data, n)
	return z
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
