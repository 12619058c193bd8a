package kernel

import (
	"fmt"
	"math"
)

// RotWidth is the width of the strips that [Rot] works on.
const RotWidth = 32

// Tile is the float64 matrix product of this package, exported for the factorisations of package linalg. generic.go
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

// ColumnSums sets sum to the sums of the columns of x, rows×len(sum) row by row. A sum is formed in T over foldRows rows and in
// float64 over the rest.
func ColumnSums[T Float](sum []float64, s *Scratch[T], x []T, rows int) {
	dim := len(sum)
	checkRows("sum", x, rows, dim)
	s.begin()
	clear(sum)
	for first := 0; first < rows; first += foldRows {
		s.addSums(sum, x[first*dim:], dim, min(foldRows, rows-first))
	}
}

// Scatter sets sum to Σ (x_i − c), and upper, dim×dim, on and above the diagonal to Σ (x_i − c)(x_i − c)ᵀ, over the rows of x and
// with the centre c of dim numbers. Near the rows' mean c takes nothing from the digits of either. Like the sums of [Update], they are
// formed in T over foldRows rows and in float64 over the rest.
func Scatter[T Float](sum, upper []float64, s *Scratch[T], x []T, rows int, c []T) {
	dim, width := len(c), panelWidth[T]()
	checkRows("scatter", x, rows, dim)
	if len(sum) != dim || len(upper) < dim*dim {
		panic(fmt.Sprintf("kernel: scatter of %d columns into %d and %d numbers", dim, len(sum), len(upper)))
	}
	s.begin()
	w, padded := s.space(0), ceil(dim, width)
	w.tile, s.centred, s.cov = grow(w.tile, width*width), grow(s.centred, padded*foldRows), grow(s.cov, padded*padded)
	clear(w.tile) // as in covariancePanel
	clear(s.centred)
	clear(s.cov)
	clear(sum)
	for first := 0; first < rows; first += foldRows {
		depth := min(foldRows, rows-first)
		for k := 0; k < dim; k += width {
			end := min(k+width, dim)
			panel := s.centred[k*foldRows:]
			s.f.centrePanel(panel, x[first*dim+k:], dim, c[k:end], depth)
			s.addSums(sum[k:end], panel, width, depth)
			s.products(w, s.cov[k*padded:], 0, k/width, dim, s.centred, foldRows, 0, panel, depth, s.f.addTo)
		}
	}
	s.storeUpper(upper, dim)
}

func checkRows[T Float](what string, x []T, rows, dim int) {
	if rows < 0 || dim < 1 || len(x) < rows*dim {
		panic(fmt.Sprintf("kernel: %s of %d rows of %d from %d numbers", what, rows, dim, len(x)))
	}
}

// addSums adds the sums of len(sum) columns of x, over at most foldRows rows that begin ld numbers apart.
func (s *Scratch[T]) addSums(sum []float64, x []T, ld, rows int) {
	width := panelWidth[T]()
	s.sums = grow(s.sums, width)
	s.one = append(s.one[:0], 1)
	for k := 0; k < len(sum); k += width {
		if cols := min(width, len(sum)-k); k+width <= ld {
			s.f.tile(s.sums, width, s.zero, 0, s.one, 0, 0, x[k:], ld, rows, 1, cols)
		} else { // a tile would read beyond the row
			clear(s.sums)
			for i := range rows {
				for j, v := range x[i*ld+k:][:cols] {
					s.sums[j] += v
				}
			}
		}
		s.f.addTo(sum[k:min(k+width, len(sum))], s.sums)
	}
}

// centrePanel writes the rows of x less o to a panel. The rows of x begin ldx numbers apart.
func centrePanel[T Float](panel, x []T, ldx int, o []T, rows int) {
	w := panelWidth[T]()
	for r := range rows {
		to, from := panel[r*w:][:len(o)], x[r*ldx:][:len(o)]
		for k, v := range o {
			to[k] = from[k] - v
		}
	}
}
