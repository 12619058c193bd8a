package kernel

import "math"

// RotWidth is the width of the strips that [Rot] works on.
const RotWidth = 32

// Tile is the float64 matrix product of this package, exported for the factorisations of package linalg. tile.go
// says what it computes, and which columns beyond cols it may write.
func Tile(c []float64, ldc int, init []float64, ldi int, a []float64, rs, cs int, b []float64, bs, depth, rows, cols int) {
	active().f64.tile(c, ldc, init, ldi, a, rs, cs, b, bs, depth, rows, cols)
}

// TileWidth is the number of columns of a [Tile].
const TileWidth = panelBytes / 8

// Transpose writes the rows × cols matrix src, of stride lds, into the first rows columns of a
// panel of TileWidth columns.
func Transpose(panel, src []float64, lds, rows, cols int) {
	active().f64.transpose(panel, src, lds, rows, cols)
}

// Rot applies the plane rotations (c[i], s[i]) to rows i and i+1 of a strip of RotWidth columns,
// starting with the last:
//
//	row i+1 ← s·row i + c·row i+1
//	row i   ← c·row i − s·row i+1
//
// The product with row i is rounded, and the other is added to it by a fused multiply-add.
func Rot(strip []float64, ld int, c, s []float64) {
	active().rot(strip, ld, c, s)
}

func rot(strip []float64, ld int, c, s []float64) {
	for i := len(c) - 1; i >= 0; i-- {
		upper, lower := strip[i*ld:][:RotWidth], strip[(i+1)*ld:][:RotWidth]
		for k, g := range upper {
			f := lower[k]
			lower[k] = math.FMA(c[i], f, float64(s[i]*g))
			upper[k] = math.FMA(-s[i], f, float64(c[i]*g))
		}
	}
}

// Symv adds to p a part of a symmetric matrix times v: eight rows, and the eight columns that mirror them. Only
// the upper triangle of the matrix is stored, except that a starts with a complete 8×8 block of its diagonal. With n
// columns from that block on, a multiple of 8,
//
//	p_r ← p_r + Σ_j a_rj v_j      r < 8, j < n: element j in lane j mod 8, folded 4, 2, 1
//	p_j ← p_j + Σ_r a_rj v_r      8 ≤ j < n: one chain of multiply-adds, r ascending
func Symv(p, a []float64, ld int, v []float64, n int) {
	active().symv(p, a, ld, v, n)
}

func symv(p, a []float64, ld int, v []float64, n int) {
	for r := range 8 {
		var lane [8]float64
		row, x := a[r*ld:][:n], v[r]
		for j, e := range row {
			lane[j%8] = math.FMA(e, v[j], lane[j%8])
		}
		for j := 8; j < n; j++ {
			p[j] = math.FMA(row[j], x, p[j])
		}
		for h := 4; h > 0; h /= 2 {
			for l := range h {
				lane[l] += lane[l+h]
			}
		}
		p[r] += lane[0]
	}
}

// MirrorUpper copies the upper triangle of the first n rows and columns of c, whose rows are ldc apart, to the lower
// triangle.
func MirrorUpper(c []float64, ldc, n int) {
	for first := 0; first < n; first += 8 {
		for i := first + 1; i < n; i++ {
			to := c[i*ldc:]
			for j := first; j < min(first+8, i); j++ {
				to[j] = c[j*ldc+i]
			}
		}
	}
}
