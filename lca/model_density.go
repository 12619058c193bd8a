package lca

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// LogDensity stores in dst, and returns, log p(x_i) for each row of x under the model and its N
// neighbours, all constants included (section 4, before eq. 6):
//
//	log p(x) = −½|B_Gᵀ(x−μ)|² − ½ d log 2π + log|det(B_G,B_L)| + log[(1/N) Σ_j exp(−½|B_Lᵀ(x−x_j)|²)]
//
// or, with KernelStudent, Γ((ν+p)/2) / (Γ(ν/2) (νπ)^(p/2)) · (1+δ/ν)^(−(ν+p)/2) in place of each (2π)^(−p/2) exp(−½δ), where
// δ = |B_Lᵀ(x−x_j)|², p = d_P and ν = DOF. d is the number of active columns. From it is subtracted what a column costs that was constant while the
// model was learnt and has moved (prop1.Departure). No neighbour is left out, so a row that is one of them gains;
// LeaveOneOutNLL is for those. A nil dst is allocated; it panics on wrong shapes.
func (m *Model) LogDensity(dst []float64, x *mat.Dense) []float64 {
	return m.logDensity(dst, x, m.offsets(), nil)
}

// TestNLL returns the mean of −log p over the rows of test, nats per row, with the rows of train
// as the centres x_j in full precision, where LogDensity has the model's float32 neighbours.
func (m *Model) TestNLL(test, train *mat.Dense) float64 {
	return -mean(m.logDensity(nil, test, shifted(train, m.Mean), nil))
}

// LeaveOneOutNLL returns the paper's cost L/n: the mean over the rows of x of −log p, nats per row,
// each with all the other rows as centres and the sum divided by n−1 (section 3, eq. 1).
func (m *Model) LeaveOneOutNLL(x *mat.Dense) float64 {
	return -mean(m.logDensity(nil, x, shifted(x, m.Mean), identity(x)))
}

// logDensity is LogDensity with the given centres, less μ; self names the one to leave out for each row.
func (m *Model) logDensity(dst []float64, x, centres *mat.Dense, self []int) []float64 {
	n, d := x.Dims()
	if d != m.Dim || (dst != nil && len(dst) != n) {
		panic("lca: LogDensity: want rows of the model's width, and dst nil or one entry a row")
	}
	if dst == nil {
		dst = make([]float64, n)
	}
	b := m.parts()
	centred := shifted(x, m.Mean)
	constant, constants := normaliser(b, m.shape()), b.Constants(nil, d)
	for i, g := range halfSquares(centred, b.BG) {
		dst[i] = -constant - g
		for _, k := range constants {
			dst[i] -= prop1.Departure(x.At(i, k), m.Mean[k])
		}
	}
	if prop1.Columns(b.BL) == 0 {
		return dst
	}
	k := newKernel(pairs{q: centred, p: centres, self: self, shape: m.shape()}, b)
	blocks := (n + blockRows - 1) / blockRows
	// Without a context that can end, eachIndex cannot fail.
	_ = eachIndex(context.Background(), blocks, func(block int) {
		from, to := block*blockRows, min(n, (block+1)*blockRows)
		logits := k.logits(from, to)
		for i := from; i < to; i++ {
			row := logits.RawRowView(i - from)
			k.exclude(row, i)
			logSum, admissible, _, _ := k.responsibilities(row)
			dst[i] += logSum - math.Log(float64(admissible))
		}
	})
	return dst
}

// offsets returns the neighbours x_j − μ as a matrix.
func (m *Model) offsets() *mat.Dense {
	if len(m.Neighbours) == 0 {
		return &mat.Dense{}
	}
	x := mat.NewDense(len(m.Neighbours)/m.Dim, m.Dim, nil)
	for i, v := range m.Neighbours {
		x.RawMatrix().Data[i] = float64(v)
	}
	return x
}

// normaliser returns ½ d log 2π − log|det(B_G,B_L)|, with the constant of t kernels where shape is one, and d the number of active columns: the rows
// of B that are all 0 belong to constant columns. Each row is divided by its length first, so that
// columns of 1e-9 and 1e9 do not overflow the determinant.
func normaliser(b prop1.Parts, shape kernel.Shape) float64 {
	all := b.Joined()
	_, d := all.Dims()
	square := mat.NewDense(d, d, nil)
	logDet := 0.0
	for row, k := range prop1.NonzeroRows(all) {
		length := floats.Norm(all.RawRowView(k), 2)
		floats.ScaleTo(square.RawRowView(row), 1/length, all.RawRowView(k))
		logDet += math.Log(length)
	}
	lapack64.Getrf(square.RawMatrix(), make([]int, d)) // mat.LogDet estimates the condition number besides, which takes most of its time
	logs := make([]float64, d)
	for i := range logs {
		logs[i] = math.Log(math.Abs(square.At(i, i)))
	}
	return 0.5*float64(d)*math.Log(2*math.Pi) - logDet - floats.Sum(logs) + shape.Excess(prop1.Columns(b.BL))
}

// halfSquares returns ½|Bᵀy_i|² for each row of y.
func halfSquares(y, b *mat.Dense) []float64 {
	n, _ := y.Dims()
	if prop1.Columns(b) == 0 {
		return make([]float64, n)
	}
	var z mat.Dense
	linalg.Mul(&z, y, b)
	half := squaredNorms(&z)
	floats.Scale(0.5, half)
	return half
}

// shifted returns x − μ, in float64 before anything else.
func shifted(x *mat.Dense, mean []float64) *mat.Dense {
	n, d := x.Dims()
	y := mat.NewDense(n, d, nil)
	for i := range n {
		floats.SubTo(y.RawRowView(i), x.RawRowView(i), mean)
	}
	return y
}
