package kernel_test

import (
	"fmt"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// BenchmarkScore compares the sums of kernels of [kernel.Groups] with those in float64, one thread each, in turn on the same rows: a learnt
// metric, N = 3000.
//
//	go test ./lca/internal/kernel -run '^$' -bench Score -benchtime 1x
//
// If TABLES names a directory, the table is written there.
func BenchmarkScore(b *testing.B) {
	locked(b)
	var rows []string
	for _, dim := range []int{16, 64, 256} {
		for _, kind := range []string{"aniso", "mix"} {
			b.Run(fmt.Sprintf("d=%d/%s", dim, kind), func(b *testing.B) {
				for range b.N {
					rows = append(rows, compareScores(b, kind, dim))
				}
			})
		}
	}
	table(b, "score", "| d | data | float64, µs per row | ours | ratio of medians (lowest – highest pair) | off by at most, nats |\n|---|---|---|---|---|---|\n", rows)
}

func compareScores(b *testing.B, kind string, dim int) string {
	const rows, n = 1000, 3000
	p := newProblem(b, kind, rows, n, dim)
	q, z := inMetric(b, p)
	var exact kernel.Neighbours[float64]
	exact.Pack(z, n, dim, dim)
	var ours kernel.Groups
	ours.Pack(new(kernel.GroupScratch), z, n, dim)
	var s kernel.Scratch[float64]
	var sums kernel.GroupScratch
	want, got := make([]float64, rows), make([]float64, rows)
	var pairs []pair
	for range alternations {
		began := cpuSeconds(b)
		kernel.Attract(want, nil, nil, &s, q, rows, &exact)
		between := cpuSeconds(b)
		ours.LSE(got, &sums, q, rows)
		pairs = append(pairs, pair{between - began, cpuSeconds(b) - between})
	}
	off := 0.0
	for i, v := range got {
		off = max(off, v-want[i], want[i]-v)
	}
	theirs, own, low, high := summary(pairs)
	b.ReportMetric(theirs/own, "float64/ours")
	return fmt.Sprintf("| %d | %s | %.2f | %.2f | **%.1f** (%.1f – %.1f) | %.0e |\n", dim, kind, theirs*1e6/rows, own*1e6/rows,
		theirs/own, low, high, off)
}

// inMetric returns the rows and the pool of a problem in coordinates where C_L is the identity.
func inMetric(b *testing.B, p problem) (q, z []float64) {
	b.Helper()
	var factor mat.Cholesky
	if !factor.Factorize(mat.NewSymDense(p.dim, slices.Clone(p.c))) {
		b.Fatal("C_L is not positive definite")
	}
	var lower mat.TriDense
	factor.LTo(&lower)
	var solved mat.Dense
	if err := solved.Solve(&lower, mat.NewDense(p.rows+p.n, p.dim, slices.Concat(p.q, p.z)).T()); err != nil {
		b.Fatal(err)
	}
	all := mat.DenseCopyOf(solved.T()).RawMatrix().Data
	return all[:p.rows*p.dim], all[p.rows*p.dim:]
}
