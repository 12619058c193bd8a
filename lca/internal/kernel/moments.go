package kernel

// SubScale writes s·(x − o).
func SubScale(dst, x, o []float64, s float64) { active().subScale(dst, x, o, s) }

// AddDiff adds x − o to sum.
func AddDiff(sum, x, o []float64) { active().addDiff(sum, x, o) }

// AddSquares adds (x − o)² to sum. Like all here it multiplies and adds in two roundings.
func AddSquares(sum, x, o []float64) { active().addSquares(sum, x, o) }

// Fade is dst ← keep·dst + s·x.
func Fade(dst, x []float64, keep, s float64) { active().fade(dst, x, keep, s) }

// PairMoments are running moments of pairs of rows, for each column: of their mean, of the mean of their squares, of their product, and of half
// their squared difference.
type PairMoments struct{ Sum, Square, Product, Apart []float64 }

// Add moves the moments by w towards those of the pair x and y, measured from o. Half the squared difference counts as at most most times the
// limit of its column, where that is above 0. The limit may be m.Apart.
func (m *PairMoments) Add(x, y, o, limit []float64, most, w float64) {
	active().addPair(m, x, y, o, limit, most, w)
}

func subScale(dst, x, o []float64, s float64) {
	x, o = x[:len(dst)], o[:len(dst)]
	for k, v := range x {
		dst[k] = s * (v - o[k])
	}
}

func addDiff(sum, x, o []float64) {
	x, o = x[:len(sum)], o[:len(sum)]
	for k, v := range x {
		sum[k] += v - o[k]
	}
}

func addSquares(sum, x, o []float64) {
	x, o = x[:len(sum)], o[:len(sum)]
	for k, v := range x {
		v -= o[k]
		sum[k] += float64(v * v)
	}
}

func fade(dst, x []float64, keep, s float64) {
	x = x[:len(dst)]
	for k, v := range dst {
		dst[k] = float64(keep*v) + float64(x[k]*s)
	}
}

func addPair(m *PairMoments, x, y, o, limit []float64, most, w float64) {
	for k, c := range o[:len(m.Sum)] {
		x, y := x[k]-c, y[k]-c
		half := 0.5 * (x - y) * (x - y)
		if bound := most * limit[k]; limit[k] > 0 && bound < half {
			half = bound
		}
		m.Sum[k] += float64(w * (0.5*(x+y) - m.Sum[k]))
		m.Square[k] += float64(w * (0.5*(float64(x*x)+float64(y*y)) - m.Square[k]))
		m.Product[k] += float64(w * (float64(x*y) - m.Product[k]))
		m.Apart[k] += float64(w * (half - m.Apart[k]))
	}
}
