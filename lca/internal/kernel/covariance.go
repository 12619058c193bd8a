package kernel

// covariance forms Ĉ = (Q−ΛZ)ᵀ(Q−ΛZ) + ZᵀSZ − (ΛZ)ᵀ(ΛZ) (see the package comment), on and above
// the diagonal. Each goroutine owns panels of columns, so there is nothing to combine.
func (s *Scratch[T]) covariance() {
	w, dim := panelWidth[T](), s.pool.dim
	panels := ceil(dim, w) / w
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
	clear(s.cov[c*width*panels*width:][:(c+1)*width*width])
	for k := 0; k < s.points; k += foldRows {
		depth := min(foldRows, s.points-k)
		s.f.scale(w.scaled, s.coords[c*width*s.points+k*width:], s.weightT[k:][:depth])
		s.products(w, c, p.dim, s.coords, s.points, k, w.scaled, depth, s.f.addTo)
	}
	for i := 0; i < s.rows; i += foldRows {
		depth := min(foldRows, s.rows-i)
		at := c*width*s.rows + i*width
		s.products(w, c, p.dim, s.residual, s.rows, i, s.residual[at:], depth, s.f.addTo)
		s.products(w, c, p.dim, s.mean, s.rows, i, s.mean[at:], depth, s.f.subFrom)
	}
}

// products computes depth terms of aᵀb for panel c of a covariance of dim columns and all panels of a up to c, and adds them to
// the panel, or subtracts them, by fold. a is panels of n rows, of which it uses those from first on.
func (s *Scratch[T]) products(w *workspace[T], c, dim int, a []T, n, first int, b []T, depth int, fold func([]float64, []T)) {
	width := panelWidth[T]()
	cols := min(width, dim-c*width)
	at := c * width * ceil(dim, width)
	for r := 0; r <= c; r++ {
		rows := min(width, dim-r*width)
		s.f.tile(w.tile, width, s.zero, 0, a[r*width*n+first*width:], 1, width, b, width, depth, rows, cols)
		fold(s.cov[at+r*width*width:][:rows*width], w.tile)
	}
}
