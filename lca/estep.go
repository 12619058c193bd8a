package lca

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

const (
	// Rows of λ held at once. Sums run within a block and then over blocks in order, whatever the
	// number of threads, so that a fit gives the same bits on every machine of the same architecture.
	blockRows = 128
	// A weight below e^−60 ≈ 1e−26 of the row's largest is set to 0: a million of them are beyond the
	// last bit of every sum they enter, and exact zeros spare the product ΛX most of its work and all subnormals.
	negligible = -60
)

// expectation is what an E-step yields.
type expectation struct {
	CL         *mat.SymDense // Ĉ_L, averaged over the rows that have a neighbour; nil if not asked for
	LogSum     []float64     // log Σ_j exp(−½|B_Lᵀ(x_i−x_j)|²) over the admissible j, or of t kernels; −Inf where there is none
	Admissible []int         // their number
	Effective  float64       // mean exp(entropy of λ_i); of t kernels 1/Σ_j λ_ij²
	Used       int           // rows with at least one admissible neighbour
	Copies     int           // pairs left out as near copies
}

// eStep computes λ_ij = exp(−½|B_Lᵀ(x_i−x_j)|²) / Σ_k exp(−½|B_Lᵀ(x_i−x_k)|²), λ_ii = 0 (eqs. 3, 4;
// Algorithm 1), and from it the average of the local covariances
//
//	C_L = (1/n) Σ_ij λ_ij (x_i−x_j)(x_i−x_j)ᵀ     (eq. 5; section 4, below eq. 6)
//
// not pair by pair, which takes n²d² operations, but as in localCovariance. The kernels do the same
// sums, faster (kernelStep). With t kernels λ is their share, and each pair counts times its pull (kernel.Shape).
func eStep(ctx context.Context, s *pairs, b prop1.Parts, wantCL bool) (expectation, error) {
	switch s.precision {
	case Float32:
		return kernelStep[float32](ctx, s, b)
	case Float64:
		return kernelStep[float64](ctx, s, b)
	}
	n, d := s.q.Dims()
	out := expectation{LogSum: make([]float64, n), Admissible: make([]int, n)}
	k := newKernel(*s, b)
	near := mat.NewDense(n, d, nil) // ΛX: row i is Σ_j λ_ij x_j
	pulled := make([]float64, n)    // the sum of row i of Λ, 1 for Gaussian kernels
	blocks := (n + blockRows - 1) / blockRows
	sums, copies, effective := make([][]float64, blocks), make([]int, blocks), make([]float64, blocks)
	err := eachIndex(ctx, blocks, func(block int) {
		from, to := block*blockRows, min(n, (block+1)*blockRows)
		lambda := k.logits(from, to)
		sums[block] = make([]float64, k.neighbours())
		for i := from; i < to; i++ {
			row := lambda.RawRowView(i - from)
			copies[block] += k.exclude(row, i)
			var eff float64
			out.LogSum[i], out.Admissible[i], eff, pulled[i] = k.responsibilities(row)
			effective[block] += eff
			floats.Add(sums[block], row)
		}
		if wantCL {
			near.Slice(from, to, 0, d).(*mat.Dense).Mul(lambda, s.p)
		}
	})
	if err != nil {
		return expectation{}, err
	}
	column := make([]float64, k.neighbours()) // λᵀ1
	for block := range blocks {
		floats.Add(column, sums[block])
		out.Copies += copies[block]
		out.Effective += effective[block]
	}
	for _, m := range out.Admissible {
		if m > 0 {
			out.Used++
		}
	}
	out.Effective /= math.Max(float64(out.Used), 1)
	if wantCL && out.Used > 0 {
		out.CL = localCovariance(s, near, column, pulled, out)
	}
	return out, nil
}

// localCovariance is eq. 5 multiplied out, with S = diag(λᵀ1):
//
//	Σ_ij λ_ij (x_i−x_j)(x_i−x_j)ᵀ = (Q−ΛP)ᵀ(Q−ΛP) + [PᵀSP − (ΛP)ᵀ(ΛP)]
//
// Both brackets are positive semidefinite. Rows without a neighbour have λ = 0 and are left out. Where a row of Λ sums to
// W_i rather than 1, as with t kernels, its row of Q is √W_i q_i and its row of ΛP is divided by √W_i.
func localCovariance(s *pairs, near *mat.Dense, column, pulled []float64, e expectation) *mat.SymDense {
	n, d := s.q.Dims()
	offset := mat.NewDense(n, d, nil)
	for i := range n {
		if e.Admissible[i] > 0 {
			q, root := s.q.RawRowView(i), math.Sqrt(pulled[i])
			if root != 1 {
				floats.Scale(1/root, near.RawRowView(i))
				q = floats.ScaleTo(make([]float64, d), root, q)
			}
			floats.SubTo(offset.RawRowView(i), q, near.RawRowView(i))
		}
	}
	weighted := mat.DenseCopyOf(s.p) // √S P
	for j, w := range column {
		floats.Scale(math.Sqrt(w), weighted.RawRowView(j))
	}
	var c mat.SymDense
	c.SymOuterK(1, weighted.T())
	c.SymRankK(&c, -1, near.T())
	c.SymRankK(&c, 1, offset.T())
	c.ScaleSym(1/float64(e.Used), &c)
	return &c
}

// softmax turns a row of logits into weights λ that sum to 1, with the exact maximum, so that a
// row gives weight 1 to its nearest neighbour however far away that is. A logit of −Inf is not admissible. It returns
// log Σ exp, the number of admissible logits and exp(entropy).
func softmax(row []float64) (logSum float64, admissible int, effective float64) {
	top := math.Inf(-1)
	for _, l := range row {
		if l > top {
			top = l
		}
	}
	if math.IsInf(top, -1) {
		clear(row)
		return top, 0, 0
	}
	sum, energy := 0.0, 0.0
	for j, l := range row {
		if !math.IsInf(l, -1) {
			admissible++
		}
		row[j] = 0
		if l -= top; l > negligible {
			row[j] = math.Exp(l)
			sum += row[j]
			energy -= row[j] * l
		}
	}
	floats.Scale(1/sum, row)
	return top + math.Log(sum), admissible, sum * math.Exp(energy/sum)
}

// eachIndex calls f for 0 … n−1 on as many goroutines as there are processors, and waits for all.
// f must write only to what belongs to its index.
func eachIndex(ctx context.Context, n int, f func(i int)) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				f(i)
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}
