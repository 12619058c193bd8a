package lca_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestImputeIsTheConditionalMean integrates the density over the missing columns.
func TestImputeIsTheConditionalMean(t *testing.T) {
	for _, dof := range []int{0, 1, 2, 4} {
		for parzen := range 4 {
			if dof > 0 && parzen < 3 {
				continue // not exact: see TestImputeFormula
			}
			m := mixture(3, parzen, 7, dof)
			for _, columns := range [][]int{{0}, {2}, {0, 1}, {1, 2}} {
				if len(columns) == 2 && dof > 0 && dof < 4 {
					continue // the tails are too heavy for the grid
				}
				t.Run(fmt.Sprint(dof, "/", parzen, "/", columns), func(t *testing.T) {
					row := []float64{0.3, -0.5, 0.8}
					got := imputed(t, m, row, columns)
					for i, want := range integrated(m, row, columns) {
						nearly(t, fmt.Sprintf("column %d", columns[i]), got[columns[i]], want, 1e-6)
					}
				})
			}
		}
	}
}

// mixture is a model of d columns with n neighbours, whose B and mean are arbitrary.
func mixture(d, parzen, n, dof int) *lca.Model {
	r := rand.New(rand.NewPCG(uint64(d), uint64(parzen)))
	b := mat.NewDense(d, d, nil)
	for i := range d {
		for j := range d {
			b.Set(i, j, 0.6*r.NormFloat64())
		}
		b.Set(i, i, b.At(i, i)+1.5)
	}
	m := &lca.Model{Dim: d, BL: &mat.Dense{}, BG: &mat.Dense{}, W: mat.NewDense(d, d, nil), DOF: dof}
	if dof > 0 {
		m.Kernel = lca.KernelStudent
	}
	if parzen > 0 {
		m.BL = mat.DenseCopyOf(b.Slice(0, d, 0, parzen))
	}
	if parzen < d {
		m.BG = mat.DenseCopyOf(b.Slice(0, d, parzen, d))
	}
	for range d {
		m.Mean = append(m.Mean, r.NormFloat64())
	}
	for range n * d {
		m.Neighbours = append(m.Neighbours, float32(1.5*r.NormFloat64()+0.5))
	}
	return m
}

// imputed returns the row with its columns taken away and filled again.
func imputed(t *testing.T, m *lca.Model, row []float64, columns []int) []float64 {
	t.Helper()
	got := slices.Clone(row)
	for _, k := range columns {
		got[k] = math.NaN()
	}
	if err := m.NewScorer().Impute(context.Background(), got, 1); err != nil {
		t.Fatal(err)
	}
	return got
}

// integrated returns the mean of the one or two columns given the others, by sums over the density on a grid that is even in the
// arc tangent, so that it reaches to infinity.
func integrated(m *lca.Model, row []float64, columns []int) []float64 {
	points, scale := 4001, 3.0
	if len(columns) == 2 {
		points = 401
	}
	values, weights := make([]float64, points), make([]float64, points)
	for i := range points {
		angle := math.Pi * ((float64(i)+0.5)/float64(points) - 0.5)
		values[i], weights[i] = scale*math.Tan(angle), 1/(math.Cos(angle)*math.Cos(angle))
	}
	x := mat.NewDense(points, m.Dim, nil)
	total, mean := 0.0, make([]float64, len(columns))
	for second := range values {
		if len(columns) == 1 && second > 0 {
			break
		}
		for i := range points {
			x.SetRow(i, row)
			x.Set(i, columns[0], values[i])
			if len(columns) == 2 {
				x.Set(i, columns[1], values[second])
			}
		}
		for i, l := range m.LogDensity(nil, x) {
			p := math.Exp(l) * weights[i]
			if len(columns) == 2 {
				p *= weights[second]
				mean[1] += p * values[second]
			}
			total += p
			mean[0] += p * values[i]
		}
	}
	for k := range mean {
		mean[k] /= total
	}
	return mean
}

// TestImputeFormula compares with the formula of Impute written out for one row and one neighbour at a time.
func TestImputeFormula(t *testing.T) {
	const d = 6
	for _, dof := range []int{0, 1, 2, 4, 30} {
		for _, parzen := range []int{0, 1, 2, 4, 6} {
			m := mixture(d, parzen, 60, dof)
			for missing := 1; missing <= d; missing++ {
				row := []float64{0.3, -0.5, 0.8, 1.2, -1, 0.1}
				var columns []int
				for k := range missing {
					columns = append(columns, (5*k+1)%d)
				}
				slices.Sort(columns)
				got := imputed(t, m, row, columns)
				want := formula(m, row, columns)
				for k := range row {
					nearly(t, fmt.Sprintf("dof %d, %d Parzen, column %d without %v", dof, parzen, k, columns), got[k], want[k], 1e-9)
				}
			}
		}
	}
}

// formula fills the columns of a row by least squares for each neighbour.
func formula(m *lca.Model, row []float64, columns []int) []float64 {
	g, p, missing := m.Gaussian(), m.Parzen(), len(columns)
	a := mat.NewDense(g+p, missing, nil)
	for i, k := range columns {
		for c := range g {
			a.Set(c, i, m.BG.At(k, c))
		}
		for c := range p {
			a.Set(g+c, i, m.BL.At(k, c))
		}
	}
	base := slices.Clone(row)
	for _, k := range columns {
		base[k] = 0
	}
	product := func(b *mat.Dense, c int, centre []float64) float64 {
		sum := 0.0
		for k := range base {
			sum += b.At(k, c) * (base[k] - centre[k])
		}
		return sum
	}
	least, offset := 0.0, mat.NewVecDense(g+p, nil)
	for c := range g {
		offset.SetVec(c, product(m.BG, c, m.Mean))
	}
	if g > 0 {
		_, least = leastSquares(a.Slice(0, g, 0, missing), offset.SliceVec(0, g))
	}
	var hat mat.Dense // the part of the missing columns that is the Parzen part's
	var inverse mat.Dense
	hat.Mul(a.T(), a)
	if err := inverse.Inverse(&hat); err != nil {
		panic(err)
	}
	dims := 0
	if p > 0 {
		local := a.Slice(g, g+p, 0, missing)
		hat.Mul(local.T(), local)
		hat.Mul(&inverse, &hat)
		dims = max(1, p-int(math.Round(mat.Trace(&hat))))
	}
	var logs []float64
	var fills [][]float64
	for j := 0; j < len(m.Neighbours); j += m.Dim {
		centre := slices.Clone(m.Mean)
		for k := range centre {
			centre[k] += float64(m.Neighbours[j+k])
		}
		for c := range p {
			offset.SetVec(g+c, product(m.BL, c, centre))
		}
		fill, square := leastSquares(a, offset)
		l := -0.5 * (square - least)
		if m.DOF > 0 {
			l = -0.5 * float64(m.DOF+dims) * math.Log1p((square-least)/float64(m.DOF))
		}
		logs, fills = append(logs, l), append(fills, fill)
	}
	total, top := 0.0, slices.Max(logs)
	for j, l := range logs {
		logs[j] = math.Exp(l - top)
		total += logs[j]
	}
	filled := slices.Clone(row)
	for i, k := range columns {
		filled[k] = 0
		for j, w := range logs {
			filled[k] += w / total * fills[j][i]
		}
	}
	return filled
}

// leastSquares returns the t with the least |at + b|², and that.
func leastSquares(a mat.Matrix, b mat.Vector) ([]float64, float64) {
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDThin) {
		panic("no singular values")
	}
	var t mat.VecDense
	svd.SolveVecTo(&t, b, svd.Rank(1e-12))
	var rest mat.VecDense
	rest.MulVec(a, &t)
	rest.SubVec(b, &rest)
	t.ScaleVec(-1, &t)
	return t.RawVector().Data, mat.Dot(&rest, &rest)
}

// TestImputeCompany: what fills a row does not depend on the rows next to it, and rows without gaps stay as they are.
func TestImputeCompany(t *testing.T) {
	const d, n = 9, 700
	for _, dof := range []int{0, 4} {
		m := mixture(d, 5, 200, dof)
		r := rand.New(rand.NewPCG(3, 4))
		x := make([]float64, n*d)
		for i := range x {
			if x[i] = r.NormFloat64(); i/d%3 > 0 && r.IntN(12) == 0 {
				x[i] = math.NaN()
			}
		}
		all, s := slices.Clone(x), m.NewScorer()
		if err := s.Impute(context.Background(), all, n); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			alone := slices.Clone(x[i*d : (i+1)*d])
			if err := s.Impute(context.Background(), alone, 1); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(alone, all[i*d:(i+1)*d]) {
				t.Fatalf("dof %d, row %d is %v alone and %v among others", dof, i, alone, all[i*d:(i+1)*d])
			}
			for k, v := range x[i*d : (i+1)*d] {
				if v == v && v != alone[k] {
					t.Fatalf("row %d: %v became %v", i, v, alone[k])
				}
			}
		}
	}
}

// TestImputeEdges: columns that are constant, rows without a number, and numbers that are too large for the rest.
func TestImputeEdges(t *testing.T) {
	nan := math.NaN()
	m := mixture(3, 2, 20, 0)
	m.BL.SetRow(1, []float64{0, 0})
	m.BG = &mat.Dense{} // two columns and a constant
	s := m.NewScorer()
	x := []float64{0.3, nan, 0.8, nan, nan, nan, 0.3, 5, nan, nan, 5, 1e200}
	if err := s.Impute(context.Background(), x, 4); err != nil {
		t.Fatal(err)
	}
	if x[1] != m.Mean[1] {
		t.Errorf("a constant column is filled with %v, want %v", x[1], m.Mean[1])
	}
	for k := range 3 {
		want := m.Mean[k]
		for j := k; j < len(m.Neighbours) && k != 1; j += 3 {
			want += float64(m.Neighbours[j]) / 20
		}
		nearly(t, fmt.Sprintf("column %d of a row without numbers", k), x[3+k], want, 1e-12)
	}
	if x[7] != 5 || x[8] != x[8] {
		t.Errorf("the third row is %v", x[6:9])
	}
	if v := x[9]; v-v != 0 || x[10] != 5 || x[11] != 1e200 {
		t.Errorf("a row with a large number is %v", x[9:12])
	}
	large := []float64{nan, math.MaxFloat64, -math.MaxFloat64}
	if err := mixture(3, 2, 20, 0).NewScorer().Impute(context.Background(), large, 1); err != nil {
		t.Fatal(err)
	}
	if large[0]-large[0] == 0 {
		t.Errorf("a row of numbers that are too large is %v", large)
	}
	one := mixture(1, 1, 20, 4)
	for _, m := range []*lca.Model{one, mixture(1, 0, 0, 0)} {
		got, want := imputed(t, m, []float64{3}, []int{0})[0], m.Mean[0]
		for _, v := range m.Neighbours {
			want += float64(v) / float64(len(m.Neighbours))
		}
		nearly(t, "the only column", got, want, 1e-12)
	}
}

// TestImputeEnds: Impute looks at the context between rows that miss different columns.
func TestImputeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := mixture(3, 2, 20, 0).NewScorer()
	if err := s.Impute(ctx, []float64{1, math.NaN(), 2}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Impute returned %v after its context had ended", err)
	}
	if err := s.Impute(ctx, []float64{1, 2, 3}, 1); err != nil {
		t.Errorf("Impute returned %v although there was nothing to do", err)
	}
}

func BenchmarkImpute(b *testing.B) {
	for _, d := range []int{10, 64, 256} {
		for _, dof := range []int{0, 4} {
			m := largeModel(3000, d, d/2, dof)
			s := m.NewScorer()
			x, score := make([]float64, 256*d), make([]float32, 256)
			r := rand.New(rand.NewPCG(1, 2))
			for k := range x {
				x[k] = float64(m.Neighbours[k]) + 0.1
			}
			b.Run(fmt.Sprintf("d=%d/dof=%d/score", d, dof), func(b *testing.B) {
				for b.Loop() {
					s.Score(nil, score, x, 256)
				}
			})
			for _, patterns := range []int{1, 10, 256} {
				b.Run(fmt.Sprintf("d=%d/dof=%d/patterns=%d", d, dof, patterns), func(b *testing.B) {
					holes := make([]float64, len(x))
					copy(holes, x)
					for i := range 256 {
						holes[i*d+i%min(d, patterns)] = math.NaN()
						if patterns > d {
							holes[i*d+r.IntN(d)] = math.NaN()
						}
					}
					rows := make([]float64, len(x))
					for b.Loop() {
						copy(rows, holes)
						if err := s.Impute(context.Background(), rows, 256); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
