//go:build !purego

package kernel

import "unsafe"

// tileF32Height is a tile of float64 chains that rounds their ends to float32. Like [tileHeight] it has a fixed
// number of rows, works on any number of tiles below each other, and prefetches a line with each step.
type tileF32Height struct {
	rows int
	tile func(c *float32, ldc int, a *float64, rs int, b *float64, depth, tiles int, next *byte, step int)
}

// tileF32By covers rows with the given tiles, the tallest first. It checks the last element that each slice must
// have, because the assembly checks none. Each step prefetches a line of next until there are none left.
func tileF32By(tiles []tileF32Height, c []float32, ldc int, a []float64, rs int, b []float64, depth, rows, width int, next []byte) (prefetched int) {
	for _, h := range tiles {
		n := rows / h.rows
		if n == 0 {
			continue
		}
		done := n * h.rows
		_ = c[(done-1)*ldc+width-1]
		var pa, pb *float64
		var line *byte
		step := 0
		if depth > 0 {
			_, _ = a[(done-1)*rs+depth-1], b[(depth-1)*TileWidth+width-1]
			pa, pb = &a[0], &b[0]
			line = (*byte)(unsafe.Pointer(pb)) // it is in the cache already
		}
		if prefetched < len(next) {
			line, step = &next[prefetched], cacheLine
			prefetched += n * depth * cacheLine
		}
		h.tile(&c[0], ldc, pa, rs, pb, depth, n, line, step)
		if rows -= done; rows == 0 {
			break
		}
		c = c[done*ldc:]
		if depth > 0 {
			a = a[done*rs:]
		}
	}
	return prefetched
}

// centreBy centres whole sixteens of columns by the assembly f and the rest in Go.
func centreBy[X Float](f func(dst *float64, ld int, x *X, mean *float64, dim, n, rows int), dst []float64, ld int, x []X, mean []float64, rows int) {
	dim := len(mean)
	n := dim &^ (lanes - 1)
	if n > 0 && rows > 0 {
		_, _ = dst[(rows-1)*ld+n-1], x[(rows-1)*dim+n-1]
		f(&dst[0], ld, &x[0], &mean[0], dim, n, rows)
	}
	if n < dim {
		centreColumns(n, dst, ld, x, mean, rows)
	}
}
