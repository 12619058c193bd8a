package stats

import "slices"

// mostTraced bounds the points of a trace: at twice as many, every other one goes, and half as many are taken from there on.
const mostTraced = 60

// Trace is how the columns that an open episode names first have gone since, as far as this process has seen it.
type Trace struct {
	Columns [][]float64 // as many points of each

	every, turn int // of how many samples one is a point
}

// add takes a sample of each column.
func (t *Trace) add(values []float64) {
	if len(t.Columns) != len(values) {
		*t = Trace{Columns: make([][]float64, len(values)), every: 1}
	}
	if t.turn++; t.turn < t.every {
		return
	}
	t.turn = 0
	for k, v := range values {
		t.Columns[k] = append(t.Columns[k], v)
	}
	if len(t.Columns) == 0 || len(t.Columns[0]) < 2*mostTraced {
		return
	}
	for k, all := range t.Columns {
		for i := range mostTraced {
			all[i] = all[2*i+1]
		}
		t.Columns[k] = all[:mostTraced]
	}
	t.every *= 2
}

// Trace takes how the columns that an open episode names first are now.
func (e *Episodes) Trace(id string, values []float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.open {
		if e.open[i].ID == id {
			if e.traces == nil {
				e.traces = map[string]*Trace{}
			}
			if e.traces[id] == nil {
				e.traces[id] = new(Trace)
			}
			e.traces[id].add(values)
			return
		}
	}
}

// Traces returns those of open episodes, by id.
func (e *Episodes) Traces() map[string][][]float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string][][]float64{}
	for i := range e.open {
		if t := e.traces[e.open[i].ID]; t != nil {
			for _, points := range t.Columns {
				all[e.open[i].ID] = append(all[e.open[i].ID], slices.Clone(points))
			}
		}
	}
	for id := range e.traces {
		if all[id] == nil {
			delete(e.traces, id)
		}
	}
	return all
}
