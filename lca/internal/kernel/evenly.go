package kernel

import (
	"math"
	"slices"
)

// Evenly is [Update] where no coordinate counts in the kernel distance, and without Upper: for each row all admissible
// points count the same, so neither rows nor points are needed, only their numbers. Near copies are admissible.
func Evenly(m *Moments, rows, points int, ex Exclusion) {
	m.reset(rows, 0)
	m.shape, m.parzen, m.Upper = Shape{}, 0, m.Upper[:0]
	for i := range rows {
		n := points - ex.excluded(i, points)
		m.Admissible[i], m.Used[i], m.Atom[i] = int32(n), n > 0, false
		m.Sum[i], m.Effective[i], m.Nearest[i] = float64(n), float64(n), 0
		if n == 0 {
			m.Nearest[i] = math.Inf(1)
			continue
		}
		m.Rows++
	}
}

// excluded counts the slots that are not admissible for a row. No slot is in Index twice, nor in Order.
func (ex *Exclusion) excluded(row, slots int) (n int) {
	var near []int32
	if ex.Window != nil {
		near = ex.Order[ex.Window[row][0]:ex.Window[row][1]]
	}
	for _, j := range near {
		if int(j) < slots {
			n++
		}
	}
	if ex.Start == nil {
		return n
	}
	for _, j := range ex.Index[ex.Start[row]:ex.Start[row+1]] {
		if int(j) < slots && !slices.Contains(near, j) {
			n++
		}
	}
	return n
}
