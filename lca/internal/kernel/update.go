package kernel

import (
	"fmt"
	"math"
)

// Exclusion says which pairs and rows do not count.
type Exclusion struct {
	// Index[Start[i]:Start[i+1]] are the pool slots that are not admissible for row i, because they
	// hold the same record. Start nil means none; else it has rows+1 entries.
	Start, Index []int32
	// NearCopy is the squared distance, over all coordinates, below which a pair is a copy and not
	// admissible; 0 = off.
	NearCopy float64
	// Gate is the squared kernel distance to the nearest admissible neighbour above which a row is
	// left out of the moments (it is still scored); 0 or +Inf = off.
	Gate float64
}

// Moments is what [Update] returns. Its slices are reused by the next call with the same Moments.
type Moments struct {
	Cov        []float64 // dim×dim, symmetric: Σ_i Σ_j λ_ij (q_i−z_j)(q_i−z_j)ᵀ over used rows
	LSE        []float64 // log Σ_j exp(−½ dist²) over admissible j; −Inf when there is none
	Nearest    []float64 // squared kernel distance to the nearest admissible neighbour; +Inf when there is none
	Effective  []float64 // exp of the entropy of λ_i, the effective number of neighbours; 0 when there is none
	Admissible []int32   // number of admissible neighbours
	Used       []bool    // whether the row is in Cov: it has a neighbour and passed the gate
	Rows       int       // number of used rows
	Copies     int       // pairs left out as near copies
}

// Update computes the responsibilities of the rows of q (rows × the pool's dim, row by row) over
// the pool, and their moments. Rows of q are finite numbers; one that is not is left unused.
func Update[T Float](m *Moments, s *Scratch[T], q []T, rows int, p *Neighbours[T], ex Exclusion) {
	checkQueries(q, rows, p)
	if ex.Start != nil && len(ex.Start) != rows+1 {
		panic(fmt.Sprintf("kernel: update of %d rows with %d exclusion starts", rows, len(ex.Start)))
	}
	if ex.Gate <= 0 {
		ex.Gate = math.Inf(1)
	}
	m.reset(rows, p.dim)
	s.begin()
	s.q, s.rows, s.pool, s.ex, s.m = q, rows, p, ex, m
	defer s.end()
	s.responsibilities()
	s.covariance()
}

func checkQueries[T Float](q []T, rows int, p *Neighbours[T]) {
	if rows < 0 || p.dim < 1 || len(q) < rows*p.dim {
		panic(fmt.Sprintf("kernel: %d numbers as %d queries of %d coordinates", len(q), rows, p.dim))
	}
}

func (m *Moments) reset(rows, dim int) {
	m.Cov = grow(m.Cov, dim*dim)
	m.LSE, m.Nearest, m.Effective = grow(m.LSE, rows), grow(m.Nearest, rows), grow(m.Effective, rows)
	m.Admissible, m.Used = grow(m.Admissible, rows), grow(m.Used, rows)
	m.Rows, m.Copies = 0, 0
}

// responsibilities forms Λ block by block; of it remain ΛZ, Q − ΛZ, λᵀ1 and the figures per row.
func (s *Scratch[T]) responsibilities() {
	w, p := panelWidth[T](), s.pool
	blocks := (s.rows + blockRows[T]() - 1) / blockRows[T]()
	padded := ceil(p.n, w)
	s.mean = grow(s.mean, ceil(p.dim, w)*s.rows)
	s.residual = grow(s.residual, ceil(p.dim, w)*s.rows)
	s.weights = grow(s.weights, blocks*padded)
	s.weight, s.weightT = grow(s.weight, padded), grow(s.weightT, padded)
	s.copies = grow(s.copies, blocks)
	s.run(blocks, phaseUpdate)

	clear(s.weight)
	for b := range blocks {
		s.f.addTo(s.weight, s.weights[b*padded:][:padded])
		s.m.Copies += s.copies[b]
	}
	for j, v := range s.weight {
		s.weightT[j] = T(v)
	}
	for _, u := range s.m.Used {
		if u {
			s.m.Rows++
		}
	}
}

// updateBlock handles one block of rows.
func (s *Scratch[T]) updateBlock(w *worker[T], block int) {
	p := s.pool
	first := block * blockRows[T]()
	rows := min(blockRows[T](), s.rows-first)
	w.inv = grow(w.inv, rows)
	s.copies[block] = 0
	ld := s.logits(w, first, rows)
	for r := range rows {
		row := w.logits[r*ld:][:ceil(p.n, panelWidth[T]())]
		w.inv[r] = s.softmax(row, first+r, block)
	}
	s.sumWeights(w, ld, rows, block)
	s.means(w, ld, first, rows)
}

// logits fills w.logits with q_i·z_j − ½|z_j|² for rows from first on, and returns its stride.
func (s *Scratch[T]) logits(w *worker[T], first, rows int) (ld int) {
	p, width := s.pool, panelWidth[T]()
	padded := ceil(p.n, width)
	ld = stride[T](padded)
	ldq := stride[T](p.parzen)
	w.logits = grow(w.logits, blockRows[T]()*ld)
	w.q = grow(w.q, blockRows[T]()*ldq)
	for r := range rows {
		copy(w.q[r*ldq:][:p.parzen], s.q[(first+r)*p.dim:])
	}
	for j := 0; j < padded; j += width {
		s.f.tile(w.logits[j:], ld, p.bias[j:], 0, w.q, ldq, 1, p.points[j*p.parzen:], width, p.parzen, rows, width)
	}
	return ld
}

// softmax turns the logits of row i into weights exp(s_ij − max), zero where not admissible, and
// returns 1/Σ_j w_ij, or 0 when the row is left out.
func (s *Scratch[T]) softmax(row []T, i, block int) T {
	p, m := s.pool, s.m
	q := s.q[i*p.dim:][:p.dim]
	excluded := s.exclude(row, i)
	top := s.f.rowMax(row)
	if s.ex.NearCopy > 0 {
		if c := s.excludeCopies(row, q, top); c > 0 {
			s.copies[block] += c
			excluded += c
			top = s.f.rowMax(row)
		}
	}
	m.Admissible[i] = int32(p.n - excluded)
	if math.IsInf(float64(top), 0) {
		m.LSE[i], m.Nearest[i], m.Effective[i], m.Used[i] = math.Inf(-1), math.Inf(1), 0, false
		clear(row)
		return 0
	}
	m.Nearest[i] = p.distance(q, s.f.findGE(row, top), p.parzen, math.Inf(1))
	sum, dot := s.f.expRow(row, top)
	log := math.Log(float64(sum))
	m.LSE[i] = log - 0.5*m.Nearest[i]
	m.Effective[i] = 1 / expNegative(float64(dot)/float64(sum)-log)
	m.Used[i] = m.Nearest[i] <= s.ex.Gate
	if !m.Used[i] {
		return 0
	}
	return 1 / sum
}

// expNegative is exp for t ≤ 0, by our own exp.
func expNegative(t float64) float64 {
	c := taylor64()
	return exp64(max(low64, min(t, 0)), &c)
}

// exclude sets the logits of the slots that hold row i's own record to −Inf, and counts them.
func (s *Scratch[T]) exclude(row []T, i int) (excluded int) {
	if s.ex.Start == nil {
		return 0
	}
	for _, j := range s.ex.Index[s.ex.Start[i]:s.ex.Start[i+1]] {
		if float64(row[j]) != math.Inf(-1) {
			excluded++
		}
		row[j] = T(math.Inf(-1))
	}
	return excluded
}

// excludeCopies sets the logits of near copies to −Inf, and counts them. Logits cannot tell a copy
// from a near point: ½|q|² − s is the small difference of large numbers. So every pair whose logit
// could be that of a copy, the rounding errors of its chain of parzen terms allowed for, is looked
// at again, coordinate by coordinate over the full metric.
func (s *Scratch[T]) excludeCopies(row, q []T, top T) (copies int) {
	p, limit := s.pool, s.ex.NearCopy
	norm := normSquared(q[:p.parzen])
	unit := 0x1p-24
	if sizeOf[T]() == 8 {
		unit = 0x1p-53
	}
	reach := math.Sqrt(norm) + math.Sqrt(limit) // |z_j| of a copy is at most this
	slack := 2 * float64(p.parzen+4) * unit * reach * reach
	least := T(0.5*(norm-limit) - slack)
	if !(top >= least) {
		return 0
	}
	for j := 0; ; j++ {
		if j += s.f.findGE(row[j:], least); j >= p.n {
			return copies
		}
		if p.distance(q, j, p.dim, limit) < limit {
			row[j] = T(math.Inf(-1))
			copies++
		}
	}
}

// sumWeights adds the block's λ_ij over its rows: one chain of multiply-adds w_ij·(1/Σ) a column.
func (s *Scratch[T]) sumWeights(w *worker[T], ld, rows, block int) {
	width := panelWidth[T]()
	padded := ceil(s.pool.n, width)
	sums := s.weights[block*padded:][:padded]
	for j := 0; j < padded; j += width {
		s.f.tile(sums[j:], width, s.zero, 0, w.inv, 0, 1, w.logits[j:], ld, rows, 1, width)
	}
}

// means forms ΛZ and Q − ΛZ for the block's rows: the chain over j of w_ij z_j, then one
// multiplication by 1/Σ. Rows that are left out become zero in both.
func (s *Scratch[T]) means(w *worker[T], ld, first, rows int) {
	p, width := s.pool, panelWidth[T]()
	for k := 0; k < p.n; k += chainRows {
		depth := min(chainRows, p.n-k)
		for c := 0; c < p.dim; c += width {
			out := s.mean[c*s.rows+first*width:]
			init, ldi := out, width
			if k == 0 {
				init, ldi = s.zero, 0
			}
			s.f.tile(out, width, init, ldi, w.logits[k:], ld, 1, p.coords[c*p.n+k*width:], width, depth, rows, min(width, p.dim-c))
		}
	}
	for c := 0; c < p.dim; c += width {
		cols := min(width, p.dim-c)
		for r := range rows {
			i := first + r
			mean, residual := s.mean[c*s.rows+i*width:][:width], s.residual[c*s.rows+i*width:][:width]
			if inv := w.inv[r]; inv == 0 {
				clear(mean)
				clear(residual)
			} else {
				center(mean[:cols], residual, s.q[i*p.dim+c:], inv)
				clear(mean[cols:])
				clear(residual[cols:])
			}
		}
	}
}

func center[T Float](mean, residual, q []T, inv T) {
	q, residual = q[:len(mean)], residual[:len(mean)]
	for k, v := range mean {
		v = T(v * inv)
		mean[k] = v
		residual[k] = q[k] - v
	}
}
