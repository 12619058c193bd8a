package prop1

import (
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// Narrow is a covariance of a family with few numbers, kept as these. With orthonormal columns U
//
//	Σ = diag(v) + U diag(w − v) Uᵀ,   v the same in each column where there are any U
//
// so that its roots and its inverse are such matrices too (what Woodbury's formula comes to here), and a product of it with a row
// takes d·r operations in place of d².
type Narrow struct {
	V []float64 // of each column
	W []float64 // along each row of U
	U []float64 // Uᵀ, r×d
}

// Clone returns a copy that shares no memory.
func (s *Narrow) Clone() Narrow {
	return Narrow{V: slices.Clone(s.V), W: slices.Clone(s.W), U: slices.Clone(s.U)}
}

// Times replaces each of the rows of x by its product with Σ^power.
func (s *Narrow) Times(x []float64, rows int, power float64, w *linalg.Workspace) {
	d, r := len(s.V), len(s.W)
	var along []float64
	if r > 0 {
		along = make([]float64, rows*r)
		w.Product(along, r, linalg.Dense(x, d), linalg.Dense(s.U, d).T(), rows, r, d, linalg.Set)
		for l, v := range s.W {
			more := math.Pow(v, power) - math.Pow(s.V[0], power)
			for i := range rows {
				along[i*r+l] *= more
			}
		}
	}
	by := make([]float64, d)
	for k, v := range s.V {
		by[k] = math.Pow(v, power)
	}
	for i := range rows {
		for k, v := range x[i*d:][:d] {
			x[i*d+k] = v * by[k]
		}
	}
	if r > 0 {
		w.Product(x, d, linalg.Dense(along, r), linalg.Dense(s.U, d), rows, d, r, linalg.Add)
	}
}

// Around replaces the symmetric matrix F by SΣ^½ F Σ^½S, symmetric to the bit, with S = diag(scale). Where Σ^½ is a (I + U D Uᵀ), that is
//
//	a² S (F + U Pᵀ + P Uᵀ) S,   P = (F U + ½ U D UᵀF U) D
func (s *Narrow) Around(f, scale []float64, w *linalg.Workspace) {
	d, r := len(s.V), len(s.W)
	if r > 0 {
		both, inner, more := make([]float64, 3*r*d), make([]float64, r*r), make([]float64, r) // Uᵀ, Pᵀ, Uᵀ
		u, p := both[:r*d], both[r*d:2*r*d]
		copy(u, s.U)
		copy(both[2*r*d:], u)
		w.Product(p, d, linalg.Dense(u, d), linalg.Dense(f, d), r, d, d, linalg.Set)
		w.Product(inner, r, linalg.Dense(p, d), linalg.Dense(u, d).T(), r, r, d, linalg.Set)
		for l, v := range s.W {
			more[l] = math.Sqrt(v/s.V[0]) - 1
			for k := range r {
				inner[k*r+l] *= more[l] / 2
			}
		}
		w.Product(p, d, linalg.Dense(inner, r), linalg.Dense(u, d), r, d, r, linalg.Add)
		for l, v := range more {
			for k := range d {
				p[l*d+k] *= v
			}
		}
		w.Product(f, d, linalg.Dense(both[:2*r*d], d).T(), linalg.Dense(both[r*d:], d), d, d, 2*r, linalg.Add)
	}
	roots := make([]float64, d)
	for k, v := range s.V {
		roots[k] = math.Sqrt(v) * scale[k]
	}
	for i, v := range roots {
		row := f[i*d:][:i+1]
		for j, o := range roots[:i+1] {
			row[j] *= v * o
		}
	}
	linalg.Mirror(f, d)
}

// LogDet returns log det Σ.
func (s *Narrow) LogDet() (sum float64) {
	for _, v := range s.V[len(s.W):] {
		sum += math.Log(v)
	}
	for _, v := range s.W {
		sum += math.Log(v)
	}
	return sum
}

// InverseTrace returns tr Σ⁻¹.
func (s *Narrow) InverseTrace() (sum float64) {
	for _, v := range s.V[len(s.W):] {
		sum += 1 / v
	}
	for _, v := range s.W {
		sum += 1 / v
	}
	return sum
}

// Diagonal sets Σ to the best of that family for a covariance with this diagonal.
func (s *Narrow) Diagonal(diagonal []float64) error {
	s.V = append(s.V[:0], diagonal...)
	return s.check()
}

// LowRank sets Σ to the best of that family, of r directions, for a covariance with this trace. r may be 0: the isotropic family. most is as in linalg's Leading.
func (s *Narrow) LowRank(c linalg.Operator, trace float64, d, r, most int, w *linalg.Workspace) error {
	s.V, s.W = linalg.Resize(s.V, d), s.W[:0]
	if r > 0 {
		values, vectors, err := w.Leading(c, d, r, s.U, most)
		if err != nil {
			return fmt.Errorf("lca: low-rank metric: %w", err)
		}
		s.W, s.U = append(s.W, values[:r]...), vectors
	}
	for _, v := range s.W {
		trace -= v
	}
	for k := range s.V {
		s.V[k] = trace / float64(d-r)
	}
	return s.check()
}

func (s *Narrow) check() error {
	for _, part := range [][]float64{s.V, s.W} {
		for _, v := range part {
			if !(v > 0) || math.IsInf(v, 0) {
				return fmt.Errorf("lca: C_L has the variance %.3g: %w", v, ErrSingular)
			}
		}
	}
	return nil
}
