package lca_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/lca-stream/lca-stream/lca"
)

// rowsCase is what testdata/rows.json holds: a model, rows, and what was computed for them in numpy, pair by pair.
type rowsCase struct {
	Mean        []float64
	BL, BG      [][]float64
	Neighbours  [][]float64
	Rows        [][]float64
	Why         [][]float64
	LeaveOneOut []float64 `json:"leave_one_out"`
	Scores      []float64
	At, P       []float64
}

func readRows(t *testing.T) (c rowsCase, m *lca.Model) {
	t.Helper()
	text, err := os.ReadFile("testdata/rows.json")
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	m = &lca.Model{Dim: len(c.Mean), Mean: c.Mean, BL: dense(c.BL), BG: dense(c.BG), Kernel: lca.KernelGaussian}
	m.W = mat.NewDense(m.Dim, m.Dim, nil)
	for _, row := range c.Neighbours {
		for k, v := range row {
			m.Neighbours = append(m.Neighbours, float32(v-m.Mean[k]))
		}
	}
	return c, m
}

func TestLeaveOneOutScores(t *testing.T) {
	c, m := readRows(t)
	m.ScoreNeighbours(lca.Admissible{})
	slices.Sort(c.LeaveOneOut)
	for i, want := range c.LeaveOneOut {
		nearly(t, "score", m.Scores.Sorted[i], want, 1e-9*math.Abs(want))
	}
}

// TestAdmissible: copies and the neighbours that Near names are left out of the mean.
func TestAdmissible(t *testing.T) {
	_, m := readRows(t)
	n := len(m.Neighbours) / m.Dim
	m.ScoreNeighbours(lca.Admissible{})
	alone := slices.Clone(m.Scores.Sorted)
	copied := *m
	copied.Neighbours = slices.Concat(m.Neighbours, m.Neighbours)
	copied.ScoreNeighbours(lca.Admissible{})
	for i, want := range alone {
		nearly(t, "score with copies", copied.Scores.Sorted[2*i], want, 1e-12*math.Abs(want))
	}
	copied.ScoreNeighbours(lca.Admissible{Copies: true, Near: func(row int) []int32 { return []int32{int32((row + n) % (2 * n))} }})
	for i, want := range alone {
		nearly(t, "score without the copy that is named", copied.Scores.Sorted[2*i], want, 1e-12*math.Abs(want))
	}
	copied.ScoreNeighbours(lca.Admissible{Copies: true})
	if got := copied.Scores.Sorted[2*n-1]; !(got < alone[n-1]-1) {
		t.Errorf("with its copy the last row scores %v, without %v", got, alone[n-1])
	}
	m.ScoreNeighbours(lca.Admissible{Near: func(int) []int32 {
		all := make([]int32, n)
		for j := range all {
			all[j] = int32(j)
		}
		return all
	}})
	if m.Scores != nil {
		t.Errorf("rows without any neighbour have the scores %v", m.Scores)
	}
}

// TestP: the formula, with the tail of the numpy program, which fits it by moments.
func TestP(t *testing.T) {
	c, _ := readRows(t)
	s := lca.NewScores(slices.Clone(c.Scores))
	u := s.Tail.U
	first, _ := slices.BinarySearch(s.Sorted, math.Nextafter(u, math.Inf(1)))
	mean, variance := stat.PopMeanVariance(s.Sorted[first:], nil)
	mean -= u
	s.Tail.Xi = 0.5 * (1 - mean*mean/variance)
	s.Tail.Beta = mean * (1 - s.Tail.Xi)
	for i, at := range c.At {
		nearly(t, "p", s.P(at), max(c.P[i], lca.LeastP), 1e-9)
	}
	if p := s.P(math.NaN()); p == p {
		t.Errorf("p of NaN is %v", p)
	}
	if p := s.P(math.Inf(1)); p != lca.LeastP {
		t.Errorf("p of +Inf is %v", p)
	}
	if a := testing.AllocsPerRun(10, func() { s.P(1) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

// TestPFalls: a higher score is never more probable, for tails of each shape, where it ends too.
func TestPFalls(t *testing.T) {
	for _, s := range []*lca.Scores{
		lca.NewScores([]float64{1, 2, 3}), lca.NewScores([]float64{4, 4, 4, 4}), lca.NewScores([]float64{7}),
		{Sorted: []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Tail: lca.Tail{U: 9, Xi: 0, Beta: 2}},
		{Sorted: []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Tail: lca.Tail{U: 9, Xi: 1e-9, Beta: 2}},
		{Sorted: []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Tail: lca.Tail{U: 9, Xi: -0.3, Beta: 2}},
		{Sorted: []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Tail: lca.Tail{U: 9, Xi: 0.9, Beta: 2}},
	} {
		last := 1.0
		for at := -2.0; at < 60; at += 1. / 16 {
			p := s.P(at)
			if !(p <= last && p >= lca.LeastP) {
				t.Fatalf("%+v: p of %v is %v after %v", s, at, p, last)
			}
			last = p
		}
	}
	limit := lca.Scores{Sorted: []float64{0}, Tail: lca.Tail{Xi: 1e-9, Beta: 2}}
	nearly(t, "p as xi goes to 0", limit.P(3), 0.1*math.Exp(-1.5), 1e-9)
	limit.Tail.Xi = 0
	nearly(t, "p with xi = 0", limit.P(3), 0.1*math.Exp(-1.5), 1e-15)
	if s := lca.NewScores([]float64{math.NaN(), math.Inf(1)}); s != nil {
		t.Errorf("scores that are not finite are %v", s)
	}
}
