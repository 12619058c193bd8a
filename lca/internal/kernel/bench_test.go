//go:build linux

package kernel

import (
	"fmt"
	"testing"
)

// flops counts the operations of an update without our savings: logits, ΛZ and Ĉ as full matrix products.
func flops(rows, n, dim int) float64 {
	return 4*float64(rows)*float64(n)*float64(dim) + float64(2*rows+n)*float64(dim)*float64(dim)
}

// BenchmarkUpdateFlat has neighbours so near that every weight counts. Nothing is sparse, so the flops per second can
// be compared with the peak.
func BenchmarkUpdateFlat(b *testing.B) {
	for _, s := range [][3]int{{1000, 3000, 16}, {1000, 3000, 64}, {1000, 3000, 256}} {
		b.Run(fmt.Sprintf("B=%d/N=%d/d=%d/float32", s[0], s[1], s[2]), func(b *testing.B) { benchmarkUpdate[float32](b, s[0], s[1], s[2], 0.2) })
		b.Run(fmt.Sprintf("B=%d/N=%d/d=%d/float64", s[0], s[1], s[2]), func(b *testing.B) { benchmarkUpdate[float64](b, s[0], s[1], s[2], 0.2) })
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, s := range [][3]int{{100, 3000, 16}, {1000, 3000, 16}, {100, 3000, 64}, {1000, 3000, 64}, {100, 3000, 256}, {1000, 3000, 256}, {1000, 6000, 1024}} {
		b.Run(fmt.Sprintf("B=%d/N=%d/d=%d/float32", s[0], s[1], s[2]), func(b *testing.B) { benchmarkUpdate[float32](b, s[0], s[1], s[2], 1) })
		b.Run(fmt.Sprintf("B=%d/N=%d/d=%d/float64", s[0], s[1], s[2]), func(b *testing.B) { benchmarkUpdate[float64](b, s[0], s[1], s[2], 1) })
	}
}

func BenchmarkUpdateStudent(b *testing.B) {
	for _, s := range [][3]int{{100, 3000, 10}, {100, 3000, 16}, {100, 3000, 64}, {100, 3000, 256}} {
		for _, dof := range []int{0, 4} {
			b.Run(fmt.Sprintf("dof=%d/B=%d/N=%d/d=%d/float32", dof, s[0], s[1], s[2]), func(b *testing.B) { benchmarkShape[float32](b, s[0], s[1], s[2], 1, Shape{dof}) })
			b.Run(fmt.Sprintf("dof=%d/B=%d/N=%d/d=%d/float64", dof, s[0], s[1], s[2]), func(b *testing.B) { benchmarkShape[float64](b, s[0], s[1], s[2], 1, Shape{dof}) })
		}
	}
}

func benchmarkUpdate[T Float](b *testing.B, rows, n, dim int, scale float64) {
	benchmarkShape[T](b, rows, n, dim, scale, Shape{})
}

func benchmarkShape[T Float](b *testing.B, rows, n, dim int, scale float64, shape Shape) {
	q, _ := points[T](1, rows, dim, scale)
	z, _ := points[T](2, n, dim, scale)
	var m Moments
	var s Scratch[T]
	pool := Neighbours[T]{Shape: shape}
	pool.Pack(z, n, dim, dim)
	measure(b, flops(rows, n, dim), func() {
		Update(&m, &s, q, rows, &pool, Exclusion{NearCopy: 1e-6 * float64(dim)})
	})
}

func BenchmarkPack(b *testing.B) {
	for _, dim := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("N=3000/d=%d/float32", dim), func(b *testing.B) {
			z, _ := points[float32](2, 3000, dim, 1)
			var pool Neighbours[float32]
			measure(b, 3000*float64(dim), func() { pool.Pack(z, 3000, dim, dim) })
		})
	}
}

func BenchmarkLSE(b *testing.B) {
	for _, dim := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("rows=1000/N=3000/d=%d/float32", dim), func(b *testing.B) {
			q, _ := points[float32](1, 1000, dim, 1)
			z, _ := points[float32](2, 3000, dim, 1)
			var pool Neighbours[float32]
			var s Scratch[float32]
			lse := make([]float64, 1000)
			pool.Pack(z, 3000, dim, dim)
			measure(b, 2*1000*3000*float64(dim), func() { Attract(lse, nil, nil, &s, q, 1000, &pool) })
		})
	}
}

func BenchmarkProjection(b *testing.B) {
	for _, dim := range []int{16, 64, 256} {
		for _, rows := range []int{1, 100, 8192} {
			b.Run(fmt.Sprintf("rows=%d/d=%d", rows, dim), func(b *testing.B) {
				x, _ := points[float64](1, rows, dim, 1)
				w, _ := points[float64](2, dim, dim, 1)
				y := make([]float32, rows*dim)
				var p Projection
				var s Scratch[float64]
				p.Pack(w[:dim], w, dim, dim)
				measure(b, 2*float64(rows*dim*dim), func() { Project(&p, y, &s, x, rows) })
			})
		}
	}
}

// BenchmarkPeak times the tallest tile on operands in the L1 cache. The other benchmarks are judged by it.
func BenchmarkPeak(b *testing.B) {
	const rows, depth = 14, 128
	f := functionsOf[float32]()
	a, c := make([]float32, rows*depth), make([]float32, rows*32)
	p, zero := make([]float32, depth*32), make([]float32, 32)
	measure(b, 100*2*rows*32*depth, func() {
		for range 100 {
			f.tile(c, 32, zero, 0, a, depth, 1, p, 32, depth, rows, 32)
		}
	})
}
