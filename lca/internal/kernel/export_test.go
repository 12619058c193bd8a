package kernel

// PeakFlops multiplies a tile that stays in the L1 cache many times, and returns the number of flops. Other results
// are judged by how many it does per second.
func PeakFlops[T Float](p *PeakOperands[T]) float64 {
	const rows, depth, times = 14, 128, 400
	w, f := panelWidth[T](), functionsOf[T]()
	if p.a == nil {
		p.a, p.b, p.c, p.zero = grow(p.a, rows*depth), grow(p.b, depth*w), grow(p.c, rows*w), make([]T, w)
	}
	for range times {
		f.tile(p.c, w, p.zero, 0, p.a, depth, 1, p.b, w, depth, rows, w)
	}
	return 2 * rows * depth * times * float64(w)
}

// PeakOperands are what PeakFlops multiplies.
type PeakOperands[T Float] struct{ a, b, c, zero []T }
