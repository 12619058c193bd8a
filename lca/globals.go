package lca

import "github.com/lca-stream/lca-stream/lca/internal/linalg"

// exactEvery is the number of minibatches after which the pool's sums are formed anew about a
// fresh origin: sums that rows enter and leave for ever would drift by rounding.
const exactEvery = 64

// globals are μ and C_G (section 4, below eq. 6) as a stream knows them. They must look back as far
// as C_L does: under drift a longer memory makes the old and the new place of a cluster look like
// one wide Gaussian, and the model as if it were not Gaussian at all. So
//
//	pool         the mean and covariance of the pool's rows, when there are N ≥ 10·d of them
//	exponential  otherwise, with C_L's own discount: an average of too few rows is singular
//	all rows     over a finite set (Config.Finite) there is no drift to follow
//
// The moments cover all columns, the constant ones too, so that a column that starts to move is
// seen. All sums run in row order in float64.
type globals struct {
	kind momentKind
	dim  int
	mean []float64 // μ
	cov  []float64 // C_G without ν_g, dim×dim, both triangles

	// Of the pool's rows: Σ(x−o) and Σ(x−o)(x−o)ᵀ, upper triangle, about an origin o near the mean.
	origin, sum, square []float64
	age                 int       // minibatches since the sums were exact
	in, out             []float64 // rows that entered and left the pool in this minibatch
	cancelled           bool      // a row left whose square dwarfed all others: what remains is rounding

	count   float64   // rows so far (all rows)
	centred []float64 // scratch
}

// momentKind is the memory that μ and C_G have.
type momentKind uint8

const (
	momentsPool momentKind = iota + 1
	momentsExponential
	momentsAll
)

// moments returns the memory that suits the configuration.
func (c Config) moments() momentKind {
	switch {
	case c.Finite:
		return momentsAll
	case c.Neighbours >= 10*c.Dim:
		return momentsPool
	}
	return momentsExponential
}

func newGlobals(kind momentKind, dim int) *globals {
	return &globals{
		kind: kind, dim: dim, mean: make([]float64, dim), cov: make([]float64, dim*dim),
		origin: make([]float64, dim), sum: make([]float64, dim), square: make([]float64, dim*dim),
	}
}

// start sets the moments from the warm-up rows.
func (g *globals) start(x []float64) {
	n := len(x) / g.dim
	meanOf(g.mean, x, g.dim)
	clear(g.square)
	g.addSquares(x, g.mean, linalg.Add)
	g.covFrom(float64(n))
	g.count = float64(n)
}

// startPool sets them from the pool that the warm-up rows have filled.
func (g *globals) startPool(p *pool) {
	if g.kind == momentsPool {
		g.exact(p)
		g.fromPool(p.len())
	}
}

// replace tells the sums that a row enters the pool and another, or nil, leaves it; learn takes
// both into account.
func (g *globals) replace(in, out []float64) {
	if g.kind == momentsPool {
		g.in, g.out = append(g.in, in...), append(g.out, out...)
	}
}

// exchange adds the rows that entered to the sums and takes off those that left.
func (g *globals) exchange() {
	g.addSquares(g.in, g.origin, linalg.Add)
	before := trace(g.square, g.dim)
	g.addSquares(g.out, g.origin, linalg.Subtract)
	g.cancelled = g.cancelled || trace(g.square, g.dim) < 1e-6*before
	g.addSum(g.in, 1)
	g.addSum(g.out, -1)
	g.in, g.out = g.in[:0], g.out[:0]
}

// addSum adds Σ w(x−o) over rows.
func (g *globals) addSum(rows []float64, w float64) {
	for ; len(rows) > 0; rows = rows[g.dim:] {
		for k, o := range g.origin {
			g.sum[k] += w * (rows[k] - o)
		}
	}
}

// learn ends a minibatch whose n rows were x, and which C_L was discounted for by keep.
func (g *globals) learn(x []float64, keep float64, p *pool) {
	switch n := float64(len(x) / g.dim); {
	case g.kind == momentsPool:
		g.exchange()
		if g.age++; g.age >= exactEvery || g.cancelled {
			g.exact(p)
		}
		g.fromPool(p.len())
	case n == 0 || keep == 1:
	case g.kind == momentsExponential:
		g.merge(x, 1-keep)
	default:
		g.count += n
		g.merge(x, n/g.count)
	}
}

// merge lets the rows of x have the given share of the moments (Chan, Golub, LeVeque 1979):
//
//	C ← (1−w) C + w C_x + w(1−w)(μ_x−μ)(μ_x−μ)ᵀ,   μ ← μ + w(μ_x−μ)
func (g *globals) merge(x []float64, w float64) {
	d := g.dim
	centre, old := make([]float64, d), append([]float64(nil), g.mean...)
	meanOf(centre, x, d)
	n := float64(len(x) / d)
	for k := range g.square {
		g.square[k] = g.cov[k] * ((1 - w) * n / w)
	}
	g.addSquares(x, centre, linalg.Add)
	g.addOuter(centre, old, (1-w)*n)
	g.covFrom(n / w)
	for k := range g.mean {
		g.mean[k] += float64(w * (centre[k] - old[k]))
	}
}

// exact forms the pool's sums anew, about the pool's mean.
func (g *globals) exact(p *pool) {
	meanOf(g.origin, p.rows, g.dim)
	clear(g.sum)
	clear(g.square)
	g.addSquares(p.rows, g.origin, linalg.Add)
	g.addSum(p.rows, 1)
	g.age, g.cancelled, g.in, g.out = 0, false, g.in[:0], g.out[:0]
}

// fromPool sets μ and C_G from the pool's sums.
func (g *globals) fromPool(n int) {
	g.covFrom(float64(n))
	d, inverse := g.dim, 1/float64(n)
	for i := range d {
		mi := g.sum[i] * inverse
		g.mean[i] = g.origin[i] + mi
		for j := i; j < d; j++ {
			c := g.cov[i*d+j] - float64(mi*(g.sum[j]*inverse))
			g.cov[i*d+j], g.cov[j*d+i] = c, c
		}
		g.cov[i*d+i] = max(g.cov[i*d+i], 0)
	}
}

// covFrom sets C_G = square/n, both triangles.
func (g *globals) covFrom(n float64) {
	d := g.dim
	for i := range d {
		for j := i; j < d; j++ {
			c := g.square[i*d+j] / n
			g.cov[i*d+j], g.cov[j*d+i] = c, c
		}
	}
}

// addSquares adds Σ (x−o)(x−o)ᵀ over rows to square, or subtracts it, a block of rows at a time.
func (g *globals) addSquares(rows, o []float64, mode linalg.Mode) {
	const block = 256
	d := g.dim
	w := linalg.Borrow()
	defer w.Return()
	for ; len(rows) > 0; rows = rows[min(block*d, len(rows)):] {
		n := min(block, len(rows)/d)
		g.centred = resize(g.centred, n*d)
		for i := range n {
			for k, v := range o {
				g.centred[i*d+k] = rows[i*d+k] - v
			}
		}
		c := linalg.Dense(g.centred, d)
		w.Product(g.square, d, c.T(), c, d, d, n, mode)
	}
}

// addOuter adds w (x−o)(x−o)ᵀ to the upper triangle of square.
func (g *globals) addOuter(x, o []float64, w float64) {
	d := g.dim
	r := make([]float64, d)
	for k := range r {
		r[k] = x[k] - o[k]
	}
	for i, ri := range r {
		axpy(g.square[i*d+i:(i+1)*d], r[i:], float64(w*ri))
	}
}

// axpy is y ← y + a x.
func axpy(y, x []float64, a float64) {
	if a == 0 {
		return
	}
	x = x[:len(y)]
	for k, v := range x {
		y[k] += float64(a * v)
	}
}

// meanOf sets dst to the mean of rows; a second pass takes out the rounding of the first.
func meanOf(dst, rows []float64, dim int) {
	n := len(rows) / dim
	clear(dst)
	for pass := 0; pass < 2; pass++ {
		rest := make([]float64, dim)
		for i := range n {
			for k, v := range rows[i*dim : (i+1)*dim] {
				rest[k] += v - dst[k]
			}
		}
		for k := range dst {
			dst[k] += rest[k] / float64(n)
		}
	}
}

// trace is the sum of the diagonal of a dim×dim matrix.
func trace(a []float64, dim int) (sum float64) {
	for k := range dim {
		sum += a[k*dim+k]
	}
	return sum
}
