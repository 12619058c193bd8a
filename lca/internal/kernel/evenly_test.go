package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Evenly says of a minibatch what Update says where no coordinate counts in the kernel distance.
func TestEvenlyIsUpdateWithoutKernels(t *testing.T) {
	const rows, n, dim = 7, 40, 3
	r := rand.New(rand.NewPCG(1, 2))
	z, q := make([]float64, n*dim), make([]float64, rows*dim)
	for _, x := range [][]float64{z, q} {
		for k := range x {
			x[k] = r.NormFloat64()
		}
	}
	order := make([]int32, n)
	for i, j := range r.Perm(n) {
		order[i] = int32(j)
	}
	for name, ex := range map[string]Exclusion{
		"all":          {},
		"one each":     {Start: []int32{0, 1, 1, 2, 2, 2, 2, 2}, Index: []int32{3, 9}},
		"near in time": {Order: order, Window: [][2]int32{{0, 5}, {2, 2}, {0, n}, {1, n}, {0, 1}, {7, 9}, {0, 3}}},
		"both": {
			Start: []int32{0, 1, 2, 2, 3, 3, 3, 3}, Index: []int32{order[2], order[n-1], order[0]},
			Order: order, Window: [][2]int32{{0, 5}, {2, 2}, {0, n}, {1, n}, {0, 1}, {7, 9}, {0, 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want, got Moments
			var s Scratch[float64]
			var pool Neighbours[float64]
			pool.Pack(z, n, dim, 0)
			Update(&want, &s, q, rows, &pool, ex)
			Evenly(&got, rows, n, ex)
			if !slices.Equal(got.Sum, want.Sum) || !slices.Equal(got.Nearest, want.Nearest) || !slices.Equal(got.Effective, want.Effective) ||
				!slices.Equal(got.Admissible, want.Admissible) || !slices.Equal(got.Used, want.Used) || !slices.Equal(got.Atom, want.Atom) || got.Rows != want.Rows {
				t.Errorf("Evenly\n%+v\nUpdate\n%+v", got, want)
			}
			for i := range rows {
				if got.Admissible[i] > 0 && got.LSE(i) != want.LSE(i) {
					t.Errorf("row %d: LSE %v, want %v", i, got.LSE(i), want.LSE(i))
				}
			}
		})
	}
}

// TestSums holds that all but Upper is the same where only the sums are asked for, and that the scratch memory is then as good as before.
func TestSums(t *testing.T) {
	for i, p := range problems() {
		q, z := p.data(uint64(i))
		var all, sums, again Moments
		var s Scratch[float32]
		var pool Neighbours[float32]
		pool.Pack(convert[float32](z), p.n, p.dim, p.parzen)
		x := convert[float32](q)
		Update(&all, &s, x, p.rows, &pool, p.ex)
		ex := p.ex
		ex.Sums = true
		Update(&sums, &s, x, p.rows, &pool, ex)
		if !slices.Equal(sums.Sum, all.Sum) || !slices.Equal(sums.Nearest, all.Nearest) || !slices.Equal(sums.Effective, all.Effective) ||
			!slices.Equal(sums.Admissible, all.Admissible) || !slices.Equal(sums.Used, all.Used) || sums.Rows != all.Rows || sums.Copies != all.Copies {
			t.Errorf("%s: other sums", p.name)
		}
		if slices.ContainsFunc(sums.Upper, func(v float64) bool { return v != 0 }) {
			t.Errorf("%s: moments that were not wanted", p.name)
		}
		if Update(&again, &s, x, p.rows, &pool, p.ex); !slices.Equal(again.Upper, all.Upper) {
			t.Errorf("%s: other moments afterwards", p.name)
		}
	}
}
