package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// thinProblem draws a W of few numbers, and the same W as a matrix.
func thinProblem(dim, out, rank int) (column []int, weight, u, more, w []float64) {
	r := rand.New(rand.NewPCG(9, 1))
	column, weight = r.Perm(dim)[:out], make([]float64, out)
	u, more, w = make([]float64, rank*out), make([]float64, rank), make([]float64, out*dim)
	for j := range weight {
		weight[j] = r.Float64() + 0.5
	}
	for l := range more {
		more[l] = r.NormFloat64()
		for j := range out {
			u[l*out+j] = r.NormFloat64() / math.Sqrt(float64(out))
		}
	}
	for j := range out {
		for i, k := range column {
			if v := &w[j*dim+k]; i == j {
				*v = 1
			}
			for l, m := range more {
				w[j*dim+k] += m * u[l*out+j] * u[l*out+i]
			}
			w[j*dim+k] *= weight[i]
		}
	}
	return column, weight, u, more, w
}

// TestThinIsTheMatrix holds that a W of few numbers gives the coordinates of the matrix: to the bit where it has one number in each row, and
// otherwise to rounding.
func TestThinIsTheMatrix(t *testing.T) {
	Each(func(name string) {
		for _, deviation := range []float64{1, 1e6} {
			t.Run(fmt.Sprintf("%s/deviation %g", name, deviation), func(t *testing.T) {
				thinIsTheMatrix[float32](t, deviation, 2e-5)
				thinIsTheMatrix[float64](t, deviation, 1e-13)
			})
		}
	})
}

func thinIsTheMatrix[T Float](t *testing.T, deviation, most float64) {
	var c, dense Coordinates[T]
	for _, shape := range [][4]int{{70, 40, 40, 0}, {129, 33, 20, 0}, {70, 40, 40, 3}, {65, 70, 70, 40}, {3, 1, 1, 0}} {
		n, dim, out, rank := shape[0], shape[1], shape[2], shape[3]
		x, _ := points[float64](3, n, dim, 1)
		mean, _ := points[float64](5, 1, dim, 1)
		deviations := make([]float64, dim)
		for k := range deviations {
			deviations[k] = deviation
		}
		column, weight, u, more, w := thinProblem(dim, out, rank)
		c.PackThin(mean, column, weight, u, more, deviations)
		dense.Pack(mean, w, dim, out, deviations)
		var got, want Neighbours[T]
		var centred CentredRows
		centred.Reset(x, n, mean)
		got.Reset(n, out, out)
		want.Reset(n, out, out)
		c.Load(&got, x, &centred)
		dense.Load(&want, x, &centred)
		if rank == 0 {
			compare(t, "points", got.points, want.points)
			compare(t, "coordinates", got.coords, want.coords)
			compare(t, "bias", got.bias, want.bias)
		}
		y, z := make([]T, n*out), make([]T, n*out)
		c.Apply(y, x, n)
		dense.Apply(z, x, n)
		for i, v := range y {
			if off := math.Abs(float64(v - z[i])); !(off <= most*(1+math.Abs(float64(z[i])))) {
				t.Fatalf("%v: coordinate %d is %v, want %v", shape, i, v, z[i])
			}
		}
		got.Pack(y, n, out, out)
		c.Load(&want, x, &centred)
		compare(t, "coordinates of Load", got.coords, want.coords)
	}
}
