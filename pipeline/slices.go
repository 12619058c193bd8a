package pipeline

// sliceCost is about how many products of numbers are made between two looks at whether the work is
// still wanted: a second or a few. A batch of many columns, or against many neighbours, takes minutes,
// and a group waits 30 s for a member before it gives the partition to another, which would begin the
// same batch, be in the way of the next division, and so on without end.
const sliceCost = 1 << 32

// sliceRows is how many rows of a model cost so much.
func sliceRows(dim, neighbourNumbers int) int {
	return max(1, sliceCost/max(1, dim*dim+neighbourNumbers))
}

// inSlices whitens n rows of x slice by slice, unless the context of Do ends. What becomes of a row does
// not depend on the slices.
func inSlices[X float32 | float64](t *Transform, whiten func(y, score []float32, x []X, n int) bool, y, score []float32, x []X, n int) (finite bool, err error) {
	d, step := t.model.Model.Dim, t.slice
	finite = true
	for first := 0; first < n; first += step {
		if err := t.ctx.Err(); err != nil {
			return false, err
		}
		last := min(first+step, n)
		var part []float32
		if score != nil {
			part = score[first:last]
		}
		finite = whiten(y[first*d:last*d], part, x[first*d:last*d], last-first) && finite
	}
	return finite, nil
}
