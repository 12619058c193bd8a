package kernel

import "fmt"

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
			s.products(w, k/width, dim, s.centred, foldRows, 0, panel, depth, s.f.addTo)
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
