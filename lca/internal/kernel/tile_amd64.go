//go:build !purego

package kernel

import "unsafe"

// tileHeight is a tile of the assembly: a fixed number of rows, any number of tiles below each other. It prefetches
// the line at next with each step of a chain, then goes step bytes further.
type tileHeight[T Float] struct {
	rows int
	tile func(c *T, ldc int, start *T, lds int, a *T, rs, cs int, b *T, bs, depth, tiles int, next *float64, step int)
}

// tileBy covers rows with the given tiles, the tallest first, and prefetches next. It checks the last element that
// each slice must have, because the assembly checks none.
func tileBy[T Float](tiles []tileHeight[T], c []T, ldc int, init []T, ldi int, a []T, rs, cs int, b []T, bs, depth, rows, width int, next []byte) {
	if rows == 0 {
		return
	}
	_, _ = c[(rows-1)*ldc+width-1], init[(rows-1)*ldi+width-1]
	if depth > 0 {
		_, _ = a[(rows-1)*rs+(depth-1)*cs], b[(depth-1)*bs+width-1]
	}
	size := sizeOf[T]()
	pc, pi := unsafe.Pointer(&c[0]), unsafe.Pointer(&init[0])
	pa, pb := unsafe.Pointer(unsafe.SliceData(a)), unsafe.SliceData(b)
	line, step := (*float64)(pi), 0 // a line that is in the cache already
	if len(next) > 0 {
		line, step = (*float64)(unsafe.Pointer(&next[0])), cacheLine
	}
	for _, h := range tiles {
		n := rows / h.rows
		if n == 0 {
			continue
		}
		h.tile((*T)(pc), ldc, (*T)(pi), ldi, (*T)(pa), rs, cs, pb, bs, depth, n, line, step)
		rows -= n * h.rows
		if rows == 0 {
			return
		}
		done := n * h.rows * size
		pc, pi = unsafe.Add(pc, done*ldc), unsafe.Add(pi, done*ldi)
		if depth > 0 {
			pa = unsafe.Add(pa, done*rs)
		}
	}
}
