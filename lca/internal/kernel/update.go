package kernel

import (
	"fmt"
	"math"
)

// Exclusion says which pairs and rows do not count.
type Exclusion struct {
	// Index[Start[i]:Start[i+1]] are the pool slots that are not admissible for row i, because they
	// hold the same record. A nil Start means none; otherwise it has rows+1 entries.
	Start, Index []int32
	// Order[Window[i][0]:Window[i][1]] are more such slots, where those of many rows overlap: rows that are near in
	// time. A nil Window means none.
	Order  []int32
	Window [][2]int32
	// NearCopy is the squared distance, over all coordinates, below which a pair is a near copy
	// and not admissible; 0 = off.
	NearCopy float64
	// Atom is the number of near copies from which a row that is far from all other neighbours has these as its neighbours.
	// It is scored with them, and left out of the moments, which they would draw to width 0; 0 = off.
	Atom int
	// Gate is the squared kernel distance to the nearest admissible neighbour above which a row is
	// left out of the moments (it is still scored); 0 or +Inf = off.
	Gate float64
	// Sums says that Moments.Upper is not wanted, which takes most of the time.
	Sums bool
	// Diagonal says that of Moments.Upper the diagonal alone is wanted, in Moments.Diagonal.
	Diagonal bool
}

// NearCopy is the squared distance, per dimension of whitened coordinates, below which a pair of rows is a near copy.
const NearCopy = 1e-6

// AtomCopies is the number of near copies from which rows are those of an atom: a value that comes again and again, such as the row of
// a machine that is off. Fewer may be the same record, delivered several times.
const AtomCopies = 10

// FarLimit is the squared kernel distance to the nearest neighbour beyond which a row is far: max(40, 10·d_P).
// Once EM has converged, the mean squared distance of a row to its neighbours, weighted by λ, is at most d_P: that is
// what Σ = C_L means. To the nearest it is less. So by Markov's inequality no distribution, however heavy its tails,
// has more than a tenth of its rows beyond 10·d_P.
func FarLimit(parzen int) float64 { return max(40, 10*float64(parzen)) }

// Moments is what [Update] returns. Its slices are reused by the next call with the same Moments.
type Moments struct {
	Upper      []float64 // dim×dim, on and above the diagonal Σ_i Σ_j λ_ij (q_i−z_j)(q_i−z_j)ᵀ over used rows that are of no atom, each pair times its Shape.Pull
	Diagonal   []float64 // dim numbers: the diagonal of Upper, where Exclusion.Diagonal asks for no more
	Nearest    []float64 // squared kernel distance to the nearest admissible neighbour; +Inf if there is none
	Sum        []float64 // Σ_j of the kernel relative to that of the nearest, over admissible j, at least 1; 0 if there is none
	Effective  []float64 // effective number of neighbours, exp of the entropy of λ_i, for t kernels 1/Σ_j λ_ij²; 0 if there is none
	Admissible []int32   // number of admissible neighbours
	Used       []bool    // whether the row has a neighbour and passed the gate
	Atom       []bool    // whether it is one of many equal rows, which does not count in Upper: see Exclusion
	Rows       int       // number of rows that count in Upper: used and of no atom
	Atoms      int       // number of used rows of atoms
	Copies     int       // number of pairs left out as near copies

	dim, parzen int
	shape       Shape
}

// Cov returns the whole symmetric matrix: Upper, with its lower triangle filled in.
func (m *Moments) Cov() []float64 {
	MirrorUpper(m.Upper, m.dim, m.dim)
	return m.Upper
}

// LSE returns the logarithm of the sum of the kernels over the admissible neighbours of row i, up to their constant, or
// −Inf if there is none.
func (m *Moments) LSE(i int) float64 { return math.Log(m.Sum[i]) + m.LogNearest(i) }

// LogNearest returns the logarithm of the kernel of row i and its nearest admissible neighbour, up to its constant.
func (m *Moments) LogNearest(i int) float64 { return m.shape.Log(m.Nearest[i], m.parzen) }

// Update computes the responsibilities of the rows of q (rows × the pool's dim, row by row) over
// the pool, and their moments. Rows of q should be finite; a row that is not is left out.
func Update[T Float](m *Moments, s *Scratch[T], q []T, rows int, p *Neighbours[T], ex Exclusion) {
	s.update(m, q, rows, p, ex)
	defer s.end()
	if ex.Diagonal {
		m.Diagonal = grow(m.Diagonal, p.dim)
	} else {
		m.Upper = grow(m.Upper, p.dim*p.dim)
	}
	switch none := ex.Sums || m.Rows+m.Atoms == 0; {
	case none && ex.Diagonal:
		clear(m.Diagonal)
	case none:
		clear(m.Upper)
	default:
		s.covariance()
	}
}

// update is Update without Upper. The call must be ended.
func (s *Scratch[T]) update(m *Moments, q []T, rows int, p *Neighbours[T], ex Exclusion) {
	checkQueries(q, rows, p)
	if ex.Start != nil && len(ex.Start) != rows+1 {
		panic(fmt.Sprintf("kernel: update of %d rows with %d exclusion starts", rows, len(ex.Start)))
	}
	if ex.Window != nil && len(ex.Window) != rows {
		panic(fmt.Sprintf("kernel: update of %d rows with %d windows", rows, len(ex.Window)))
	}
	if ex.Gate <= 0 {
		ex.Gate = math.Inf(1)
	}
	m.reset(rows, p.dim)
	m.shape, m.parzen = p.Shape, p.parzen
	s.begin()
	s.q, s.rows, s.pool, s.ex, s.m = q, rows, p, ex, m
	s.student()
	s.share(p.parzen + p.dim)
	s.responsibilities()
}

func checkQueries[T Float](q []T, rows int, p *Neighbours[T]) {
	if rows < 0 || p.dim < 1 || len(q) < rows*p.dim {
		panic(fmt.Sprintf("kernel: %d numbers as %d queries of %d coordinates", len(q), rows, p.dim))
	}
}

func (m *Moments) reset(rows, dim int) {
	m.dim = dim
	m.Sum, m.Nearest, m.Effective = grow(m.Sum, rows), grow(m.Nearest, rows), grow(m.Effective, rows)
	m.Admissible, m.Used, m.Atom = grow(m.Admissible, rows), grow(m.Used, rows), grow(m.Atom, rows)
	m.Rows, m.Atoms, m.Copies = 0, 0, 0
}

// responsibilities forms Λ block by block, and keeps ΛZ, Q − ΛZ, λᵀ1 and the results per row.
func (s *Scratch[T]) responsibilities() {
	w, p := panelWidth[T](), s.pool
	blocks := (s.rows + blockRows[T]() - 1) / blockRows[T]()
	padded := ceil(p.n, w)
	s.mean = grow(s.mean, ceil(p.dim, w)*s.rows)
	s.residual = grow(s.residual, ceil(p.dim, w)*s.rows)
	s.weights = grow(s.weights, blocks*padded)
	s.weight, s.weightT = grow(s.weight, padded), grow(s.weightT, padded)
	s.copies = grow(s.copies, blocks)
	s.origin = grow(s.origin, p.parzen)
	clear(s.origin)
	for i := range s.spaces {
		s.spaces[i].kind = s.spaces[i].kind[:0]
	}
	s.run(blocks, phaseUpdate)

	clear(s.weight)
	for b := range blocks {
		s.f.addTo(s.weight, s.weights[b*padded:][:padded])
		s.m.Copies += s.copies[b]
	}
	s.compact()
	for i, used := range s.m.Used {
		switch {
		case used && s.m.Atom[i]:
			s.m.Atoms++
		case used:
			s.m.Rows++
		}
	}
}

// updateBlock handles one block of rows. Dense rows move up to the top of the block, sparse rows become lists, and
// rows that are left out leave nothing. The λ_ij of a column are summed over the block as one chain of multiply-adds
// w_ij·(1/Σ): first the dense rows, then the sparse ones. Of t kernels see weigh.
func (s *Scratch[T]) updateBlock(w *workspace[T], block int) {
	p := s.pool
	first := block * blockRows[T]()
	s.logits(w, first, min(blockRows[T](), s.rows-first), s.pool.bias)
	if s.ex.NearCopy > 0 {
		w.norms = grow(w.norms, w.rows)
		s.f.distance(w.norms, s.q[first*p.dim:], p.dim, s.origin)
	}
	w.begin(p.n, ceil(p.dim, panelWidth[T]()))
	w.entropy = grow(w.entropy, ceil(w.rows, lanes))
	clear(w.entropy)
	w.sums = s.weights[block*w.length:][:w.length]
	clear(w.sums)
	s.copies[block] = 0
	for r := range w.rows {
		f, dense := s.softmax(w, r, first+r, block)
		switch {
		case f.weight == 0:
			s.leaveOut(first + r)
		case dense:
			if slot := len(w.dense); slot < r { // dense rows must be contiguous for the product with Z
				copy(w.row(slot), w.row(r))
			}
			w.dense, w.factors = append(w.dense, first+r), append(w.factors, f)
		default:
			w.closeList(first+r, f)
		}
	}
	s.effective(w, first)
	if slot := w.summed; slot < len(w.dense) { // the last one; each other was added with the exponentials of the next
		s.f.axpy(w.sums, w.row(slot), w.factors[slot].weight)
	}
	for _, l := range w.lists[w.closed:] {
		s.f.scatterAdd(w.sums, w.index[l.from:l.to], w.value[l.from:l.to], l.weight)
	}
	if s.ex.Sums {
		w.lists, w.index, w.value = w.lists[:0], w.index[:0], w.value[:0]
		return
	}
	s.denseMeans(w)
	if len(w.value) >= listUse*p.n {
		s.sparseMeans(w)
	}
}

func (w *workspace[T]) row(r int) []T { return w.logits[r*w.ld:][:w.length] }

// logits computes a block of q_i·z_j − ½|z_j|², for the given number of rows from row first on.
func (s *Scratch[T]) logits(w *workspace[T], first, rows int, bias []T) {
	p, width := s.pool, panelWidth[T]()
	w.rows, w.length = rows, ceil(p.n, width)
	w.ld = stride[T](w.length)
	ldq := stride[T](p.parzen)
	w.logits = grow(w.logits, blockRows[T]()*w.ld)
	if s.inner != nil {
		s.inner.logits(s, w, first, bias)
		return
	}
	w.q = grow(w.q, blockRows[T]()*ldq)
	for r := range rows { // a power of two as stride would make the rows compete for cache lines
		copy(w.q[r*ldq:][:p.parzen], s.q[(first+r)*p.dim:])
	}
	for j := 0; j < w.length; j += width {
		s.f.tile(w.logits[j:], w.ld, bias[j:], 0, w.q, ldq, 1, p.points[j*p.parzen:], width, p.parzen, rows, width)
	}
}

// softmax turns the logits of row r of the block, which is row i, into weights exp(s_ij − max), zero where
// not admissible. A dense row is overwritten, a sparse one becomes a list. It returns what the weights are multiplied by,
// 0 if the row is left out.
func (s *Scratch[T]) softmax(w *workspace[T], r, i, block int) (f factors[T], dense bool) {
	p, m, row := s.pool, s.m, w.row(r)
	q := s.q[i*p.dim:][:p.dim]
	excluded := s.exclude(row, i)
	top := s.f.rowMax(row)
	m.Atom[i] = false
	if s.ex.NearCopy > 0 {
		if c := s.excludeCopies(w, row, q, w.norms[r], top); c > 0 {
			top = s.f.rowMax(row)
			if m.Atom[i] = s.isAtom(w, row, q, top); m.Atom[i] {
				top = s.f.rowMax(row)
			} else {
				s.copies[block] += c
				excluded += c
			}
		}
	}
	m.Admissible[i] = int32(p.n - excluded)
	if math.IsInf(float64(top), 0) { // −Inf: no admissible neighbour; +Inf: the row has overflowed
		m.Sum[i], m.Nearest[i], m.Effective[i], m.Used[i] = 0, math.Inf(1), 0, false
		return f, false
	}
	if p.Shape.DOF > 0 {
		f, dense = s.weighStudent(w, row, q, i, top)
	} else {
		f, dense = s.weighGaussian(w, row, q, r, i, top)
	}
	m.Used[i] = m.Nearest[i] <= s.ex.Gate
	if !m.Used[i] || m.Atom[i] { // only now, because such a row is still scored
		return factors[T]{}, false
	}
	return f, dense
}

// factors are what the weights of a row are multiplied by.
type factors[T Float] struct {
	weight T // in the sums of its columns: 1/Σ_j w_ij
	mean   T // in its mean
	root   T // what its coordinates are multiplied by in its residual; 1 for Gaussian kernels
}

// weighGaussian sets the weights of row i, and what Moments says of it.
func (s *Scratch[T]) weighGaussian(w *workspace[T], row, q []T, r, i int, top T) (f factors[T], dense bool) {
	p, m := s.pool, s.m
	weights, nearest := s.list(w, row, top, 0), 0
	if dense = weights == nil; dense {
		weights = row
		nearest = s.f.findGE(row, top)
	} else {
		nearest = int(w.index[w.from+s.f.findGE(weights, top)])
	}
	// The nearest neighbour has the largest logit, but its distance is computed from the coordinates: the logit has
	// lost digits to cancellation.
	m.Nearest[i] = p.distance(s.f, q, nearest, p.parzen, math.Inf(1))
	sum, dot := s.exp(w, weights, top, dense)
	m.Sum[i] = float64(sum)
	w.entropy[r] = float64(dot) / float64(sum)
	return factors[T]{1 / sum, 1 / sum, 1}, dense
}

// exp is expRow. In the same pass it adds the previous dense row's weights to the column sums.
func (s *Scratch[T]) exp(w *workspace[T], weights []T, top T, dense bool) (sum, dot T) {
	slot := w.summed
	if !dense || slot == len(w.dense) {
		return s.f.expRow(weights, top)
	}
	w.summed++
	return s.f.expAdd(weights, w.row(slot), w.sums, top, w.factors[slot].weight)
}

// effective sets the effective numbers of neighbours of the block's rows. The entropy of λ_i is
// log Σ − (Σ_j w_ij t_ij)/Σ with t_ij = log w_ij, so its exponential is Σ divided by the exponential of the second
// term. expRow computes that one, because math.Exp does not give the same bits on every processor.
func (s *Scratch[T]) effective(w *workspace[T], first int) {
	if s.pool.Shape.DOF > 0 {
		return // weighStudent has set them
	}
	functionsOf[float64]().expRow(w.entropy, 0)
	for r, v := range w.entropy[:w.rows] {
		s.m.Effective[first+r] = s.m.Sum[first+r] / v
	}
}

// denseMeans forms ΛZ and Q − ΛZ for the dense rows: weightedSums, and one multiplication by 1/Σ at its end.
func (s *Scratch[T]) denseMeans(w *workspace[T]) {
	p, width := s.pool, panelWidth[T]()
	if len(w.dense) == 0 {
		return
	}
	s.weightedSums(w, len(w.dense))
	for c := 0; c < p.dim; c += width {
		for slot, i := range w.dense {
			s.storeMean(i, c, w.sum[c*blockRows[T]()+slot*width:], w.factors[slot])
		}
	}
}

// storeMean writes the mean of row i, sum·f.mean, and its residual, f.root·q − mean, for the panel of coordinates from c
// on.
func (s *Scratch[T]) storeMean(i, c int, sum []T, f factors[T]) {
	width := panelWidth[T]()
	cols := min(width, s.pool.dim-c)
	at := c*s.rows + i*width
	q := s.q[i*s.pool.dim+c:]
	if f.root != 1 {
		q = scaled(s.residual[at:][:cols], q, f.root)
	}
	s.f.meanResidual(s.mean[at:][:cols], s.residual[at:], sum, q, f.mean)
	clear(s.mean[at+cols:][:width-cols])
	clear(s.residual[at+cols:][:width-cols])
}

// meanResidual writes mean = sum·factor, rounded, and residual = q − mean.
func meanResidual[T Float](mean, residual, sum, q []T, factor T) {
	q, residual, sum = q[:len(mean)], residual[:len(mean)], sum[:len(mean)]
	for k, v := range sum {
		v = T(v * factor)
		mean[k] = v
		residual[k] = q[k] - v
	}
}

// leaveOut clears the mean and residual of row i, so that it does not count in the covariance.
func (s *Scratch[T]) leaveOut(i int) {
	width := panelWidth[T]()
	for c := 0; c < s.pool.dim; c += width {
		clear(s.mean[c*s.rows+i*width:][:width])
		clear(s.residual[c*s.rows+i*width:][:width])
	}
}

// exclude sets the logits of the slots that are not admissible for row i to −Inf, and returns how many there are.
func (s *Scratch[T]) exclude(row []T, i int) (excluded int) {
	if s.ex.Start != nil {
		excluded += excludeSlots(row, s.ex.Index[s.ex.Start[i]:s.ex.Start[i+1]])
	}
	if s.ex.Window != nil {
		w := s.ex.Window[i]
		excluded += excludeSlots(row, s.ex.Order[w[0]:w[1]])
	}
	return excluded
}

func excludeSlots[T Float](row []T, slots []int32) (excluded int) {
	none := T(math.Inf(-1))
	for _, j := range slots {
		if row[j] != none {
			excluded++
		}
		row[j] = none
	}
	return excluded
}

// excludeCopies sets the logits of near copies to −Inf, and returns how many there are. Logits cannot tell a copy
// from a near point, because ½|q|² − s is the small difference of large numbers. So it computes the distance over
// all coordinates for every pair whose logit could be that of a copy, given the rounding errors of a chain of parzen
// terms. norm is |q|² over the coordinates of the kernel distance.
func (s *Scratch[T]) excludeCopies(w *workspace[T], row, q []T, norm float64, top T) (copies int) {
	w.copied, w.copiedLogits = w.copied[:0], w.copiedLogits[:0]
	p, limit := s.pool, s.ex.NearCopy
	unit := 0x1p-24
	if sizeOf[T]() == 8 {
		unit = 0x1p-53
	}
	reach := math.Sqrt(norm) + math.Sqrt(limit) // the largest |z_j| of a copy
	slack := 2 * float64(p.parzen+4) * unit * reach * reach
	if s.inner != nil {
		slack *= s.inner.Loss
	}
	least := T(0.5*(norm-limit) - slack)
	if !(top >= least) {
		return 0
	}
	last := -1 // the last copy: in discrete data many neighbours are equal to it, which is told sooner
	for j := 0; ; j++ {
		if j == p.n || !(row[j] >= least) { // where there are copies at all, the next point is often one, too
			if j += s.f.findGE(row[j:], least); j >= p.n {
				return copies
			}
		}
		if last >= 0 && w.same(p, last, j) || p.distance(s.f, q, j, p.dim, limit) < limit {
			s.keepCopy(w, j, row[j])
			row[j] = T(math.Inf(-1))
			copies++
			last = j
		}
	}
}

// same reports whether two points have the same coordinates. Where many have, they are compared once, and not again for each row.
func (w *workspace[T]) same(p *Neighbours[T], i, j int) bool {
	if len(w.kind) != p.n {
		w.kind = grow(w.kind, p.n)
		clear(w.kind)
	}
	if w.kind[i] != 0 && w.kind[i] == w.kind[j] {
		return true
	}
	if !p.equal(i, j) {
		return false
	}
	if w.kind[i] == 0 {
		w.kind[i] = int32(i) + 1
	}
	w.kind[j] = w.kind[i]
	return true
}

// keepCopy remembers the logit of a near copy, where those of an atom count.
func (s *Scratch[T]) keepCopy(w *workspace[T], slot int, logit T) {
	if s.ex.Atom > 0 {
		w.copied, w.copiedLogits = append(w.copied, slot), append(w.copiedLogits, logit)
	}
}

// isAtom reports whether the row's near copies, which have been taken out, make it a row of an atom: there are as many as
// Exclusion.Atom, and all other neighbours are far. top is the largest logit of these. The copies then get their logits back.
func (s *Scratch[T]) isAtom(w *workspace[T], row, q []T, top T) bool {
	p := s.pool
	if s.ex.Atom <= 0 || len(w.copied) < s.ex.Atom {
		return false
	}
	if !math.IsInf(float64(top), 0) && p.distance(s.f, q, s.f.findGE(row, top), p.parzen, math.Inf(1)) <= FarLimit(p.parzen) {
		return false
	}
	for k, slot := range w.copied {
		row[slot] = w.copiedLogits[k]
	}
	return true
}

// covariance forms Ĉ = (Q−ΛZ)ᵀ(Q−ΛZ) + ZᵀSZ − (ΛZ)ᵀ(ΛZ) (see the package comment), on and above
// the diagonal. Each goroutine owns panels of columns, so there is nothing to combine.
func (s *Scratch[T]) covariance() {
	w, dim := panelWidth[T](), s.pool.dim
	panels := ceil(dim, w) / w
	if s.ex.Diagonal {
		s.cov = grow(s.cov, panels*w*w)
		s.run(panels, phaseCovariance)
		for k := range dim {
			s.m.Diagonal[k] = s.cov[k*w+k%w]
		}
		return
	}
	s.cov = grow(s.cov, panels*w*panels*w)
	s.run(panels, phaseCovariance)
	s.storeUpper(s.m.Upper, dim)
}

// storeUpper copies what is on and above the diagonal from panels to rows.
func (s *Scratch[T]) storeUpper(upper []float64, dim int) {
	w := panelWidth[T]()
	ld := ceil(dim, w)
	for c := 0; c < dim; c += w {
		panel, end := s.cov[c*ld:], min(c+w, dim)
		for r := range end {
			from := max(r, c)
			copy(upper[r*dim+from:r*dim+end], panel[r*w+from-c:])
		}
	}
}

// covariancePanel forms the rows 0 … of one panel of columns down to the diagonal. The last panel is the longest
// and is taken first, so that all goroutines finish at about the same time.
func (s *Scratch[T]) covariancePanel(w *workspace[T], item int) {
	width, p := panelWidth[T](), s.pool
	panels := ceil(p.dim, width) / width
	c := panels - 1 - item
	w.tile = grow(w.tile, width*width)
	clear(w.tile) // a half panel that the product leaves out is added as zeros
	w.scaled = grow(w.scaled, foldRows*width)
	first, at := 0, c*width*panels*width // panel of rows
	if s.ex.Diagonal {
		first, at = c, c*width*width
	}
	to := s.cov[at:]
	clear(to[:(c+1-first)*width*width])
	for k := 0; k < s.points; k += foldRows {
		depth := min(foldRows, s.points-k)
		s.f.scale(w.scaled, s.coords[c*width*s.points+k*width:], s.weightT[k:][:depth])
		s.products(w, to, first, c, p.dim, s.coords, s.points, k, w.scaled, depth, s.f.addTo)
	}
	for i := 0; i < s.rows; i += foldRows {
		depth := min(foldRows, s.rows-i)
		at = c*width*s.rows + i*width
		s.products(w, to, first, c, p.dim, s.residual, s.rows, i, s.residual[at:], depth, s.f.addTo)
		s.products(w, to, first, c, p.dim, s.mean, s.rows, i, s.mean[at:], depth, s.f.subFrom)
	}
}

// products computes depth terms of aᵀb for panel c of a covariance of dim columns and the panels of a from top to c, and adds them to
// cov, or subtracts them, by fold. a is panels of n rows, of which it uses those from first on.
func (s *Scratch[T]) products(w *workspace[T], cov []float64, top, c, dim int, a []T, n, first int, b []T, depth int, fold func([]float64, []T)) {
	width := panelWidth[T]()
	cols := min(width, dim-c*width)
	for r := top; r <= c; r++ {
		rows := min(width, dim-r*width)
		s.f.tile(w.tile, width, s.zero, 0, a[r*width*n+first*width:], 1, width, b, width, depth, rows, cols)
		fold(cov[(r-top)*width*width:][:rows*width], w.tile)
	}
}

// Most rows of Λ are sparse once the metric is learnt: in 256 dimensions a point has about one effective neighbour.
// If at most one weight in sparseShare of a row exceeds e^sparseCut of the largest, the row keeps only those, and the
// others count as zero. They add up to less than N·e^−21, which is 1e-6 of the row for a pool of thousands, and
// float32 could not represent that either. The rule depends on the row alone, so that the result does not depend on
// blocks, threads or implementations.
const (
	sparseShare = 16
	sparseCut32 = -21
	sparseCut64 = -40

	// countFirst is how many logits are looked at before the first check for too many weights; of a small pool no more than
	// can be too many. The number doubles up to countStep, because a dense row mostly shows itself early.
	countFirst = 64
	countStep  = 512

	// listUse is the number of listed weights per point of the pool at which the means of the sparse rows are
	// formed: each point that is loaded is then used about that often.
	listUse = 8
)

// list is one sparse row.
type list[T Float] struct {
	row        int // its index in the minibatch
	from, to   int // bounds of its slots and weights, in the workspace's index and value
	factors[T]     // of its weights
}

// begin makes room for a block of rows over n points of dims coordinates, whole panels.
func (w *workspace[T]) begin(n, dims int) {
	rows := blockRows[T]()
	w.factors, w.dense = grow(w.factors, rows)[:0], grow(w.dense, rows)[:0]
	w.closed, w.summed = len(w.lists), 0
	if len(w.lists) == 0 {
		room := listUse*n + rows*ceil(n/sparseShare, lanes) + countStep // the last row may turn out to be dense
		w.index, w.value, w.lists = grow(w.index, room)[:0], grow(w.value, room)[:0], grow(w.lists, room/lanes)[:0]
	}
	w.sum = grow(w.sum, rows*dims)
}

// list appends the logits of the large weights to the workspace's lists and returns them, padded with −Inf to a
// multiple of lanes. It returns nil if the row is dense. rate is that of t kernels.
func (s *Scratch[T]) list(w *workspace[T], row []T, top, rate T) []T {
	least, limit := top+sparseCut32, s.pool.n/sparseShare
	switch {
	case s.pool.Shape.DOF > 0:
		least = top - T(s.t.reach/float64(rate))
	case sizeOf[T]() == 8:
		least = top + sparseCut64
	}
	from, count := len(w.value), 0
	index, value := w.index[from:cap(w.index)], w.value[from:cap(w.value)]
	for at, step := 0, min(countFirst, ceil(limit+1, lanes)); at < len(row); at, step = at+step, min(2*step, countStep) {
		part := row[at:min(at+step, len(row))]
		if count += s.f.pick(index[count:], value[count:], part, int32(at), least); count > limit {
			return nil
		}
	}
	w.from, w.to = from, from+count
	w.index, w.value = w.index[:from+count], w.value[:from+count]
	for len(w.value)%lanes != 0 {
		w.index, w.value = append(w.index, 0), append(w.value, T(math.Inf(-1)))
	}
	return w.value[from:]
}

// closeList records the newest list as row i.
func (w *workspace[T]) closeList(i int, f factors[T]) {
	w.lists = append(w.lists, list[T]{i, w.from, w.to, f})
}

// sparseMeans forms ΛZ and Q − ΛZ for the sparse rows so far, by the chain of w_ij z_j over the slots of each list. It
// uses a panel for all rows before the next panel, so that the panel stays in the L2 cache. It is called when there
// are enough rows to use each point several times ([listUse]).
func (s *Scratch[T]) sparseMeans(w *workspace[T]) {
	p, width := s.pool, panelWidth[T]()
	for c := 0; c < p.dim; c += width {
		for _, l := range w.lists {
			s.f.spmv(w.sum[:width], p.coords[c*p.n:][:p.n*width], w.index[l.from:l.to], w.value[l.from:l.to])
			s.storeMean(l.row, c, w.sum, l.factors)
		}
	}
	w.lists, w.index, w.value = w.lists[:0], w.index[:0], w.value[:0]
}

// compact chooses the points that ZᵀSZ runs over: all of them or, if more than half have no weight, a copy of those
// that have one. It sets s.points, s.coords and their weights s.weightT.
func (s *Scratch[T]) compact() {
	p, width := s.pool, panelWidth[T]()
	s.weightT = s.weightT[:0]
	for _, v := range s.weight[:p.n] {
		if v != 0 {
			s.weightT = append(s.weightT, T(v))
		}
	}
	s.points, s.coords = len(s.weightT), p.coords
	if 2*s.points >= p.n {
		s.points, s.weightT = p.n, s.weightT[:0]
		for _, v := range s.weight[:p.n] {
			s.weightT = append(s.weightT, T(v))
		}
		return
	}
	s.kept = grow(s.kept, ceil(p.dim, width)*s.points)
	for c := 0; c < p.dim; c += width {
		from, to := p.coords[c*p.n:][:p.n*width], s.kept[c*s.points:]
		for j, v := range s.weight[:p.n] {
			if v != 0 {
				copy(to[:width], from[j*width:])
				to = to[width:]
			}
		}
	}
	s.coords = s.kept
}

// spmv32 and spmv64 write the sum over e of value[e] times row index[e] of a panel: one chain of
// multiply-adds per column, e ascending. The indices ascend.
func spmv32(dst, panel []float32, index []int32, value []float32) {
	clear(dst)
	for e, j := range index {
		for c, v := range panel[int(j)*len(dst):][:len(dst)] {
			dst[c] = fma32(value[e], v, dst[c])
		}
	}
}

func spmv64(dst, panel []float64, index []int32, value []float64) {
	clear(dst)
	for e, j := range index {
		for c, v := range panel[int(j)*len(dst):][:len(dst)] {
			dst[c] = math.FMA(value[e], v, dst[c])
		}
	}
}

// scatterAdd32 and scatterAdd64 add value[e]·factor to sums[index[e]], each by a multiply-add.
func scatterAdd32(sums []float32, index []int32, value []float32, factor float32) {
	for e, j := range index {
		sums[j] = fma32(value[e], factor, sums[j])
	}
}

func scatterAdd64(sums []float64, index []int32, value []float64, factor float64) {
	for e, j := range index {
		sums[j] = math.FMA(value[e], factor, sums[j])
	}
}

// axpy32 and axpy64 add row[j]·factor to sums[j], each by a multiply-add.
func axpy32(sums, row []float32, factor float32) {
	for j, v := range row {
		sums[j] = fma32(v, factor, sums[j])
	}
}

func axpy64(sums, row []float64, factor float64) {
	for j, v := range row {
		sums[j] = math.FMA(v, factor, sums[j])
	}
}

// pick finds the elements of s that are at least v. It writes first plus their indices to index, their values to
// value, and returns their count. index and value have room for all of s; what follows the found elements is
// unspecified. len(s) is a multiple of lanes.
func pick[T Float](index []int32, value, s []T, first int32, v T) (count int) {
	for j, x := range s {
		if x >= v {
			index[count], value[count] = first+int32(j), x
			count++
		}
	}
	return count
}
