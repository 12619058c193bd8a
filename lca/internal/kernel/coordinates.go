package kernel

import "fmt"

// Coordinates takes rows into y = W(x−μ), the coordinates of a metric, for an E-step in T: by a [Single]
// where T is float32 and that suffices, else by a [Projection]. A coordinate so far away that its square
// would overflow, or that is not a number, is moved in to where it is still far from everything.
// The zero value is empty; it serves one call at a time.
type Coordinates[T Float] struct {
	// Threads is how many goroutines a call may use, as in [Scratch].
	Threads int

	double Projection
	single Single
	singly bool

	crew    crew
	threads int
	centred []centred // of each worker
	x       []float64 // the call's rows
	rows    int
	dst     []T // where their coordinates go, beside those by
	beside  *Coordinates[T]
	pool    *Neighbours[T] // or this,
	rounded *Rounded       // whose rows may be here
}

// centred is what one goroutine needs for itself: a few rows without their mean.
type centred struct {
	doubles Scratch[float64]
	singles Scratch[float32]
	q       []float32 // singly, here or in a Rounded
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
	if b != nil {
		_, right := b.shape()
		ld += right
	}
	if len(x) < rows*dim || len(dst) < rows*ld {
		panic(fmt.Sprintf("kernel: coordinates of %d rows of %d from %d numbers into %d", rows, dim, len(x), len(dst)))
	}
	a.dst, a.beside = dst[:rows*ld], b
	a.run(x, rows, ld)
}

// Load writes the coordinates of the rows of x as the first ones of the pool's points, row by row: all
// that count in the kernel distance are among them. They go from the cache into both kinds of panels. rounded
// holds the same rows without the same μ; where it is nil, or float32 does not suffice, they are centred anew.
func (c *Coordinates[T]) Load(p *Neighbours[T], x []float64, rounded *Rounded) {
	dim, out := c.shape()
	if len(x) < p.n*dim || out > p.dim || p.parzen > out {
		panic(fmt.Sprintf("kernel: load %d coordinates from %d numbers, %d a point, into a pool of %d points of %d coordinates, %d in the kernel", out, len(x), dim, p.n, p.dim, p.parzen))
	}
	c.pool, c.rounded = p, rounded
	c.run(x, p.n, out)
}

// run takes the rows into out coordinates, a few at a time.
func (c *Coordinates[T]) run(x []float64, rows, out int) {
	const around = 64 // multiply-adds, as it were: what it takes to fetch a number and to take μ off
	dim, _ := c.shape()
	blocks := ceil(rows, projectRows) / projectRows
	c.x, c.rows = x[:rows*dim], rows
	c.threads = max(1, min(blocks, c.crew.threads(c.Threads, rows*dim*(out+around))))
	for len(c.centred) < c.threads {
		c.centred = append(c.centred, centred{})
	}
	for i := range c.threads {
		c.centred[i].singles.begin()
		c.centred[i].doubles.begin()
	}
	c.crew.run(c, blocks, c.threads)
	c.x, c.dst, c.beside, c.pool, c.rounded = nil, nil, nil, nil, nil
}

func (c *Coordinates[T]) do(worker, item int) {
	dim, _ := c.shape()
	first, q := item*projectRows, &c.centred[worker]
	rows := min(projectRows, c.rows-first)
	after := min(first+c.threads*projectRows, c.rows) // what this worker will probably take next
	var next []byte
	if c.singly && c.rounded != nil {
		q.q, next = c.rounded.block(first), bytesOf(c.rounded.block(after))
	} else {
		next = bytesOf(c.x[after*dim : min(after+rows, c.rows)*dim])
		c.centre(q, c.x[first*dim:], rows)
	}
	if c.pool != nil {
		c.loadBlock(q, first, rows, next)
	} else {
		c.writeBlock(q, first, rows, next)
	}
	q.q = nil
}

func (c *Coordinates[T]) ended(int) {}

func (c *Coordinates[T]) writeBlock(q *centred, first, rows int, next []byte) {
	dim, left := c.shape()
	ld := len(c.dst) / c.rows
	block := c.dst[first*ld:][:rows*ld]
	c.multiply(rowsOf(block, ld), q, rows, next)
	if b := c.beside; ld > left {
		if b.singly != c.singly {
			b.centre(q, c.x[first*dim:], rows)
		}
		b.multiply(rowsOf(block[left:], ld), q, rows, nil)
	}
	whole := len(block) / lanes * lanes
	functionsOf[T]().clamp(block[:whole])
	clamp(block[whole:])
}

func (c *Coordinates[T]) loadBlock(q *centred, first, rows int, next []byte) {
	p, w, f := c.pool, panelWidth[T](), functionsOf[T]()
	_, out := c.shape()
	c.multiply(place[T]{p.coords[first*w:], w, w * p.n}, q, rows, next)
	for k := 0; k < out; k += w {
		f.clamp(p.coords[k*p.n+first*w:][:rows*w])
	}
	for j := first; j < first+rows; j += w {
		p.panel(f, j)
	}
}

// centre takes μ off a few rows, and rounds them where float32 suffices.
func (c *Coordinates[T]) centre(q *centred, x []float64, rows int) {
	if c.singly {
		q.q = c.single.centre(&q.singles, x, rows)
		return
	}
	centreRows(&c.double, &q.doubles, x, rows)
}

// multiply takes the rows that were centred into coordinates, and may ask the memory for the next ones.
func (c *Coordinates[T]) multiply(dst place[T], q *centred, rows int, next []byte) {
	if to, ok := any(dst).(place[float32]); ok && c.singly {
		c.single.multiply(to, &q.singles, q.q, rows, next)
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
