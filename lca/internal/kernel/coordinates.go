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
func (c *Coordinates[T]) Apply(dst []T, x []float64, rows int) {
	dim, out := c.shape()
	if len(x) < rows*dim || len(dst) < rows*out {
		panic(fmt.Sprintf("kernel: coordinates of %d rows of %d from %d numbers into %d", rows, dim, len(x), len(dst)))
	}
	c.begin()
	for first := 0; first < rows; first += projectRows {
		n := min(projectRows, rows-first)
		block := dst[first*out:][:n*out]
		c.block(rowsOf(block, out), x[first*dim:], n)
		whole := len(block) / lanes * lanes
		functionsOf[T]().clamp(block[:whole])
		clamp(block[whole:])
	}
	c.end()
}

// Load replaces the pool by the n rows of x, of whose coordinates the first parzen count in the kernel
// distance. It is Apply and [Neighbours.Pack] in one pass: rows go from the cache into both kinds of panels.
func (c *Coordinates[T]) Load(p *Neighbours[T], x []float64, n, parzen int) {
	dim, out := c.shape()
	if len(x) < n*dim {
		panic(fmt.Sprintf("kernel: load %d points of %d columns from %d numbers", n, dim, len(x)))
	}
	p.reset(n, out, parzen)
	c.begin()
	w := panelWidth[T]()
	for first := 0; first < n; first += projectRows {
		rows := min(projectRows, n-first)
		c.block(place[T]{p.coords[first*w:], w, w * n}, x[first*dim:], rows)
		for k := 0; k < out; k += w {
			functionsOf[T]().clamp(p.coords[k*n+first*w:][:rows*w])
		}
		for j := first; j < first+rows; j += w {
			p.panel(functionsOf[T](), j)
		}
	}
	c.end()
}

func (c *Coordinates[T]) begin() { c.singles.begin(); c.doubles.begin() }
func (c *Coordinates[T]) end()   { c.singles.end(); c.doubles.end() }

// block projects a few rows.
func (c *Coordinates[T]) block(dst place[T], x []float64, rows int) {
	if to, ok := any(dst).(place[float32]); ok && c.singly {
		c.single.block(to, &c.singles, x, rows)
		return
	}
	applyBlock(&c.double, dst, &c.doubles, x, rows)
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
