//go:build !purego

package kernel

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C _asm . -out amd64/kernel_amd64.s -stubs amd64/stubs_amd64.go -wrappers wrappers_amd64.go -pkg amd64

// native lists the assembly that this processor and operating system can run, the fastest first.
func native() (list []*implementation) {
	x := cpu.X86
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
		list = append(list, avx512())
	}
	if x.HasAVX2 && x.HasFMA {
		list = append(list, avx2())
	}
	return list
}

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

// pickMarked is pick for the numbers that have a bit in marks.
func pickMarked[T Float](index []int32, value, s []T, first int32, marks []uint16) (count int) {
	for block, mark := range marks {
		for ; mark != 0; mark &= mark - 1 {
			j := block*lanes + bits.TrailingZeros16(mark)
			index[count], value[count] = first+int32(j), s[j]
			count++
		}
	}
	return count
}
