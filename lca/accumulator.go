package lca

import (
	"gonum.org/v1/gonum/mat"
)

// Accumulator makes the [Statistics] of rows under a model, part by part. A part's rows are taken in steps of a fixed number, so that
// its sums have the same bits whatever the rows came in, and for any GOMAXPROCS. It serves one goroutine.
//
// A row that is among the model's neighbours is no neighbour of its own, because it is a near copy. So data that holds equal rows
// on purpose is fitted by Fit with NearCopies false, and not by parts.
type Accumulator struct {
	model *Model
	rows  rowSums

	parts []*Statistics
	taken uint64 // rows of the part, without the invalid ones
	kept  poolCandidates
	step  *Statistics // sums of one step
}

// NewAccumulator prepares a model for E-steps in a precision. Float64 gives the sums of Fit, up to the rounding of the model's neighbours; Float32 is the
// arithmetic of a stream, about twice as fast and right to some 1e-5. In both, what sums over more than some hundred rows is float64.
func (m *Model) NewAccumulator(precision Precision) *Accumulator {
	a := &Accumulator{model: m, step: newStatistics(0, m.Parzen()+m.Gaussian())}
	if precision == Float32 {
		a.rows = newRowSums[float32](m)
	} else {
		a.rows = newRowSums[float64](m)
	}
	return a
}

// poolRows returns how many neighbours the next model has: as many as the model, if there are as many rows.
func (m *Model) poolRows() int { return len(m.Neighbours) / m.Dim }

// Begin ends the part before it, and begins one with a number of its own. Rows can be added from then on.
func (a *Accumulator) Begin(part uint64) {
	a.flush()
	a.taken = 0
	a.parts = append(a.parts, newStatistics(part, len(a.step.Mean)))
}

// Add takes rows (rows×Dim, all finite) with their identities, hashes that no two rows share. Rows further away than 9.5e7 standard deviations are left out and
// counted, because nothing else would count in sums with them.
func (a *Accumulator) Add(x []float64, ids []uint64) { addRows(a, x, ids, a.rows.project) }

// AddFloat32 is Add for rows of float32, to the bit.
func (a *Accumulator) AddFloat32(x []float32, ids []uint64) {
	addRows(a, x, ids, a.rows.projectFloat32)
}

// Leave counts rows that are left out.
func (a *Accumulator) Leave(rows int) { a.part().Invalid += uint64(rows) }

func addRows[X float32 | float64](a *Accumulator, x []X, ids []uint64, project func(x []X, n int) bool) {
	d := a.model.Dim
	for len(ids) > 0 {
		n := min(kernelRows-a.rows.count(), len(ids))
		switch {
		case project(x[:n*d], n):
			offerRows(a, x, ids[:n])
		case n == 1:
			a.Leave(1)
		default: // a row of them is too far away
			addRows(a, x[:n/2*d], ids[:n/2], project)
			addRows(a, x[n/2*d:n*d], ids[n/2:n], project)
		}
		if a.rows.count() == kernelRows {
			a.flush()
		}
		x, ids = x[n*d:], ids[n:]
	}
}

func (a *Accumulator) part() *Statistics { return a.parts[len(a.parts)-1] }

// End ends the last part and returns the sums of all. The Accumulator is done with then.
func (a *Accumulator) End() []*Statistics {
	a.flush()
	of := make(map[uint64]*Statistics, len(a.parts))
	for _, s := range a.parts {
		of[s.Part] = s
	}
	a.kept.sort()
	for _, c := range a.kept {
		of[c.part].Candidates = append(of[c.part].Candidates, c.PoolCandidate)
	}
	return a.parts
}

// flush adds the rows that have gathered to the part.
func (a *Accumulator) flush() {
	if a.rows.count() > 0 {
		a.rows.sums(a.step)
		a.part().add(a.step)
	}
}

// offerRows offers rows as neighbours of the next model.
func offerRows[X float32 | float64](a *Accumulator, x []X, ids []uint64) {
	d, most, part := a.model.Dim, a.model.poolRows(), a.part().Part
	for i, id := range ids {
		if a.kept.full(most) && id > a.kept[0].ID { // nearly all
			a.taken++
			continue
		}
		c := partCandidate{PoolCandidate{ID: id, Row: a.taken}, part}
		a.taken++
		if a.kept.wants(&c, most) {
			c.X = make([]float64, d)
			for k, v := range x[i*d:][:d] {
				c.X[k] = float64(v)
			}
			a.kept.offer(c, most)
		}
	}
}

// covariance returns the symmetric matrix of a packed upper triangle, times a factor.
func covariance(packed []float64, d int, factor float64) *mat.Dense {
	c := mat.NewDense(d, d, nil)
	at := 0
	for i := range d {
		for j := i; j < d; j++ {
			c.Set(i, j, factor*packed[at])
			c.Set(j, i, factor*packed[at])
			at++
		}
	}
	return c
}
