package kernel

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
)

// BenchmarkFar puts all neighbours except every fiftieth so far away that their weights are subnormal (exp of about
// −92) or zero. It reports the cost of a step as a multiple of one whose weights all count: many processors are many
// times slower on subnormal numbers.
//
//	go test ./lca/internal/kernel -run '^$' -bench Far -benchtime 21x
func BenchmarkFar(b *testing.B) {
	for _, dim := range []int{16, 64} {
		for _, c := range []struct {
			name    string
			squared float64 // distance
		}{{"subnormal", 2 * 92}, {"nothing", 2 * 150}} {
			b.Run(fmt.Sprintf("float32/d=%d/%s", dim, c.name), func(b *testing.B) { benchmarkFar[float32](b, dim, c.squared) })
			b.Run(fmt.Sprintf("float64/d=%d/%s", dim, c.name), func(b *testing.B) { benchmarkFar[float64](b, dim, c.squared*720/92) })
		}
	}
}

func benchmarkFar[T Float](b *testing.B, dim int, squared float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	near, far := spread[T](dim, 0), spread[T](dim, squared)
	ratios := make([]float64, b.N)
	for i := range ratios {
		start := cpuTime()
		near()
		middle := cpuTime()
		far()
		ratios[i] = (cpuTime() - middle).Seconds() / (middle - start).Seconds()
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "far/near")
}

// spread is a step of 1000 rows over 3000 neighbours, all of them except every fiftieth at the given squared distance.
func spread[T Float](dim int, squared float64) func() {
	const rows, n = 1000, 3000
	q, _ := points[T](1, rows, dim, 0.2)
	z, _ := points[T](2, n, dim, 0.2)
	for j := range n {
		if j%50 != 0 {
			z[j*dim] += T(math.Sqrt(squared))
		}
	}
	var m Moments
	var s Scratch[T]
	var pool Neighbours[T]
	pool.Pack(z, n, dim, dim)
	step := func() { Update(&m, &s, q, rows, &pool, Exclusion{}) }
	step()
	return step
}
