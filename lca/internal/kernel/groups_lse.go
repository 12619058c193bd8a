package kernel

import (
	"fmt"
	"math"
	"slices"
)

// GroupScratch holds the buffers of [Groups.LSE] and [Groups.Pack]. They grow once and are then reused. It serves one call at a time.
type GroupScratch struct {
	f32   *functions[float32]
	f64   *functions[float64]
	zero  []float32
	order []int // the rows of a call, those of one group after each other
	home  []int // the group that each row is nearest to

	// A block of rows.
	rows   []float64 // the rows
	square []float64 // |q−c|² of each row, by groups
	length []float64 // |q−c|
	near   []float64 // of each row: no nearest point is farther
	q      []float32 // rows less a centre, and the added coordinates
	logits []float32 // row r begins at r·ld
	ld     int
	starts []start // of the groups that have logits
	// One row.
	parts []part
	exact []float64 // logarithms of kernels
	point []int32   // of the large weights
	value []float32 // as they were

	divider divider // of Pack
}

// start says where the logits of a group begin.
type start struct{ at, group int }

const (
	rounding = 1.0 / (1 << 24) // of a float32
	surely   = 6               // times its typical size, no error is larger
	// mostOff is by how much weights may be off, relative to themselves, to tell whether they are large.
	mostOff = 0.5
)

// part is some of the logits of a row, all of one group. Most parts have no large weight, and their highest logit says so.
type part struct {
	at, n int
	first int // the first of the points
	most  float32
	sum   float64 // of the weights; 0 where the part is negligible
	share float64 // of the whole sum, from which on a pair is computed in float64
	// rounding is by how much logits are off: a product of d terms, and what is added to it, by (½ + ¼√d) roundings
	// at the size of its factors. That is what the errors of single steps amount to, which are as often up as down.
	rounding float64
}

// partSize is the size of a part, a multiple of lanes.
const partSize = 512

// groupRows is how many rows have logits at a time: few, so that these stay in the cache next to the pool.
const groupRows = 28

// sortedRows is how many rows are sorted at a time.
const sortedRows = 512

// negligible is by how many nats a pair is below the nearest one where a group of such pairs is left out: all of them add less than 10⁻⁹ per
// 30 points to the result.
const negligible = 24

// LSE writes the logarithm of Σ_j k(|q_i − z_j|²), the kernel up to its constant, for each of the rows of q over the whole
// pool. Pairs are formed in float32, and those that weigh most again in float64: the result is off by about
// as much as rounding it to float32 would be. Groups beyond reach are left out. The result for a row depends on that row alone.
func (g *Groups) LSE(dst []float64, s *GroupScratch, q []float64, rows int) {
	if rows < 0 || g.dim < 1 || len(q) < rows*g.dim {
		panic(fmt.Sprintf("kernel: %d numbers as %d queries of %d coordinates", len(q), rows, g.dim))
	}
	s.f32, s.f64 = functionsOf[float32](), functionsOf[float64]()
	if s.zero == nil {
		s.zero = make([]float32, panelWidth[float32]())
	}
	for first := 0; first < rows; first += sortedRows {
		n := min(sortedRows, rows-first)
		g.sorted(dst[first:][:n], s, q[first*g.dim:][:n*g.dim])
	}
}

// sorted is LSE for so few rows that it sorts them.
func (g *Groups) sorted(dst []float64, s *GroupScratch, q []float64) {
	s.order = grow(s.order, len(dst))
	for r := range dst {
		s.order[r] = r
	}
	if len(g.groups) > 1 && len(dst) > groupRows {
		g.sort(s, q)
	}
	s.rows = grow(s.rows, groupRows*g.dim)
	for first := 0; first < len(dst); first += groupRows {
		order := s.order[first:min(first+groupRows, len(dst))]
		for k, r := range order {
			copy(s.rows[k*g.dim:][:g.dim], q[r*g.dim:])
		}
		g.logits(s, len(order))
		for k, r := range order {
			dst[r] = g.lse(s, k, len(order))
		}
	}
}

// sort orders the rows by the group whose centre is nearest.
func (g *Groups) sort(s *GroupScratch, q []float64) {
	rows := len(s.order)
	s.square, s.near, s.home = grow(s.square, rows), grow(s.near, rows), grow(s.home, rows)
	clear(s.home)
	for k := range g.groups {
		s.f64.distance(s.square, q, g.dim, g.centre(k))
		for r, v := range s.square {
			if k == 0 || v < s.near[r] {
				s.near[r], s.home[r] = v, k
			}
		}
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return s.home[a] - s.home[b] })
}

func (g *Groups) centre(k int) []float64 { return g.centres[k*g.dim:][:g.dim] }

// logits forms the logits of the rows of a block, of the groups that any of them needs.
func (g *Groups) logits(s *GroupScratch, rows int) {
	s.near, s.square, s.length = grow(s.near, rows), grow(s.square, len(g.groups)*rows), grow(s.length, len(g.groups)*rows)
	for k, to := range g.groups {
		square, length := s.square[k*rows:][:rows], s.length[k*rows:][:rows]
		s.f64.distance(square, s.rows, g.dim, g.centre(k))
		for r, v := range square {
			length[r] = math.Sqrt(v)
			if most := length[r] + to.radius; k == 0 || most < s.near[r] {
				s.near[r] = most
			}
		}
	}
	w, depth := panelWidth[float32](), g.dim+added
	ldq := stride[float32](depth)
	s.ld, s.starts = stride[float32](g.slots()), s.starts[:0]
	s.logits, s.q = grow(s.logits, groupRows*s.ld), grow(s.q, groupRows*ldq)
	at := 0
	for k, to := range g.groups {
		if !g.needed(s, k, rows) {
			continue
		}
		s.starts = append(s.starts, start{at, k})
		for r, square := range s.square[k*rows:][:rows] {
			row := s.q[r*ldq:][:depth]
			active().centreF32(row[:g.dim], s.rows[r*g.dim:][:g.dim], g.centre(k))
			row[g.dim], row[g.dim+1] = 1, float32(-0.5*square)
		}
		for j := 0; j < to.n; j, at = j+w, at+w {
			s.f32.tile(s.logits[at:], s.ld, s.zero, 0, s.q, ldq, 1, g.panels[(to.slot+j)*depth:], w, depth, rows, w)
		}
	}
	s.starts = append(s.starts, start{at, len(g.groups)})
}

// needed reports whether group k is within the reach of any row of the block.
func (g *Groups) needed(s *GroupScratch, k, rows int) bool {
	for r := range rows {
		if g.within(s, k, r, rows) {
			return true
		}
	}
	return false
}

// within reports whether group k is within the reach of row r. A row that is not a number reaches all.
func (g *Groups) within(s *GroupScratch, k, r, rows int) bool {
	near := float64(s.near[r] * s.near[r])
	d := max(s.length[k*rows+r]-g.groups[k].radius, 0)
	return !(float64(d*d) > near+g.beyond(near))
}

// beyond returns by how much the squared distance of a negligible pair exceeds that of the nearest one.
func (g *Groups) beyond(nearest float64) float64 {
	if g.Shape.DOF == 0 {
		return 2 * negligible
	}
	return (float64(g.Shape.DOF) + nearest) * g.reach
}

// lse returns the result for row r of the block.
func (g *Groups) lse(s *GroupScratch, r, rows int) float64 {
	logits, q := s.logits[r*s.ld:], s.rows[r*g.dim:][:g.dim]
	top := g.parts(s, logits, r, rows)
	if math.IsInf(float64(top.most), 0) { // −Inf: no neighbour, or a row that is not finite; +Inf: the row has overflowed
		return math.Inf(-1)
	}
	nearest := g.distance(s, q, top.first+s.f32.findGE(logits[top.at:top.at+top.n], top.most))
	w := newWeigher(g.Shape, g.dim, s.f32, nearest, top.most)
	sum, least := 0.0, float64(top.most)-surely*top.rounding-0.5*g.beyond(nearest)
	for i := range s.parts {
		p := &s.parts[i]
		if !(float64(p.most)+surely*p.rounding >= least) {
			continue
		}
		off := p.rounding * w.shape.Pull(nearest, g.dim)
		if p.share = w.exactShare(off); p.share < 1 && off > mostOff {
			return g.exact(s, q, r, rows)
		}
		p.sum = w.sum(logits[p.at : p.at+p.n])
		sum += p.sum
	}
	change := 0.0
	for _, p := range s.parts {
		if p.sum > 0 && p.share < 1 {
			change += g.refine(s, &w, q, logits[p.at:p.at+p.n], p, p.share*sum)
		}
	}
	return math.Log(sum+change) + w.log
}

// exact is lse in float64, for a row that float32 does not suffice for: the points around it are that far from each other.
func (g *Groups) exact(s *GroupScratch, q []float64, r, rows int) float64 {
	s.exact = s.exact[:0]
	for k, to := range g.groups {
		if !g.within(s, k, r, rows) {
			continue
		}
		for j := range to.n {
			s.exact = append(s.exact, g.Shape.Log(g.distance(s, q, to.first+j), g.dim))
		}
	}
	top, sum := slices.Max(s.exact), 0.0
	for _, v := range s.exact {
		sum += exp64(max(v-top, low64))
	}
	return top + math.Log(sum)
}

// parts notes the parts of row r's logits, of the groups within its reach, and returns the first with the highest logit.
func (g *Groups) parts(s *GroupScratch, logits []float32, r, rows int) part {
	s.parts = s.parts[:0]
	top := part{most: float32(math.Inf(-1))}
	for i, v := range s.starts[:len(s.starts)-1] {
		if !g.within(s, v.group, r, rows) {
			continue
		}
		to := g.groups[v.group]
		off := rounding * (0.5 + 0.25*math.Sqrt(float64(g.dim))) * to.radius * s.length[v.group*rows+r]
		for at, end := v.at, s.starts[i+1].at; at < end; at += partSize {
			p := part{at: at, n: min(partSize, end-at), first: to.first + at - v.at, rounding: off}
			p.most = s.f32.rowMax(logits[at : at+p.n])
			if s.parts = append(s.parts, p); p.most > top.most {
				top = p
			}
		}
	}
	return top
}

// refine computes those weights of a part that are at least least in float64, and returns by how much its sum changes.
func (g *Groups) refine(s *GroupScratch, w *weigher, q []float64, weights []float32, p part, least float64) (change float64) {
	s.point, s.value = grow(s.point, partSize+lanes), grow(s.value, partSize+lanes)
	n := s.f32.pick(s.point, s.value, weights, int32(p.first), float32(max(w.stored(least/w.scale), math.SmallestNonzeroFloat32)))
	for k, v := range s.value[:n] {
		change += w.weight(g.distance(s, q, int(s.point[k]))) - w.scale*w.restored(float64(v))
	}
	return change
}

// distance returns the squared distance of q from point j.
func (g *Groups) distance(s *GroupScratch, q []float64, j int) (square float64) {
	return s.f64.sqDist(q, g.points[j*g.dim:][:g.dim])
}
