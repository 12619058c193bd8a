package kernel

import "fmt"

// Coordinates takes rows into y = W(x−μ), the coordinates of a metric, for an E-step in T: by a [Single]
// where T is float32 and that suffices, else by a [Projection]. A coordinate so far away that its square
// would overflow, or that is not a number, is moved in to where it is still far from everything.
// The zero value is empty; it serves one call at a time.
type Coordinates[T Float] struct {
	double  Projection
	single  Single
	singly  bool
	doubles Scratch[float64]
	singles Scratch[float32]
}

// farAway is the largest magnitude of a coordinate.
const farAway = 1e15

// Pack sets μ (dim numbers) and W (out×dim, row by row) for rows whose columns have the given standard
// deviations. Columns of W that are zero throughout 16 or 32 rows, from some column on, are not multiplied:
// of a lower triangular W, half.
func (c *Coordinates[T]) Pack(mean, w []float64, dim, out int, deviation []float64) {
	if c.singly = sizeOf[T]() == 4 && SingleSuffices(w, dim, out, deviation); c.singly {
		c.single.Pack(mean, w, dim, out)
	} else {
		c.double.Pack(mean, w, dim, out)
	}
}

// shape returns the sizes of W.
func (c *Coordinates[T]) shape() (dim, out int) {
	if c.singly {
		return c.single.dim, c.single.out
	}
	return c.double.dim, c.double.out
}

// Apply writes the coordinates of each row of x.
func (c *Coordinates[T]) Apply(dst []T, x []float64, rows int) { Beside(dst, x, rows, c, nil) }

// Beside writes the coordinates of each row of x by a, and beside them those by b if there is one, of the
// same μ.
func Beside[T Float](dst []T, x []float64, rows int, a, b *Coordinates[T]) {
	dim, ld := a.shape()
	left, own := ld, false
	if b != nil {
		_, right := b.shape()
		ld, own = ld+right, b.singly != a.singly
		b.begin()
	}
	a.begin()
	if len(x) < rows*dim || len(dst) < rows*ld {
		panic(fmt.Sprintf("kernel: coordinates of %d rows of %d from %d numbers into %d", rows, dim, len(x), len(dst)))
	}
	for first := 0; first < rows; first += projectRows {
		n := min(projectRows, rows-first)
		block, from := dst[first*ld:][:n*ld], x[first*dim:]
		a.centre(from, n)
		a.multiply(rowsOf(block, ld), a, n, x[(first+n)*dim:rows*dim])
		switch {
		case left == ld:
		case own:
			b.centre(from, n)
			b.multiply(rowsOf(block[left:], ld), b, n, nil)
		default:
			b.multiply(rowsOf(block[left:], ld), a, n, nil)
		}
		whole := len(block) / lanes * lanes
		functionsOf[T]().clamp(block[:whole])
		clamp(block[whole:])
	}
	a.end()
	if b != nil {
		b.end()
	}
}

// Load writes the coordinates of the rows of x as the first ones of the pool's points, row by row: all
// that count in the kernel distance are among them. They go from the cache into both kinds of panels.
func (c *Coordinates[T]) Load(p *Neighbours[T], x []float64) {
	dim, out := c.shape()
	if len(x) < p.n*dim || out > p.dim || p.parzen > out {
		panic(fmt.Sprintf("kernel: load %d coordinates from %d numbers, %d a point, into a pool of %d points of %d coordinates, %d in the kernel", out, len(x), dim, p.n, p.dim, p.parzen))
	}
	c.begin()
	w, f := panelWidth[T](), functionsOf[T]()
	for first := 0; first < p.n; first += projectRows {
		rows := min(projectRows, p.n-first)
		c.centre(x[first*dim:], rows)
		c.multiply(place[T]{p.coords[first*w:], w, w * p.n}, c, rows, x[(first+rows)*dim:p.n*dim])
		for k := 0; k < out; k += w {
			f.clamp(p.coords[k*p.n+first*w:][:rows*w])
		}
		for j := first; j < first+rows; j += w {
			p.panel(f, j)
		}
	}
	c.end()
}

func (c *Coordinates[T]) begin() { c.singles.begin(); c.doubles.begin() }
func (c *Coordinates[T]) end()   { c.singles.end(); c.doubles.end() }

// centre takes μ off a few rows, and rounds them where float32 suffices.
func (c *Coordinates[T]) centre(x []float64, rows int) {
	if c.singly {
		c.single.centre(&c.singles, x, rows)
		return
	}
	centre(&c.double, &c.doubles, x, rows)
}

// multiply takes the rows that q has centred into coordinates, and may ask the memory for the next ones.
func (c *Coordinates[T]) multiply(dst place[T], q *Coordinates[T], rows int, next []float64) {
	if to, ok := any(dst).(place[float32]); ok && c.singly {
		c.single.multiply(to, &q.singles, rows, next)
		return
	}
	multiply(&c.double, dst, &q.doubles, rows)
}

// clamp moves numbers in to ±farAway, NaN to +farAway.
func clamp[T Float](s []T) {
	for k, v := range s {
		if !(v < farAway) {
			s[k] = farAway
		} else if !(v > -farAway) {
			s[k] = -farAway
		}
	}
}
