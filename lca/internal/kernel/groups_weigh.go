package kernel

import "math"

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
