package lca

import (
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
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
	W     *mat.Dense // d×d: y = W(x−μ), in Coordinates and Components

	// Neighbours are the centres of the Parzen part as x_j − Mean, N×d row-major: subtracted in float64, so that columns
	// of seconds since 1970 keep their digits.
	Neighbours []float32

	Scores *Scores // of the neighbours; nil where they are not known

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
	NLL         float64 // running leave-one-out (prequential) NLL, nats/row, all constants; NaN before the first
	GaussianNLL float64 // the same for the running single Gaussian; NaN before the first
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
	Wanted      uint64    // rows that a first model takes, where there were fewer when the set that it was learnt from ended; 0: there were enough
	Effective   float64   // mean effective number of neighbours exp(H(λ_i))
	Choice      *Choice   // the last choice by the data; nil before the first
	Drift       float64   // largest principal angle between the Parzen subspaces of this and the previous reference, radians
}

// parts are B, with their eigenvalues.
func (m *Model) parts() prop1.Parts { return prop1.Parts{BG: m.BG, BL: m.BL, Ratio: m.Ratio} }

// shape is that of the kernels.
func (m *Model) shape() kernel.Shape { return kernel.Shape{DOF: m.DOF} }

// Gaussian returns d_G, the number of columns of BG.
func (m *Model) Gaussian() int { return prop1.Columns(m.BG) }

// Parzen returns d_P, the number of columns of BL.
func (m *Model) Parzen() int { return prop1.Columns(m.BL) }
