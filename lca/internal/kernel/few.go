package kernel

import (
	"fmt"
	"math"
)

// Few is a pool of few points of few coordinates, packed for [Few.LSE]. There is a model for each of many keys, and a model whitens a row or two
// before the next one's turn comes: so what counts is that a pool is packed at once and takes little memory. It is one group in the sense of
// [Groups], around c, and its points are kept in float32 alone. Those that weigh most are computed again in float64 from the rows that
// the pool was packed from.
//
//	−½|q−z|² = q·z − ½|z|² − ½|q|²
//
// The last term is the same for all points and added in float64. The zero value is an empty pool. After Pack it is immutable and may be used by many goroutines, each with its own [FewScratch].
type Few struct {
	Shape  Shape // of the kernels
	n, dim int
	radius float64   // the largest |z|
	panels []float32 // −½|z_j|², −Inf beyond n, and then the points as in [Neighbours]
}

const (
	mostFew    = 512 // points; model.by has 500 by default
	mostFewDim = 16  // coordinates and columns: one panel of a [Projection]
)

// FewFit reports whether n points of that many coordinates, made of rows of that many columns, fit into a [Few].
func FewFit(n, dim, columns int) bool { return n <= mostFew && max(dim, columns) <= mostFewDim }

// FewScratch holds the buffers of [Few.LSE] and [Few.Pack]. It serves one call at a time.
type FewScratch struct {
	f32 *functions[float32]
	f64 *functions[float64]
	z   []float32 // the points of Pack

	logits, q []float32
	point     []int32   // of the large weights
	value     []float32 // as they were
	apart     []float64 // squared distances of all points

	// The points in float64.
	from    *Projection
	rows    []float32
	again   int // how many have been computed one by one
	one     [mostFewDim]float64
	points  []float64 // all of them, once that many are needed that this is cheaper
	scratch *Scratch[float64]
}

// fewAgain is how many points of a call are computed one by one.
const fewAgain = 24

// Len returns the number of points.
func (g *Few) Len() int { return g.n }

// Clear empties the pool, and keeps its memory for the next.
func (g *Few) Clear() { g.n = 0 }

// Bytes returns about how many bytes it takes.
func (g *Few) Bytes() int { return 4 * cap(g.panels) }

// slots returns the number of points with those that fill the last panel.
func (g *Few) slots() int { return ceil(g.n, panelWidth[float32]()) }

// Around returns the projection with another mean, which it shares.
func (p *Projection) Around(mean []float64) Projection {
	moved := *p
	moved.mean = mean
	return moved
}

// Pack replaces the pool by n points z_j, which from makes of rows. They must be around 0.
func (g *Few) Pack(s *FewScratch, scratch *Scratch[float64], from *Projection, rows []float32, n int) {
	if n < 0 || len(rows) < n*from.dim || !FewFit(n, from.out, from.dim) {
		panic(fmt.Sprintf("kernel: pack %d numbers as %d points of %d coordinates, made of %d columns", len(rows), n, from.out, from.dim))
	}
	f, w := functionsOf[float32](), panelWidth[float32]()
	g.n, g.dim = n, from.out
	slots := g.slots()
	s.z, g.panels = grow(s.z, n*g.dim), grow(g.panels, slots*(1+g.dim))
	Project(from, s.z, scratch, rows, n)
	norms, least := g.panels[:slots], float32(0)
	for j := 0; j < n; j += w {
		panel, points := g.panel(j), min(w, n-j)
		if points < w {
			clear(panel)
		}
		f.transpose(panel, s.z[j*g.dim:], g.dim, points, g.dim)
		f.norms(norms[j:][:w], panel)
		for i := points; i < w; i++ {
			norms[j+i] = float32(math.Inf(-1))
		}
	}
	for _, v := range norms[:n] {
		least = min(least, v)
	}
	g.radius = math.Sqrt(-2 * float64(least))
}

// panel returns the panel that begins with point j.
func (g *Few) panel(j int) []float32 {
	return g.panels[g.slots()+j*g.dim:][:panelWidth[float32]()*g.dim]
}

// LSE writes the logarithm of Σ_j k(|q_i − z_j|²), as [Groups.LSE] does, for each of the rows of q. from and rows are those of Pack.
func (g *Few) LSE(dst []float64, s *FewScratch, scratch *Scratch[float64], q []float64, count int, from *Projection, rows []float32) {
	if count < 0 || g.dim < 1 || len(q) < count*g.dim {
		panic(fmt.Sprintf("kernel: %d numbers as %d queries of %d coordinates", len(q), count, g.dim))
	}
	s.f32, s.f64 = functionsOf[float32](), functionsOf[float64]()
	s.from, s.rows, s.scratch, s.again, s.points = from, rows, scratch, 0, s.points[:0]
	slots, block := g.slots(), blockRows[float32]()
	ld, ldq := stride[float32](slots), stride[float32](g.dim)
	for first := 0; first < count; first += block {
		n := min(block, count-first)
		s.logits, s.q = grow(s.logits, n*ld), grow(s.q, n*ldq)
		for r := range n {
			for k, v := range q[(first+r)*g.dim:][:g.dim] {
				s.q[r*ldq+k] = float32(v)
			}
		}
		for j, w := 0, panelWidth[float32](); j < slots; j += w {
			s.f32.tile(s.logits[j:], ld, g.panels[j:], 0, s.q, ldq, 1, g.panel(j), w, g.dim, n, w)
		}
		for r := range n {
			dst[first+r] = g.lse(s, s.logits[r*ld:][:slots], q[(first+r)*g.dim:][:g.dim])
		}
	}
	s.from, s.rows, s.scratch = nil, nil, nil
}

// lse returns the result for one row.
func (g *Few) lse(s *FewScratch, logits []float32, q []float64) float64 {
	square := NormSquared(q)
	top := s.f32.rowMax(logits)
	if beyond := float32(0.5 * square); beyond-beyond != 0 || math.IsInf(float64(top), 0) {
		return math.Inf(-1) // no neighbour, or a row that is not finite or has overflowed
	}
	w := weigher{shape: g.Shape, dim: g.dim, f: s.f32, nearest: g.distance(s, q, s.f32.findGE(logits, top)), highest: top}
	w.log = w.shape.Log(w.nearest, g.dim)
	w.scale = expWithin(w.shape.Log(max(0, square-2*float64(top)), g.dim) - w.log)
	off := rounding * (0.5 + 0.25*math.Sqrt(float64(g.dim))) * g.radius * math.Sqrt(square) * w.shape.Pull(w.nearest, g.dim)
	share := w.exactShare(off)
	if share < 1 && off > mostOff {
		return g.exact(s, q)
	}
	sum := w.sum(logits)
	if share < 1 {
		sum += g.refine(s, &w, q, logits, share*sum)
	}
	return math.Log(sum) + w.log
}

// refine computes the weights that are at least least in float64, and returns by how much their sum changes.
func (g *Few) refine(s *FewScratch, w *weigher, q []float64, weights []float32, least float64) (change float64) {
	s.point, s.value = grow(s.point, mostFew+lanes), grow(s.value, mostFew+lanes)
	n := s.f32.pick(s.point, s.value, weights, 0, float32(max(w.stored(least/w.scale), math.SmallestNonzeroFloat32)))
	for k, v := range s.value[:n] {
		change += w.weight(g.distance(s, q, int(s.point[k]))) - w.scale*w.restored(float64(v))
	}
	return change
}

// exact is lse in float64, for a row that float32 does not suffice for.
func (g *Few) exact(s *FewScratch, q []float64) float64 {
	g.all(s)
	s.apart = grow(s.apart, g.n)
	s.f64.distance(s.apart, s.points, g.dim, q)
	top, sum := math.Inf(-1), 0.0
	for j, v := range s.apart {
		s.apart[j] = g.Shape.Log(v, g.dim)
		top = max(top, s.apart[j])
	}
	for _, v := range s.apart {
		sum += exp64(max(v-top, low64))
	}
	return top + math.Log(sum)
}

// all makes all points in float64.
func (g *Few) all(s *FewScratch) {
	if len(s.points) == 0 {
		s.points = grow(s.points, g.n*g.dim)
		Project(s.from, s.points, s.scratch, s.rows, g.n)
	}
}

// distance returns the squared distance of q from point j.
func (g *Few) distance(s *FewScratch, q []float64, j int) float64 {
	if s.again++; s.again > fewAgain {
		g.all(s)
	}
	if len(s.points) > 0 {
		return s.f64.sqDist(q, s.points[j*g.dim:][:g.dim])
	}
	z, p, width := s.one[:g.dim], s.from, panelWidth[float64]()
	clear(z)
	for k, v := range s.rows[j*p.dim:][:p.dim] {
		x := float64(v) - p.mean[k]
		for c, b := range p.panels[k*width:][:len(z)] {
			z[c] = math.FMA(x, b, z[c]) // the chain of Project
		}
	}
	return s.f64.sqDist(q, z)
}
