package stats

import "slices"

const mostTraced = 120 // points of a trace

// trace is how the columns that an open episode names first have gone since, as far as this process has seen it.
type trace struct {
	columns []int
	points  Thinned[[]float64] // a number of each column
}

// Trace takes how the columns that an open episode names first are now. It begins again where these are other ones.
func (e *Episodes) Trace(id string, columns []int, values []float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.traces[id]
	if t == nil { // it is not shown
		return
	}
	if !slices.Equal(t.columns, columns) {
		*t = trace{columns: slices.Clone(columns)}
	}
	t.points.Add(slices.Clone(values), mostTraced)
}

// Traces returns those of the open episodes that are shown, by id: the points of each column.
func (e *Episodes) Traces() map[string][][]float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string][][]float64{}
	for id, t := range e.traces {
		if len(t.points.Points) == 0 {
			continue
		}
		columns := make([][]float64, len(t.columns))
		for _, values := range t.points.Points {
			for k, v := range values {
				columns[k] = append(columns[k], v)
			}
		}
		all[id] = columns
	}
	return all
}
