package stats

// Thinned are points of a curve that spans all that was added, in a bounded number of points. Who holds Points may go on reading them: what is there does not change.
type Thinned[T any] struct {
	Points []T

	step, seen uint64 // of how many that were added one is a point, and how many were
}

// Add adds a point. When there are more than most, every other one is removed and the step doubles.
func (c *Thinned[T]) Add(p T, most int) {
	c.step = max(c.step, 1)
	c.seen++
	if c.seen%c.step != 0 {
		return
	}
	points := append(c.Points, p)
	if len(points) > most {
		half := points[:0:0]
		for i := 1; i < len(points); i += 2 {
			half = append(half, points[i])
		}
		points, c.step = half, 2*c.step
	}
	c.Points = points
}
