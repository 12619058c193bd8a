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

// slots returns the number of slots of all groups.
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
