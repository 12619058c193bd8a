package lca

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/recent"
)

// Model is what was learnt: B = (B_G, B_L), the mean, and the neighbours of the Parzen part.
// It is immutable once returned, and safe for concurrent use. All fields are in the units of the
// input (running scales are folded in). A constant column has zero weight in W, BG and BL, and
// a zero row and column in CG and CL; the number of active columns is BG's columns + BL's columns. Scores see when it moves: see LogDensity.
type Model struct {
	Dim  int           // d
	Mean []float64     // μ, d
	CG   *mat.SymDense // C_G + ν_g I, d×d (section 4, below eq. 6)
	CL   *mat.SymDense // C_L + ν I, d×d (eq. 5), after the metric's projection
	BG   *mat.Dense    // d×d_G; an empty mat.Dense when d_G = 0 (Proposition 1)
	BL   *mat.Dense    // d×d_P; an empty mat.Dense when d_P = 0
	// Ratio holds the eigenvalues e of I_G C_L I_G ascending: first the d_P of BL's columns, then the d_G of BG's.
	Ratio []float64
	W     *mat.Dense // d×d: y = W(x−μ), in Coordinates and Components; nil of a Young model

	// Neighbours are the centres of the Parzen part as x_j − Mean, N×d row-major: subtracted in float64, so that columns
	// of seconds since 1970 keep their digits.
	Neighbours []float32

	Scores *Scores // of the neighbours; nil where they are not known

	Recent *recent.Evaluator // scores the last rows of a series; nil where it is not learnt

	Kind        Kind
	Metric      Metric
	Kernel      Kernel // of the Parzen part
	DOF         int    // degrees of freedom of KernelStudent, 0 otherwise
	Coordinates Coordinates
	Components  Components
	Info        Info
}

// Info is how a Model came to be; it is carried in a snapshot's metadata.
type Info struct {
	Rows        uint64  // rows handed to Learn (or Fit) so far
	Learnt      uint64  // rows that entered the statistics
	NLL         float64 // running NLL of rows before they are learnt (prequential), and of a set that has ended the leave-one-out NLL, nats/row, all constants; NaN where there is none
	GaussianNLL float64 // the same for a single Gaussian
	Gamma       float64 // γ
	Nu          float64 // ν as configured
	NuGaussian  float64 // ν_g as configured
	NuUnit      Unit
	Rank        int       // of MetricLowRank, 0 otherwise
	Scales      []float64 // s of each column, of which ν is a multiple; nil where they follow from CG, as they do without sparse columns
	Minibatch   int       // B
	PassRows    float64   // the current n
	Alarms      uint64    // drift alarms so far
	Gated       uint64    // rows left out by the outlier gate
	Copies      uint64    // pairs left out as near copies or the same record
	Constant    []int     // indices of columns found constant
	Wanted      uint64    // rows that a first model takes, where there were fewer when the set that it was learnt from ended, or of a Young model so far; 0: there were enough
	Effective   float64   // mean effective number of neighbours exp(H(λ_i))
	Choice      *Choice   // the last choice by the data; nil before the first
	Drift       float64   // largest principal angle between the Parzen subspaces of this and the previous reference, radians
}

// parts are B, with their eigenvalues.
func (m *Model) parts() prop1.Parts { return prop1.Parts{BG: m.BG, BL: m.BL, Ratio: m.Ratio} }

// shape is that of the kernels.
func (m *Model) shape() kernel.Shape { return kernel.Shape{DOF: m.DOF} }

// Young reports whether too few rows have come for a metric: Recent, Mean and Info are all there is, and no row is whitened.
func (m *Model) Young() bool { return m.Recent != nil && m.W == nil && len(m.Ratio) == 0 }

// Gaussian returns d_G, the number of columns of BG.
func (m *Model) Gaussian() int { return prop1.Columns(m.BG) }

// Parzen returns d_P, the number of columns of BL.
func (m *Model) Parzen() int { return prop1.Columns(m.BL) }

// Whiten stores y = W(x−μ) in dst for each row of x, in float64 and subtracted first. dst may be
// empty, and may be x. Distances between rows of y are those of the learnt metric, whatever the
// model's Coordinates. It panics on wrong shapes.
func (m *Model) Whiten(dst, x *mat.Dense) {
	if _, d := x.Dims(); d != m.Dim {
		panic("lca: Whiten: want rows of the model's width")
	}
	y := shifted(x, m.Mean)
	if dst != x {
		dst.Mul(y, m.W.T())
		return
	}
	var z mat.Dense
	z.Mul(y, m.W.T())
	dst.Copy(&z)
}

// whitening returns a d×d W with WᵀW = B Bᵀ, where B holds the columns that comps asks for.
//
//	components   y = (B_L, B_G)ᵀ(x−μ), Parzen first, e ascending; rows of 0 below, so that y keeps d columns
//	symmetric    y = M^½(x−μ), M = B Bᵀ
//	aligned      symmetric too where there is no predecessor to align to
func whitening(parts prop1.Parts, coords Coordinates, comps Components) *mat.Dense {
	var b *mat.Dense
	switch comps {
	case ComponentsAll:
		b = parts.Joined()
	case ComponentsParzen:
		b = parts.BL
	case ComponentsWeighted:
		b = parts.Weighted()
	}
	d, _ := parts.Joined().Dims()
	w := mat.NewDense(d, d, nil)
	if prop1.Columns(b) == 0 || len(prop1.NonzeroRows(b)) == 0 {
		return w
	}
	if coords == CoordinatesComponents {
		w.Slice(0, prop1.Columns(b), 0, d).(*mat.Dense).Copy(b.T())
		return w
	}
	w.Copy(prop1.MetricRoot(b))
	return w
}

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
	return 0.5*float64(d)*math.Log(2*math.Pi) - logDet - logAbsDet(square) + shape.Excess(prop1.Columns(b.BL))
}

// wide is the order from which gonum takes several times as long for a determinant as linalg; of a smaller one it needs no blocks.
const wide = 129

// logAbsDet returns log|det A|, and overwrites A. mat.LogDet estimates the condition number besides, which takes most of its time.
func logAbsDet(a *mat.Dense) float64 {
	raw := a.RawMatrix()
	if raw.Rows >= wide {
		w := linalg.Borrow()
		defer w.Return()
		return w.LogAbsDet(raw.Data, raw.Rows)
	}
	lapack64.Getrf(raw, make([]int, raw.Rows))
	logs := make([]float64, raw.Rows)
	for i := range logs {
		logs[i] = math.Log(math.Abs(a.At(i, i)))
	}
	return floats.Sum(logs)
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

// Angle returns how far the Parzen subspace has turned from m to other, in radians: the largest of
// their principal angles. It is 0 where either has no Parzen direction, and NaN where the models have
// different columns.
func (m *Model) Angle(other *Model) float64 {
	all := m.Angles(other)
	switch {
	case m.Dim != other.Dim:
		return math.NaN()
	case m.Parzen() == 0 || other.Parzen() == 0:
		return 0
	case len(all) == 0:
		return math.Pi / 2
	}
	return all[len(all)-1]
}

// Angles returns the principal angles between the spans of the two B_L in radians, ascending, for rows
// whitened by other's C_G (as they are, where other has none). There are as many as the smaller span has
// dimensions; none where either has no Parzen direction or the columns differ.
func (m *Model) Angles(other *Model) []float64 {
	if m.Dim != other.Dim || m.Parzen() == 0 || other.Parzen() == 0 {
		return nil
	}
	cov := make([]float64, m.Dim*m.Dim)
	for i := range m.Dim {
		cov[i*m.Dim+i] = 1
		for j := 0; j < m.Dim && other.CG != nil; j++ {
			cov[i*m.Dim+j] = other.CG.At(i, j)
		}
	}
	w, pair := linalg.Borrow(), new(prop1.Spans)
	defer w.Return()
	all := pair.Angles(prop1.Span{Data: linalg.Elements(m.BL), Columns: m.Parzen()}, prop1.Span{Data: linalg.Elements(other.BL), Columns: other.Parzen()}, m.Dim, cov, w)
	for i, a := range all {
		if a < 1e-7 {
			all[i] = 0 // an arc cosine near 1 keeps half the digits: the rest is rounding
		}
	}
	return all
}

// LogDet returns log|det(B_G, B_L)| over the active columns: by how much the metric concentrates or
// thins out. It enters log p(x) as it is.
func (m *Model) LogDet() float64 {
	b := prop1.Parts{BG: m.BG, BL: m.BL}
	return float64(m.Gaussian()+m.Parzen())/2*math.Log(2*math.Pi) - normaliser(b, kernel.Shape{})
}

// View returns the model with W in other coordinates or components; all else is shared. From one
// aligned model to another only the components change: the rotation O of y = O M^½(x−μ) is kept,
// so that y stays as steady as the aligned coordinates are. A model that is not aligned has no O,
// and its aligned view is the symmetric one.
func (m *Model) View(coords Coordinates, comps Components) (*Model, error) {
	if m.Coordinates == coords && m.Components == comps || m.Young() {
		return m, nil
	}
	if coordinatesNames[coords] == "" || componentsNames[comps] == "" {
		return nil, fmt.Errorf("lca: view: no such coordinates or components: %v, %v", coords, comps)
	}
	v := *m
	v.Coordinates, v.Components = coords, comps
	v.W = whitening(m.parts(), coords, comps)
	if coords != CoordinatesAligned || m.Coordinates != CoordinatesAligned {
		return &v, nil
	}
	rotation, err := prop1.Polar(m.W, whitening(m.parts(), CoordinatesSymmetric, m.Components))
	if err != nil {
		return nil, err
	}
	var w mat.Dense
	w.Mul(rotation, v.W)
	v.W = &w
	return &v, nil
}

// Choice says what was compared when a learner chose by the data, and what it took: see package online.
type Choice struct {
	Rows       uint64 // rows learnt when the candidates were fitted
	Candidates []Trial
	Taken      int // index of the candidate that was taken; 0 is what was there before
}

// FirstFit is the name of the first candidate where a learner begins: there is nothing before it.
const FirstFit = "first fit"

// Beginning reports whether this is the choice with which a learner begins. Its candidates were fitted to the rows that judged them, so the NLL
// of each has a part for the numbers that it fits.
func (c *Choice) Beginning() bool { return len(c.Candidates) > 0 && c.Candidates[0].Name == FirstFit }

// Other reports whether the candidate that was taken has other settings than the one before it, or another split. If not,
// the same model was fitted again.
func (c *Choice) Other() bool {
	was, now := c.Candidates[0], c.Candidates[c.Taken]
	return was.Parzen != now.Parzen || was.Nu != now.Nu || was.NuUnit != now.NuUnit || was.Kernel != now.Kernel
}

// Trial is a candidate of a Choice.
type Trial struct {
	Name   string  // "current", FirstFit, "gaussian", what Search calls its candidates, or the settings that it changes
	Parzen int     // d_P
	Nu     float64 // ν
	NuUnit Unit
	Kernel Kernel
	NLL    float64 // leave-one-out, on rows of the pool held out from the fits unless it is the Beginning ("current" and "gaussian" have learnt them), nats per row; +Inf where it collapsed
}
