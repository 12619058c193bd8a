package kernel

import (
	"bytes"
	"fmt"
	"math"
	"unsafe"
)

// Neighbours is the pool, packed for the products of [Update] and [LSE]: centred, whitened
// coordinates z = Bᵀ(x−c). The first parzen coordinates count in the kernel distance, all in the
// moments. The zero value is an empty pool. Goroutines may share it between calls of Pack.
//
// It keeps two copies, as panels of w = 32 float32 or 16 float64 columns:
//
//	points  panel p holds points p·w … p·w+w−1, row k their k-th coordinate   (logits: k < parzen)
//	coords  panel p holds coordinates p·w … p·w+w−1, row j those of point j   (ΛZ, ZᵀSZ)
type Neighbours[T Float] struct {
	Shape          Shape // of the kernels; Pack and Reset leave it
	n, dim, parzen int   // points, coordinates, coordinates of the kernel distance
	points, coords []T
	bias           []T // −½|z_j|² over the first parzen coordinates, −Inf beyond n
}

// Len returns the number of points.
func (p *Neighbours[T]) Len() int { return p.n }

// Bytes returns about how many bytes they take.
func (p *Neighbours[T]) Bytes() int {
	var one T
	return int(unsafe.Sizeof(one)) * (cap(p.points) + cap(p.coords) + cap(p.bias))
}

// Pack replaces the pool by the n points of dim coordinates in z, row by row. It keeps no
// reference to z, and allocates only when the pool grows.
func (p *Neighbours[T]) Pack(z []T, n, dim, parzen int) {
	if len(z) < n*dim {
		panic(fmt.Sprintf("kernel: pack %d numbers as %d points of %d coordinates", len(z), n, dim))
	}
	p.Reset(n, dim, parzen)
	w := panelWidth[T]()
	for c := 0; c < dim; c += w {
		panel, width := p.coords[c*n:], min(w, dim-c)
		for j := range n {
			copy(panel[j*w:][:width], z[j*dim+c:])
		}
	}
	f := functionsOf[T]()
	for j := 0; j < n; j += w {
		p.panel(f, j)
	}
}

// Reset makes room for n points. All of their coordinates must then be written, first by [Neighbours.Set] and last by
// [Coordinates.Load].
func (p *Neighbours[T]) Reset(n, dim, parzen int) {
	if n < 0 || dim < 1 || parzen < 0 || parzen > dim {
		panic(fmt.Sprintf("kernel: pool of %d points of %d coordinates, %d in the kernel", n, dim, parzen))
	}
	w := panelWidth[T]()
	p.n, p.dim, p.parzen = n, dim, parzen
	p.points = grow(p.points, ceil(n, w)*parzen)
	p.coords = grow(p.coords, ceil(dim, w)*n)
	p.bias = grow(p.bias, ceil(n, w))
	if dim%w != 0 {
		clear(p.coords[dim/w*w*n:])
	}
}

// Set writes the coordinates of point j from the k-th on. None of them may count in the kernel distance.
func (p *Neighbours[T]) Set(j, k int, z []T) {
	w := panelWidth[T]()
	for len(z) > 0 {
		n := copy(p.coords[k/w*w*p.n+j*w+k%w:][:w-k%w], z)
		z, k = z[n:], k+n
	}
}

// panel fills the panel of points that begins with point j, and its bias, from coords.
func (p *Neighbours[T]) panel(f *functions[T], j int) {
	w := panelWidth[T]()
	points := min(w, p.n-j)
	panel, bias := p.points[j*p.parzen:][:w*p.parzen], p.bias[j:][:w]
	if points < w {
		clear(panel)
	}
	for c := 0; c < p.parzen; c += w {
		f.transpose(panel[c*w:], p.coords[c*p.n+j*w:], w, points, min(w, p.parzen-c))
	}
	f.norms(bias, panel)
	for k := range bias[points:] {
		bias[points+k] = T(math.Inf(-1))
	}
}

// NormSquared returns |x|² in float64, by four partial sums: element k in sum k mod 4.
func NormSquared[T Float](x []T) float64 {
	var s [4]float64
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		s[0], s[1], s[2], s[3] = math.FMA(a, a, s[0]), math.FMA(b, b, s[1]), math.FMA(c, c, s[2]), math.FMA(d, d, s[3])
	}
	for k, v := range x {
		s[k] = math.FMA(float64(v), float64(v), s[k])
	}
	return (s[0] + s[2]) + (s[1] + s[3])
}

// equal reports whether two neighbours have the same coordinates, bit by bit: 0 and −0 are two.
func (p *Neighbours[T]) equal(i, j int) bool {
	w := panelWidth[T]()
	for c := 0; c < p.dim; c += w {
		if !bytes.Equal(bytesOf(p.coords[c*p.n+i*w:][:w]), bytesOf(p.coords[c*p.n+j*w:][:w])) {
			return false
		}
	}
	return true
}

// distance returns |q − z_j|² over the first dims coordinates. It sums squares of differences in float64, so unlike
// a logit it does not suffer from cancellation. Once the sum exceeds limit it returns the sum so far.
func (p *Neighbours[T]) distance(f *functions[T], q []T, j, dims int, limit float64) float64 {
	w := panelWidth[T]()
	var total float64
	for c := 0; c < dims && !(total > limit); c += w {
		total += f.sqDist(q[c:min(dims, c+w)], p.coords[c*p.n+j*w:][:w])
	}
	return total
}

// packPoints copies the first parzen coordinates into panels of points, the last padded with zeros.
func packPoints[T Float](f *functions[T], dst, z []T, n, dim, parzen int) {
	w := panelWidth[T]()
	for j := 0; j < n; j += w {
		panel := dst[j*parzen:][:w*parzen]
		points := min(w, n-j)
		if points < w {
			clear(panel)
		}
		f.transpose(panel, z[j*dim:], dim, points, parzen)
	}
}

// transpose writes the rows × cols matrix src, whose rows are lds apart, into the first rows columns of a panel.
func transpose[T Float](panel, src []T, lds, rows, cols int) {
	w := panelWidth[T]()
	for r := range rows {
		for c, v := range src[r*lds:][:cols] {
			panel[c*w+r] = v
		}
	}
}

// norms writes −½ Σ_k x_k² for each column x of a panel: a float64 chain of multiply-adds, k ascending, rounded to T
// at the end.
func norms[T Float](dst, panel []T) {
	w := panelWidth[T]()
	for c := range dst[:w] {
		var s float64
		for k := c; k < len(panel); k += w {
			s = math.FMA(float64(panel[k]), float64(panel[k]), s)
		}
		dst[c] = T(-0.5 * s)
	}
}

// SquaredDistances sets dst[i] to |x_i − o|² for rows x_i of len(o) numbers, which begin ld apart.
func SquaredDistances[T Float](dst []float64, x []T, ld int, o []float64) {
	if n := len(dst); n > 0 && len(x) < (n-1)*ld+len(o) {
		panic(fmt.Sprintf("kernel: distances of %d rows of %d, %d apart, from %d numbers", n, len(o), ld, len(x)))
	}
	functionsOf[T]().distance(dst, x, ld, o)
}

// distance is the loop of [SquaredDistances]. It sums column k in partial sum k mod 4.
func distance[T Float](dst []float64, x []T, ld int, o []float64) {
	for i := range dst {
		var s [4]float64
		dst[i] = sqDistTail(&s, x[i*ld:], o)
	}
}

// sqDistTail adds the remaining squared differences to the four partial sums and returns their total.
func sqDistTail[T, O Float](s *[4]float64, x []T, o []O) float64 {
	x = x[:len(o)]
	for ; len(x) >= 4; x, o = x[4:], o[4:] {
		a, b := float64(x[0])-float64(o[0]), float64(x[1])-float64(o[1])
		c, d := float64(x[2])-float64(o[2]), float64(x[3])-float64(o[3])
		s[0], s[1], s[2], s[3] = math.FMA(a, a, s[0]), math.FMA(b, b, s[1]), math.FMA(c, c, s[2]), math.FMA(d, d, s[3])
	}
	for k, v := range x {
		e := float64(v) - float64(o[k])
		s[k] = math.FMA(e, e, s[k])
	}
	return (s[0] + s[2]) + (s[1] + s[3])
}

// sqDist returns |x − z|² over the length of x, by the same four partial sums.
func sqDist[T Float](x, z []T) float64 {
	var s [4]float64
	return sqDistTail(&s, z, x)
}
