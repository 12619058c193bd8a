package lca

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

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
