package lca_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

func TestWhy(t *testing.T) {
	c, m := readRows(t)
	x, s := dense(c.Rows).RawMatrix().Data, m.NewScorer()
	n := len(c.Rows)
	all, three := make([]lca.Gain, n*m.Dim), make([]lca.Gain, n*3)
	s.Why(all, x, n)
	s.Why(three, x, n)
	for i, want := range c.Why {
		for rank, g := range all[i*m.Dim : (i+1)*m.Dim] {
			nearly(t, "nats", g.Nats, want[g.Column], 1e-5*want[g.Column])
			if rank > 0 && g.Nats > all[i*m.Dim+rank-1].Nats {
				t.Errorf("row %d: %v is not in order", i, all[i*m.Dim:(i+1)*m.Dim])
			}
		}
		if !slices.Equal(three[i*3:(i+1)*3], all[i*m.Dim:][:3]) {
			t.Errorf("row %d: the first three are %v of %v", i, three[i*3:(i+1)*3], all[i*m.Dim:(i+1)*m.Dim])
		}
	}
	if a := testing.AllocsPerRun(10, func() { s.Why(three, x, n) }); a != 0 {
		t.Errorf("%v allocations per call", a)
	}
	s.Why(nil, nil, 0)
}

// TestWhyIsTheLeastScore searches the best value of each column step by step. With one neighbour the closed form is exact, for
// both kernels, with and without Gaussian directions.
func TestWhyIsTheLeastScore(t *testing.T) {
	for _, dof := range []int{0, 4} {
		for parzen := range 4 {
			t.Run(fmt.Sprint(dof, "/", parzen), func(t *testing.T) {
				m := oneNeighbour(parzen, dof)
				s, gains := m.NewScorer(), make([]lca.Gain, 3)
				for _, row := range [][]float64{{1, 2, 3}, {0.2, -0.1, 0}, {-30, 1, 12}, {400, -3, 0.5}} {
					s.Why(gains, row, 1)
					before := -m.LogDensity(nil, mat.NewDense(1, 3, row))[0]
					for _, g := range gains {
						want := before - least(m, row, g.Column)
						nearly(t, fmt.Sprintf("column %d of %v", g.Column, row), g.Nats, want, 1e-6*(1+want))
					}
				}
			})
		}
	}
}

// oneNeighbour is a model of three columns with one neighbour that is not its mean.
func oneNeighbour(parzen, dof int) *lca.Model {
	b := mat.NewDense(3, 3, []float64{1, 0.4, -0.3, 0.2, 1.5, 0.1, -0.5, 0.3, 0.8})
	m := &lca.Model{
		Dim: 3, Mean: []float64{0.5, -1, 0.25}, BL: &mat.Dense{}, BG: &mat.Dense{}, W: mat.NewDense(3, 3, nil),
		Kernel: lca.KernelGaussian, DOF: dof, Neighbours: []float32{1.5, 0.75, -2},
	}
	if dof > 0 {
		m.Kernel = lca.KernelStudent
	}
	if parzen > 0 {
		m.BL = mat.DenseCopyOf(b.Slice(0, 3, 0, parzen))
	}
	if parzen < 3 {
		m.BG = mat.DenseCopyOf(b.Slice(0, 3, parzen, 3))
	}
	return m
}

// least returns the least −log p over the values of column k: it halves the steps around the best of a grid.
func least(m *lca.Model, row []float64, k int) float64 {
	const points = 2001
	centre, reach, best := 0.0, 2000.0, math.Inf(1)
	for range 12 {
		x := mat.NewDense(points, 3, nil)
		for i := range points {
			x.SetRow(i, row)
			x.Set(i, k, centre+reach*(2*float64(i)/(points-1)-1))
		}
		for i, p := range m.LogDensity(nil, x) {
			if -p < best {
				best, centre = -p, x.At(i, k)
			}
		}
		reach /= 20
	}
	return best
}

// TestWhyNotFinite: a constant column that is where it was gains nothing, and a row beyond all numbers has no figures.
func TestWhyNotFinite(t *testing.T) {
	m := oneNeighbour(2, 0)
	m.BL.SetRow(1, []float64{0, 0})
	m.BG.SetRow(1, []float64{0})
	s, gains := m.NewScorer(), make([]lca.Gain, 6)
	s.Why(gains, []float64{1, m.Mean[1], 3, math.NaN(), 0, 0}, 2)
	if last := gains[2]; last.Column != 1 || last.Nats != 0 {
		t.Errorf("a constant column gains %v", last)
	}
	for _, g := range gains[3:] {
		if g.Column != 1 && g.Nats == g.Nats {
			t.Errorf("column %d of a row with NaN gains %v", g.Column, g.Nats)
		}
	}
}

func BenchmarkWhy(b *testing.B) {
	for _, dof := range []int{0, 4} {
		b.Run(fmt.Sprint("dof=", dof), func(b *testing.B) {
			m := largeModel(3000, 16, 8, dof)
			s := m.NewScorer()
			x := make([]float64, 256*16)
			for k := range x {
				x[k] = float64(m.Neighbours[k]) + 0.1
			}
			score, gains := make([]float32, 256), make([]lca.Gain, 256*3)
			b.Run("score", func(b *testing.B) {
				for b.Loop() {
					s.Score(nil, score, x, 256)
				}
			})
			b.Run("why", func(b *testing.B) {
				for b.Loop() {
					s.Why(gains, x, 256)
				}
			})
			b.Run("neighbours", func(b *testing.B) {
				for b.Loop() {
					m.ScoreNeighbours(lca.Admissible{})
				}
			})
		})
	}
}

func largeModel(n, d, parzen, dof int) *lca.Model {
	m := &lca.Model{Dim: d, Mean: make([]float64, d), BL: mat.NewDense(d, parzen, nil), BG: mat.NewDense(d, d-parzen, nil), W: mat.NewDense(d, d, nil), DOF: dof}
	for k := range d {
		if k < parzen {
			m.BL.Set(k, k, 2)
		} else {
			m.BG.Set(k, k-parzen, 1)
		}
	}
	five, _ := toy("five", n, d-2, 3)
	for _, v := range five.RawMatrix().Data {
		m.Neighbours = append(m.Neighbours, float32(v))
	}
	return m
}
