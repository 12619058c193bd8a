package backtest

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// The distance is that by the covariance of all rows so far.
func TestRivalDistance(t *testing.T) {
	const n, d = 40_000, 3
	r, x := rand.New(rand.NewPCG(1, 2)), mat.NewDense(n, d, nil)
	e := newEllipsoid(d)
	for i := range n {
		common := r.NormFloat64()
		for k := range d {
			x.Set(i, k, 100*float64(k)+common+0.3*r.NormFloat64())
		}
		e.add(x.RawRowView(i))
	}
	e.refresh()
	var c mat.SymDense
	stat.CovarianceMatrix(&c, x, nil)
	var chol mat.Cholesky
	if !chol.Factorize(&c) {
		t.Fatal("no covariance")
	}
	mean := make([]float64, d)
	for k := range mean {
		mean[k] = stat.Mean(mat.Col(nil, k, x), nil)
	}
	row := []float64{1, 100, 203}
	want := math.Pow(stat.Mahalanobis(mat.NewVecDense(d, row), mat.NewVecDense(d, mean), &chol), 2)
	if got := e.distance(row); math.Abs(got-want) > 0.01*want {
		t.Errorf("%v, want %v", got, want)
	}
}

// Its threshold is the lowest that has as many false episodes as it may have; rows near each other are one.
func TestRivalMeets(t *testing.T) {
	r, j := rival{names: []string{""}}, judge{faults: []fault{{rows: []int64{500}}, {rows: []int64{700}}, {rows: []int64{900}}}}
	for row := range int64(1000) {
		r.rows = append(r.rows, rivalRow{row: row})
	}
	for row, distance := range map[int64]float32{500: 9, 100: 8, 110: 7, 700: 6, 200: 5, 900: 4, 300: 3} {
		r.rows[row].distance = distance
	}
	for most, want := range [][2]int{{1, 0}, {2, 1}, {3, 2}} {
		if met, wrong := r.met(&j, most); met != want[0] || wrong != want[1] {
			t.Errorf("at most %d false ones: %d met, %d false; want %d", most, met, wrong, want)
		}
	}
}
