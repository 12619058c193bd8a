package kernel

import (
	"fmt"
	"math"
	"testing"
)

// TestLoadIsApplyAndPack checks that Load gives the same bits as Apply followed by Pack, on every implementation,
// whether float32 suffices or not, and also for rows that are far away or NaN.
func TestLoadIsApplyAndPack(t *testing.T) {
	Each(func(name string) {
		for _, deviation := range []float64{1, 1e6} {
			t.Run(fmt.Sprintf("%s/deviation %g", name, deviation), func(t *testing.T) {
				loadIsApplyAndPack[float32](t, deviation)
				loadIsApplyAndPack[float64](t, deviation)
			})
		}
	})
}

func loadIsApplyAndPack[T Float](t *testing.T, deviation float64) {
	var c Coordinates[T]
	var got, want Neighbours[T]
	for _, shape := range [][4]int{{70, 40, 40, 40}, {1, 1, 1, 1}, {129, 33, 20, 7}, {64, 16, 16, 0}, {63, 64, 64, 33}} {
		n, dim, out, parzen := shape[0], shape[1], shape[2], shape[3]
		x, mean, w, deviations := coordinateProblem(n, dim, out, deviation)
		c.Pack(mean, w, dim, out, deviations)
		z := make([]T, n*out)
		c.Apply(z, x, n)
		for i, v := range z {
			if !(v >= -farAway && v <= farAway) {
				t.Fatalf("coordinate %d is %v", i, v)
			}
		}
		want.Pack(z, n, out, parzen)
		var centred CentredRows
		centred.Reset(x, n, mean)
		for _, centred := range []*CentredRows{nil, &centred} {
			got.Reset(n, out, parzen)
			c.Load(&got, x, centred)
			compare(t, "points", got.points, want.points)
			compare(t, "coordinates", got.coords, want.coords)
			compare(t, "bias", got.bias, want.bias)
		}
	}
}

// coordinateProblem draws rows, some of them far away or NaN, a mean and a W.
func coordinateProblem(n, dim, out int, deviation float64) (x, mean, w, deviations []float64) {
	x, _ = points[float64](3, n, dim, 1)
	for k, v := range []float64{1e300, -1e300, math.Inf(1), math.NaN(), 1e16} {
		x[k*7%len(x)] = v
	}
	w, _ = points[float64](4, out, dim, 1)
	mean, _ = points[float64](5, 1, dim, 1)
	deviations = make([]float64, dim)
	for k := range deviations {
		deviations[k] = deviation
	}
	return x, mean, w, deviations
}

// TestCoordinatesOfThreads checks that the number of threads does not change the bits, whichever of two projections
// next to each other is in float32.
func TestCoordinatesOfThreads(t *testing.T) {
	Each(func(name string) {
		for _, deviations := range [][2]float64{{1, 1}, {1e6, 1e6}, {1, 1e6}, {1e6, 1}} {
			t.Run(fmt.Sprintf("%s/deviations %g", name, deviations), func(t *testing.T) {
				coordinatesOfThreads[float32](t, deviations)
				coordinatesOfThreads[float64](t, deviations)
			})
		}
	})
}

func coordinatesOfThreads[T Float](t *testing.T, deviations [2]float64) {
	for _, shape := range [][4]int{{0, 3, 2, 1}, {64, 16, 16, 0}, {65, 40, 33, 7}, {700, 20, 12, 8}} {
		n, dim, left, right := shape[0], shape[1], shape[2], shape[3]
		run := func(threads int) (pair []T, pool Neighbours[T]) {
			var a, b Coordinates[T]
			a.Threads, a.workers.least = threads, 1
			x, mean, w, deviation := coordinateProblem(max(n, 1), dim, left, deviations[0])
			a.Pack(mean, w, dim, left, deviation)
			_, mean, w, deviation = coordinateProblem(1, dim, right, deviations[1])
			b.Pack(mean, w, dim, right, deviation)
			pair = make([]T, n*(left+right))
			for range 2 { // buffers that were used must not show either
				ProjectPair(pair, x, n, &a, &b)
				pool.Reset(n, left, left)
				a.Load(&pool, x, nil)
			}
			return pair, pool
		}
		want, wantPool := run(1)
		for _, threads := range []int{2, 3, 8} {
			got, pool := run(threads)
			what := fmt.Sprintf("%d rows, %d threads: ", n, threads)
			compare(t, what+"pair", got, want)
			compare(t, what+"points", pool.points, wantPool.points)
			compare(t, what+"coordinates", pool.coords, wantPool.coords)
			compare(t, what+"bias", pool.bias, wantPool.bias)
		}
	}
}

func TestCoordinatesAllocateNothing(t *testing.T) {
	const n, dim, out = 200, 20, 12
	x, mean, w, deviations := coordinateProblem(n, dim, out, 1)
	var a, b Coordinates[float32]
	var pool Neighbours[float32]
	a.Threads, a.workers.least = 2, 1
	a.Pack(mean, w, dim, out, deviations)
	b.Pack(mean, w, dim, out, deviations)
	y := make([]float32, n*2*out)
	got := testing.AllocsPerRun(20, func() {
		ProjectPair(y, x, n, &a, &b)
		pool.Reset(n, out, out)
		a.Load(&pool, x, nil)
	})
	if got != 0 {
		t.Errorf("%v allocations in steady state, want 0", got)
	}
}

// TestCoordinatesOfTriangles checks that leaving out the zeros of a triangular W does not change the bits.
func TestCoordinatesOfTriangles(t *testing.T) {
	const n, dim = 70, 100
	x, _ := points[float64](3, n, dim, 1)
	mean, _ := points[float64](5, 1, dim, 1)
	w, _ := points[float64](4, dim, dim, 1)
	for r := range dim {
		clear(w[r*dim+r+1:][:dim-r-1])
	}
	want, got, single := make([]float32, n*dim), make([]float32, n*dim), make([]float32, n*dim)
	affine(want, x, n, dim, mean, w, dim)
	var c Coordinates[float32]
	ones, big := make([]float64, dim), make([]float64, dim)
	for k := range ones {
		ones[k], big[k] = 1, 1e6
	}
	c.Pack(mean, w, dim, dim, big)
	c.Apply(got, x, n)
	compare(t, "in float64", got, want)
	c.Pack(mean, w, dim, dim, ones)
	if !c.inFloat32 {
		t.Fatal("float32 does not suffice, as it should for such data")
	}
	c.Apply(single, x, n)
	for i := range n {
		for o := range dim {
			var y float32
			for k := range dim {
				y = fma32(float32(x[i*dim+k]-mean[k]), float32(w[o*dim+k]), y)
			}
			if v := single[i*dim+o]; v != y {
				t.Fatalf("y[%d][%d] = %v, want %v", i, o, v, y)
			}
		}
	}
}
