package lca

import (
	"bytes"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// imputedRows is how many rows are filled between two looks at the context.
const imputedRows = 256

// impute is what Scorer.Impute needs besides the scores.
type impute struct {
	order    []int  // the rows with missing numbers, those that miss the same columns next to each other
	keys     []byte // which columns of each row are missing, as bits
	marginal kernel.Marginal[float64]
	rows     []float64 // those that are being filled
	square   []float64
	centre   []float64
}

// Impute replaces each NaN in the rows of x by its conditional mean under the model, given the rest of its row. The model is a
// mixture of copies of one distribution, one for each neighbour: with covariance M⁻¹ where M = B Bᵀ, and with a centre c_j that
// agrees with x_j along B_L and with μ along B_G. So with m the missing columns, o the others and c = Σ_j λ_j c_j
//
//	x_m = c_m − (M_mm)⁻¹ M_mo (x_o − c_o)
//
// where λ_j is the responsibility of x_j for x_o alone: its share in the kernels at the squared distances
//
//	D_j = min (|B_Gᵀ(x−μ)|² + |B_Lᵀ(x−x_j)|²) − min |B_Gᵀ(x−μ)|²
//
// each the least over the values of x_m. M⁻¹ is C_L where there is no Gaussian part. The power of a t kernel is that of d_P − tr((M_mm)⁻¹
// (B_L B_Lᵀ)_mm) coordinates, rounded, which is exact where there is no Gaussian part. A constant column gets its value in μ, and a
// row without any number the mean of all c_j. What cannot be computed, because other numbers of its row are too large, is not finite.
//
// Rows that miss the same columns are filled together, each at the cost of a score. Each set of missing columns costs as much as
// up to d/2 scores more. Impute ends with the context. x is row-major.
func (s *Scorer) Impute(ctx context.Context, x []float64, rows int) error {
	f := &s.impute
	f.sort(x, rows, s.dim)
	if len(f.order) == 0 || s.model.Young() {
		return nil
	}
	s.pack()
	s.blame.prepare(s.dim)
	for left := f.order; len(left) > 0; {
		same := 1
		for same < len(left) && bytes.Equal(f.key(left[0], s.dim), f.key(left[same], s.dim)) {
			same++
		}
		p := s.pattern(x[left[0]*s.dim:][:s.dim])
		for some := range slices.Chunk(left[:same], imputedRows) {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.fill(x, some, p)
		}
		left = left[same:]
	}
	return nil
}

// sort finds the rows with missing numbers, and brings those together that miss the same columns.
func (f *impute) sort(x []float64, rows, dim int) {
	f.order = f.order[:0]
	for i := range rows {
		row := x[i*dim : (i+1)*dim]
		if !slices.ContainsFunc(row, missing) {
			continue
		}
		if len(f.order) == 0 {
			f.keys = linalg.Resize(f.keys, rows*keyBytes(dim))
			clear(f.keys)
		}
		f.order = append(f.order, i)
		key := f.key(i, dim)
		for k, v := range row {
			if missing(v) {
				key[k/8] |= 1 << (k % 8)
			}
		}
	}
	slices.SortStableFunc(f.order, func(a, b int) int { return bytes.Compare(f.key(a, dim), f.key(b, dim)) })
}

func missing(v float64) bool { return v != v }

func keyBytes(dim int) int { return (dim + 7) / 8 }

// key returns which columns of a row are missing.
func (f *impute) key(row, dim int) []byte {
	width := keyBytes(dim)
	return f.keys[row*width : (row+1)*width]
}

// pattern is what depends on the missing columns alone. With A the rows of (B_G, B_L) of these columns, transposed, A = QR.
type pattern struct {
	columns []int      // missing, and not constant
	q       *mat.Dense // Q, its Gaussian rows before its Parzen rows
	r       *mat.Dense // R, m×m
	local   *mat.Dense // the Parzen rows of Q; nil without a Parzen part
	reached *mat.Dense // orthonormal basis of the Gaussian rows of A; nil where it is not needed
}

// pattern prepares for rows that miss the same columns as this one.
func (s *Scorer) pattern(row []float64) *pattern {
	p, b := &pattern{}, &s.blame
	for k, v := range row {
		if missing(v) && b.local[k]+b.global[k] > 0 {
			p.columns = append(p.columns, k)
		}
	}
	m, g, all := len(p.columns), s.gaussian, s.gaussian+s.parzen
	if m == 0 {
		return p
	}
	a := mat.NewDense(all, m, nil)
	for i, k := range p.columns {
		for c, v := range b.bg[k*g : (k+1)*g] {
			a.Set(c, i, v)
		}
		for c, v := range b.bl[k*s.parzen : (k+1)*s.parzen] {
			a.Set(g+c, i, v)
		}
	}
	var q *mat.Dense
	q, p.r = orthogonal(a)
	p.q = q.Slice(0, all, 0, m).(*mat.Dense)
	if s.parzen == 0 {
		return p
	}
	p.local = q.Slice(g, all, 0, m).(*mat.Dense)
	s.packMarginal(q, m)
	if g > 0 && s.neighbours.Shape.DOF > 0 {
		p.reached = columnSpace(a.Slice(0, g, 0, m))
	}
	return p
}

// orthogonal returns Q and R with A = QR. Where A has more columns than half of its rows, Q goes on with a basis of what is
// orthogonal to them.
func orthogonal(a *mat.Dense) (q, r *mat.Dense) {
	n, m := a.Dims()
	if 2*m > n {
		var qr mat.QR
		var full, square mat.Dense
		qr.Factorize(a)
		qr.QTo(&full)
		qr.RTo(&square)
		return &full, square.Slice(0, m, 0, m).(*mat.Dense)
	}
	// Gram and Schmidt, twice, which leaves nothing but rounding; a row of qt is a column of Q.
	qt, r := mat.DenseCopyOf(a.T()), mat.NewDense(m, m, nil)
	for i := range m {
		column := qt.RawRowView(i)
		for range 2 {
			for k := range i {
				along := floats.Dot(qt.RawRowView(k), column)
				floats.AddScaled(column, -along, qt.RawRowView(k))
				r.Set(k, i, r.At(k, i)+along)
			}
		}
		r.Set(i, i, floats.Norm(column, 2))
		floats.Scale(1/r.At(i, i), column)
	}
	return mat.DenseCopyOf(qt.T()), r
}

// packMarginal prepares the neighbours for rows whose m missing columns span the first m columns of q. The rest of q says the same,
// and is less where more is missing than not.
func (s *Scorer) packMarginal(q *mat.Dense, m int) {
	g, all := s.gaussian, s.gaussian+s.parzen
	accounted := 0.0 // tr((M_mm)⁻¹ (B_L B_Lᵀ)_mm)
	for c := g; c < all; c++ {
		accounted += kernel.NormSquared(q.RawRowView(c)[:m])
	}
	remain := max(1, s.parzen-int(math.Round(accounted)))
	from, to, complement := 0, m, 2*m > all
	if complement {
		from, to = m, all
	}
	var basis []float64
	if from < to {
		basis = linalg.Elements(q.Slice(g, all, from, to).T())
	}
	s.impute.marginal.Pack(&s.scratch, &s.neighbours, basis, to-from, complement, remain)
}

// columnSpace returns an orthonormal basis of the columns of a, leaving out what is rounding; nil if nothing is left.
func columnSpace(a mat.Matrix) *mat.Dense {
	const rounding = 1e-10
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDThin) {
		return nil
	}
	values := svd.Values(nil)
	rank := 0
	for rank < len(values) && values[rank] > rounding*values[0] {
		rank++
	}
	if rank == 0 {
		return nil
	}
	var u mat.Dense
	svd.UTo(&u)
	rows, _ := a.Dims()
	return u.Slice(0, rows, 0, rank).(*mat.Dense)
}

// fill replaces what is missing in some rows of x, all of which miss the columns of p.
func (s *Scorer) fill(x []float64, some []int, p *pattern) {
	f, d, n := &s.impute, s.dim, len(some)
	f.rows = linalg.Resize(f.rows, n*d)
	for i, row := range some {
		from, to := x[row*d:(row+1)*d], f.rows[i*d:(i+1)*d]
		for k, v := range from {
			if missing(v) {
				v = s.model.Mean[k]
			}
			to[k] = v
		}
	}
	if len(p.columns) > 0 {
		s.fillColumns(n, p)
	}
	for i, row := range some {
		copy(x[row*d:(row+1)*d], f.rows[i*d:(i+1)*d])
	}
}

// fillColumns adds to the rows, which have μ where they miss the columns of p, how far from it the conditional mean is. With
// u = (B_Gᵀ(x−μ), B_Lᵀ(x−z)), z the mean of the neighbours, the least of |u|² over the missing columns is at −R⁻¹Qᵀu from μ, and
// what is left of u is u − QQᵀu. There the least distance from another z_j is R⁻¹Q_Lᵀz_j further.
func (s *Scorer) fillColumns(n int, p *pattern) {
	f, g, all, m := &s.impute, s.gaussian, s.gaussian+s.parzen, len(p.columns)
	s.g, s.z = linalg.Resize(s.g, n*g), linalg.Resize(s.z, n*s.parzen)
	u := mat.NewDense(n, all, nil)
	if g > 0 {
		kernel.Project(&s.global, s.g, &s.scratch, f.rows, n)
	}
	if s.parzen > 0 {
		kernel.Project(&s.local, s.z, &s.scratch, f.rows, n)
	}
	for i := range n {
		row := u.RawRowView(i)
		copy(row, s.g[i*g:(i+1)*g])
		copy(row[g:], s.z[i*s.parzen:(i+1)*s.parzen])
	}
	f.square = linalg.Resize(f.square, n)
	s.leastGaussian(n, p)
	var shift, along mat.Dense
	linalg.Mul(&shift, u, p.q)
	linalg.Mul(&along, &shift, p.q.T())
	u.Sub(u, &along)
	shift.Scale(-1, &shift)
	if s.parzen > 0 {
		for i := range n {
			row := u.RawRowView(i)
			f.square[i] = kernel.NormSquared(row) - f.square[i]
			copy(s.z[i*s.parzen:(i+1)*s.parzen], row[g:])
		}
		f.centre = linalg.Resize(f.centre, n*s.parzen)
		kernel.Mean(f.centre, &s.scratch, s.z, f.square, n, &s.neighbours, &f.marginal)
		var nearer mat.Dense
		linalg.Mul(&nearer, mat.NewDense(n, s.parzen, f.centre), p.local)
		shift.Add(&shift, &nearer)
	}
	for i := range n {
		t := shift.RawRowView(i)
		solveUpper(p.r, t)
		for k, column := range p.columns[:m] {
			f.rows[i*s.dim+column] += t[k]
		}
	}
}

// leastGaussian writes min |B_Gᵀ(x−μ)|² over the missing columns of each row. Gaussian kernels do without: it does not change shares.
func (s *Scorer) leastGaussian(n int, p *pattern) {
	f, g := &s.impute, s.gaussian
	clear(f.square)
	if g == 0 || s.neighbours.Shape.DOF == 0 {
		return
	}
	rest := mat.NewDense(n, g, s.g[:n*g])
	if p.reached != nil {
		var inside, reached mat.Dense
		linalg.Mul(&inside, rest, p.reached)
		linalg.Mul(&reached, &inside, p.reached.T())
		rest.Sub(rest, &reached)
	}
	for i := range n {
		f.square[i] = kernel.NormSquared(rest.RawRowView(i))
	}
}

// solveUpper replaces t by R⁻¹t.
func solveUpper(r *mat.Dense, t []float64) {
	for i := len(t) - 1; i >= 0; i-- {
		row := r.RawRowView(i)
		for k := i + 1; k < len(t); k++ {
			t[i] -= float64(row[k] * t[k])
		}
		t[i] /= row[i]
	}
}
