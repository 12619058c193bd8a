package kernel

import (
	"fmt"
)

// Coordinates computes y = W(x−μ), the coordinates of rows in a metric, for an E-step in T. Where T is float32 and
// float32 suffices ([Float32Suffices]) it multiplies by a [Projection32], otherwise by a [Projection]. A coordinate
// that is NaN, or so large that its square would overflow, is replaced by one that is still far from everything.
// The zero value is empty; a Coordinates serves one call at a time.
type Coordinates[T Float] struct {
	// Threads is how many goroutines a call may use, as in [Scratch].
	Threads int

	double    Projection
	single    Projection32
	inFloat32 bool // whether single is in use, not double
	thin      thin // W, where it has few numbers

	workers workers
	threads int
	buffers []rowBuffers // of each worker

	// The arguments of the current call. Coordinates go to dst or, if pool is not nil, into the pool.
	x       []float64
	rows    int
	dst     []T
	second  *Coordinates[T] // its coordinates go next to ours in dst; may be nil
	pool    *Neighbours[T]
	centred *CentredRows // the rows of x less μ, if the caller has them; may be nil
}

// rowBuffers is what one worker needs for a few rows less their mean.
type rowBuffers struct {
	doubles Scratch[float64]
	singles Scratch[float32]
	q       []float32 // the centred rows in float32: in singles, or in a CentredRows
}

// farAway is the largest magnitude of a coordinate.
const farAway = 1e15

// Pack sets μ (dim numbers) and W (out×dim, row by row) for rows whose columns have the given standard
// deviations. Columns of W that are zero throughout 16 or 32 rows, from some column on, are not multiplied:
// of a lower triangular W, half.
func (c *Coordinates[T]) Pack(mean, w []float64, dim, out int, deviation []float64) {
	c.thin.used = false
	if c.inFloat32 = sizeOf[T]() == 4 && Float32Suffices(w, dim, out, deviation); c.inFloat32 {
		c.single.Pack(mean, w, dim, out)
	} else {
		c.double.Pack(mean, w, dim, out)
	}
}

// shape returns the sizes of W.
func (c *Coordinates[T]) shape() (dim, out int) {
	if c.inFloat32 {
		return c.single.dim, c.single.out
	}
	return c.double.dim, c.double.out
}

// Apply writes the coordinates of each row of x.
func (c *Coordinates[T]) Apply(dst []T, x []float64, rows int) { ProjectPair(dst, x, rows, c, nil) }

// ProjectPair writes a's coordinates of each row of x and, if b is not nil, b's next to them. Both have the same μ.
func ProjectPair[T Float](dst []T, x []float64, rows int, a, b *Coordinates[T]) {
	dim, ld := a.shape()
	if b != nil {
		_, right := b.shape()
		ld += right
	}
	if len(x) < rows*dim || len(dst) < rows*ld {
		panic(fmt.Sprintf("kernel: coordinates of %d rows of %d from %d numbers into %d", rows, dim, len(x), len(dst)))
	}
	a.dst, a.second = dst[:rows*ld], b
	a.run(x, rows, ld)
}

// Load writes the coordinates of the rows of x as the first coordinates of the pool's points, which must include
// all that count in the kernel distance. While they are in the cache it copies them into both kinds of panels.
// centred holds the rows of x less μ; where it is nil, or float32 does not suffice, Load centres x itself.
func (c *Coordinates[T]) Load(p *Neighbours[T], x []float64, centred *CentredRows) {
	dim, out := c.shape()
	if len(x) < p.n*dim || out > p.dim || p.parzen > out {
		panic(fmt.Sprintf("kernel: load %d coordinates from %d numbers, %d per point, into a pool of %d points of %d coordinates, %d in the kernel", out, len(x), dim, p.n, p.dim, p.parzen))
	}
	c.pool, c.centred = p, centred
	c.run(x, p.n, out)
}

// run computes the coordinates of the rows, out per row, projectRows rows at a time.
func (c *Coordinates[T]) run(x []float64, rows, out int) {
	const perElement = 64 // cost of loading and centring an element, in multiply-adds
	dim, _ := c.shape()
	blocks := ceil(rows, projectRows) / projectRows
	c.x, c.rows = x[:rows*dim], rows
	if c.thin.used {
		out = 0
	}
	c.threads = max(1, min(blocks, c.workers.threads(c.Threads, rows*dim*(out+perElement))))
	for len(c.buffers) < c.threads {
		c.buffers = append(c.buffers, rowBuffers{})
	}
	for i := range c.threads {
		c.buffers[i].singles.begin()
		c.buffers[i].doubles.begin()
	}
	c.workers.run(c, blocks, c.threads)
	c.x, c.dst, c.second, c.pool, c.centred = nil, nil, nil, nil, nil
}

func (c *Coordinates[T]) do(worker, item int) {
	dim, _ := c.shape()
	first, b := item*projectRows, &c.buffers[worker]
	rows := min(projectRows, c.rows-first)
	after := min(first+c.threads*projectRows, c.rows) // the block that this worker will probably take next
	var next []byte
	if c.inFloat32 && c.centred != nil {
		b.q, next = c.centred.block(first), bytesOf(c.centred.block(after))
	} else {
		next = bytesOf(c.x[after*dim : min(after+rows, c.rows)*dim])
		c.centre(b, c.x[first*dim:], rows)
	}
	if c.pool != nil {
		c.loadBlock(b, first, rows, next)
	} else {
		c.writeBlock(b, first, rows, next)
	}
	b.q = nil
}

func (c *Coordinates[T]) finish(int) {}

func (c *Coordinates[T]) writeBlock(b *rowBuffers, first, rows int, next []byte) {
	dim, left := c.shape()
	ld := len(c.dst) / c.rows
	block := c.dst[first*ld:][:rows*ld]
	c.multiply(rowView(block, ld), b, rows, next)
	if second := c.second; ld > left {
		if second.inFloat32 != c.inFloat32 {
			second.centre(b, c.x[first*dim:], rows)
		}
		second.multiply(rowView(block[left:], ld), b, rows, nil)
	}
	whole := len(block) / lanes * lanes
	functionsOf[T]().clamp(block[:whole])
	clamp(block[whole:])
}

func (c *Coordinates[T]) loadBlock(b *rowBuffers, first, rows int, next []byte) {
	p, w, f := c.pool, panelWidth[T](), functionsOf[T]()
	_, out := c.shape()
	c.multiply(view[T]{data: p.coords[first*w:], ld: w, step: w * p.n}, b, rows, next)
	for k := 0; k < out; k += w {
		f.clamp(p.coords[k*p.n+first*w:][:rows*w])
	}
	for j := first; j < first+rows; j += w {
		p.panel(f, j)
	}
}

// centre writes rows of x less μ to b, in float32 where that suffices.
func (c *Coordinates[T]) centre(b *rowBuffers, x []float64, rows int) {
	if c.inFloat32 {
		b.q = c.single.centre(&b.singles, x, rows)
		return
	}
	centreRows(&c.double, &b.doubles, x, rows)
}

// multiply writes W times the centred rows in b to dst. In float32 it also prefetches next.
func (c *Coordinates[T]) multiply(dst view[T], b *rowBuffers, rows int, next []byte) {
	if t := &c.thin; t.used {
		if dim, _ := c.shape(); c.inFloat32 {
			applyThin(&t.singles, t.column, dst, &b.singles, b.q, stride[float32](dim), rows)
		} else {
			applyThin(&t.doubles, t.column, dst, &b.doubles, b.doubles.space(0).q, stride[float64](dim), rows)
		}
		return
	}
	if to, ok := any(dst).(view[float32]); ok && c.inFloat32 {
		c.single.multiply(to, &b.singles, b.q, rows, next)
		return
	}
	multiply(&c.double, dst, &b.doubles, rows)
}

// clamp limits numbers to ±farAway; NaN becomes +farAway.
func clamp[T Float](s []T) {
	for k, v := range s {
		if !(v < farAway) {
			s[k] = farAway
		} else if !(v > -farAway) {
			s[k] = -farAway
		}
	}
}

// CentredRows holds the rows of a pool less their mean μ, rounded to float32, as a [Projection32] multiplies them. They
// are kept from one W to the next, so that only new rows have to be centred. The zero value is empty.
type CentredRows struct {
	dim, ld int
	rows    []float32 // at a stride that suits the cache
}

// Reset replaces all rows by the n rows of x, less the mean.
func (r *CentredRows) Reset(x []float64, n int, mean []float64) {
	r.dim, r.ld = len(mean), stride[float32](len(mean))
	r.rows = grow(r.rows, n*r.ld)
	for i := range n {
		r.Set(i, x[i*r.dim:], mean)
	}
}

// Set replaces row i by x less the mean.
func (r *CentredRows) Set(i int, x, mean []float64) {
	if len(x) < r.dim || len(mean) != r.dim {
		panic(fmt.Sprintf("kernel: centre a row of %d numbers by a mean of %d as a row of %d", len(x), len(mean), r.dim))
	}
	active().centreF32(r.rows[i*r.ld:][:r.dim], x[:r.dim], mean)
}

// block returns the rows from row i on, at most projectRows.
func (r *CentredRows) block(i int) []float32 {
	return r.rows[min(i*r.ld, len(r.rows)):min((i+projectRows)*r.ld, len(r.rows))]
}
