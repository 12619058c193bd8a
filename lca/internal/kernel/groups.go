package kernel

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Groups is a pool packed for [Groups.LSE], in groups of near points. A float32 product is as precise as its terms are small, so each
// group has its own centre:
//
//	−½|q−z|² = (q−c)·(z−c) − ½|z−c|² − ½|q−c|²
//
// The last two terms are part of the product: the last two coordinates of both sides hold them. The zero value is an empty pool. After Pack it is immutable and may be used by many goroutines, each with its own [GroupScratch].
type Groups struct {
	Shape   Shape // of the kernels; to be set before Pack
	dim     int
	reach   float64   // of t kernels, (1+u)^−(ν+p)/2 is negligible where u is more
	points  []float64 // in the order of the groups, row by row
	centres []float64 // of the groups, row by row
	groups  []group
	panels  []float32 // as in [Neighbours], of dim + added coordinates
}

// group is a part of the pool. It has whole panels, so its slots may be more than its points.
type group struct {
	first, n int     // its points
	slot     int     // its first slot, a multiple of the width of a panel
	radius   float64 // the largest distance of a point from the centre
}

const (
	// added is the number of coordinates that hold |z−c|² and |q−c|².
	added = 2
	// mostGrouped is the number of points that are not divided further, and leastGrouped that of a group at least.
	mostGrouped, leastGrouped = 128, 32
	// smaller is the part of the square of a radius below which those of both halves must be, on average. Each group costs time.
	smaller = 0.5
)

// Len returns the number of points.
func (g *Groups) Len() int { return len(g.points) / max(1, g.dim) }

// Clear empties the pool, and keeps its memory for the next.
func (g *Groups) Clear() { g.points = g.points[:0] }

// Bytes returns about how many bytes they take.
func (g *Groups) Bytes() int {
	const double, single, each = 8, 4, 32
	return double*(cap(g.points)+cap(g.centres)) + single*cap(g.panels) + each*cap(g.groups)
}

// Pack replaces the pool by the n points of dim coordinates in z, row by row. It keeps no reference to z, and works in s.
func (g *Groups) Pack(s *GroupScratch, z []float64, n, dim int) {
	if dim < 1 || len(z) < n*dim {
		panic(fmt.Sprintf("kernel: pack %d numbers as %d points of %d coordinates", len(z), n, dim))
	}
	s.order = grow(s.order, n)
	order, d := s.order, &s.divider
	for j := range order {
		order[j] = j
	}
	d.z, d.dim, d.sizes, d.sum, d.squares = z, dim, d.sizes[:0], grow(d.sum, dim), grow(d.squares, dim)
	d.divide(order)
	d.z = nil
	g.dim, g.points, g.groups = dim, grow(g.points, n*dim), g.groups[:0]
	for k, j := range order {
		copy(g.points[k*dim:][:dim], z[j*dim:])
	}
	if g.Shape.DOF > 0 {
		g.reach = exp64(negligible/g.Shape.half(dim)) - 1
	}
	first, slot := 0, 0
	for _, size := range d.sizes {
		g.groups = append(g.groups, group{first: first, n: size, slot: slot})
		first, slot = first+size, slot+ceil(size, panelWidth[float32]())
	}
	g.centres, g.panels = grow(g.centres, len(g.groups)*dim), grow(g.panels, slot*(dim+added))
	s.q = grow(s.q, panelWidth[float32]()*dim)
	for k := range g.groups {
		g.pack(functionsOf[float32](), k, s.q)
	}
}

func (g *Groups) slots() int { return len(g.panels) / (g.dim + added) }

// pack fills the centre, the radius and the panels of group k.
func (g *Groups) pack(f *functions[float32], k int, centred []float32) {
	to, w, depth := &g.groups[k], panelWidth[float32](), g.dim+added
	points, centre := g.points[to.first*g.dim:][:to.n*g.dim], g.centres[k*g.dim:][:g.dim]
	centreOf(centre, points)
	to.radius = math.Sqrt(farthest(points, centre))
	for j := 0; j < to.n; j += w {
		panel, n := g.panels[(to.slot+j)*depth:][:w*depth], min(w, to.n-j)
		clear(panel)
		for i := range n {
			active().centreF32(centred[i*g.dim:][:g.dim], points[(j+i)*g.dim:][:g.dim], centre)
		}
		f.transpose(panel, centred, g.dim, n, g.dim)
		norms, ones := panel[g.dim*w:][:w], panel[(g.dim+1)*w:][:w]
		f.norms(norms, panel[:g.dim*w])
		for i := n; i < w; i++ {
			norms[i] = float32(math.Inf(-1))
		}
		for i := range ones {
			ones[i] = 1
		}
	}
}

// divider divides points into groups.
type divider struct {
	z            []float64
	dim          int
	sizes        []int // of the groups
	sum, squares []float64
	keys         []uint64 // of sort
	spare        []int
}

// sort sorts points by coordinate k, and those of one value by their number.
func (d *divider) sort(order []int, k int) {
	const low = 1<<16 - 1 // bits of a key that hold a place
	exactly := func(a, b int) int { return cmp.Or(cmp.Compare(d.z[a*d.dim+k], d.z[b*d.dim+k]), cmp.Compare(a, b)) }
	if len(order) <= low { // numbers are sorted faster than what they stand for, by nearly all of their digits
		d.keys, d.spare = d.keys[:0], append(d.spare[:0], order...)
		for i, j := range order {
			d.keys = append(d.keys, ascending(d.z[j*d.dim+k])&^low|uint64(i))
		}
		slices.Sort(d.keys)
		for i, key := range d.keys {
			order[i] = d.spare[key&low]
		}
		if slices.IsSortedFunc(order, exactly) {
			return
		}
	}
	slices.SortFunc(order, exactly)
}

// ascending returns a number that is the larger the larger v is.
func ascending(v float64) uint64 {
	bits := math.Float64bits(v)
	if bits>>63 == 1 {
		return ^bits
	}
	return bits | 1<<63
}

// divide sorts the points so that groups follow each other, and appends their sizes. It divides the points in the coordinate
// in which they vary most, again and again, and then unites halves that are not much smaller than the whole. It returns the squared radius of the points.
func (d *divider) divide(order []int) (radius float64) {
	if len(order) == 0 {
		return 0
	}
	k := d.widest(order)
	for i, v := range d.sum { // widest has left the sum of differences from the first point there
		d.sum[i] = v/float64(len(order)) + d.z[order[0]*d.dim+i]
	}
	for _, j := range order {
		var s [4]float64
		radius = max(radius, sqDistTail(&s, d.z[j*d.dim:], d.sum))
	}
	groups := len(d.sizes)
	if len(order) > mostGrouped {
		d.sort(order, k)
		cut := d.cut(order, k)
		left, right := float64(float64(cut)*d.divide(order[:cut])), float64(float64(len(order)-cut)*d.divide(order[cut:]))
		if left+right < float64(smaller*radius*float64(len(order))) || len(d.sizes) > groups+2 {
			return radius
		}
	}
	d.sizes = append(d.sizes[:groups], len(order))
	return radius
}

// cut returns where the points, sorted by coordinate k, fall into the two parts that vary least in it.
func (d *divider) cut(order []int, k int) (cut int) {
	cut = len(order) / 2
	total, sum, most, n := 0.0, 0.0, -1.0, float64(len(order))
	origin := d.z[order[0]*d.dim+k]
	for _, j := range order {
		total += d.z[j*d.dim+k] - origin
	}
	for i, j := range order[:len(order)-leastGrouped] {
		sum += d.z[j*d.dim+k] - origin
		left := float64(i + 1)
		apart := sum/left - (total-sum)/(n-left)
		if between := float64(left*(n-left)) * float64(apart*apart); i+1 >= leastGrouped && between > most {
			cut, most = i+1, between
		}
	}
	return cut
}

// widest returns the coordinate of the largest variance.
func (d *divider) widest(order []int) int {
	clear(d.sum)
	clear(d.squares)
	origin := d.z[order[0]*d.dim:]
	for _, j := range order {
		for k, v := range d.z[j*d.dim:][:d.dim] {
			v -= origin[k]
			d.sum[k] += v
			d.squares[k] += float64(v * v)
		}
	}
	widest, most := 0, 0.0
	for k, v := range d.squares {
		if v -= float64(d.sum[k]*d.sum[k]) / float64(len(order)); v > most {
			widest, most = k, v
		}
	}
	return widest
}

// centreOf writes the mean of the points.
func centreOf(mean, points []float64) {
	clear(mean)
	for j := 0; j < len(points); j += len(mean) {
		for k, v := range points[j:][:len(mean)] {
			mean[k] += v
		}
	}
	for k := range mean {
		mean[k] /= float64(len(points) / len(mean))
	}
}

// farthest returns the largest squared distance of a point from the centre.
func farthest(points, centre []float64) (most float64) {
	for j := 0; j < len(points); j += len(centre) {
		var s [4]float64
		most = max(most, sqDistTail(&s, points[j:], centre))
	}
	return most
}

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

// weigher weighs pairs relative to the one with the highest logit.
type weigher struct {
	shape   Shape
	dim     int
	f       *functions[float32]
	nearest float64 // the squared distance of that pair
	log     float64 // of its kernel
	highest float32 // its logit
	scale   float64 // its weight by its logit, which is off by a rounding: all weights by logits are relative to it
}

func newWeigher(shape Shape, dim int, f *functions[float32], nearest float64, highest float32) weigher {
	w := weigher{shape: shape, dim: dim, f: f, nearest: nearest, highest: highest, log: shape.Log(nearest, dim)}
	w.scale = expWithin(shape.Log(max(0, -2*float64(highest)), dim) - w.log)
	return w
}

// expWithin returns eᵗ, with t brought within what float32 has room for.
func expWithin(t float64) float64 { return exp64(min(max(t, cut32), -cut32)) }

// sum replaces logits by weights and returns their sum.
func (w *weigher) sum(logits []float32) float64 {
	if w.shape.DOF == 0 {
		sum, _ := w.f.expRow(logits, w.highest)
		return w.scale * float64(sum)
	}
	rate := 2 / (float64(w.shape.DOF) + w.nearest)
	least := exp64(studentCut32 / w.shape.half(w.dim))
	sum, _, _ := w.f.studentRow(logits, w.highest, float32(rate), float32(least), w.shape.DOF+w.dim)
	return w.scale * float64(sum)
}

// exactShare returns the share of the sum from which on a pair is computed in float64, where weights are off by that much, relative to
// themselves. The errors of many pairs average out: with no share above this one, they come to √share times as much in the sum. That is to be half a
// rounding of 64 nats, or of the kernel of the nearest.
func (w *weigher) exactShare(off float64) float64 {
	root := rounding * max(32, -0.5*w.log) / off
	return float64(root * root)
}

// stored returns what stands for a weight w where logits have been: of t kernels w·y, y = w^(2/(ν+p)).
func (w *weigher) stored(weight float64) float64 {
	if w.shape.DOF == 0 {
		return weight
	}
	return math.Pow(weight, 1+1/w.shape.half(w.dim))
}

// restored is the inverse of stored.
func (w *weigher) restored(stored float64) float64 {
	if w.shape.DOF == 0 {
		return stored
	}
	return math.Pow(stored, 1/(1+1/w.shape.half(w.dim)))
}

// weight returns the weight of a pair at this squared distance.
func (w *weigher) weight(delta float64) float64 {
	return exp64(min(max(w.shape.Log(delta, w.dim)-w.log, low64), -cut32))
}
