package lca

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// nearPairs spares the steps of a diagonal metric the distances of pairs that are too far apart to count. A step that computes all of them notes the
// pairs that a row may need in the next steps. The variances then change by less and less: while v_k/v'_k is within [a, b], a distance δ becomes one within
// [aδ, bδ]. So of a row whose nearest neighbour is at δ₀, the pairs beyond δ₀ + 80 + pairMargin have weights below e^−40 of the largest, as long as
//
//	(bδ₀ + 80)/a ≤ δ₀ + 80 + pairMargin.
//
// Those of at most 4,096 rows add up to 2e-14 of a row, and e^−40 is where the kernels cut, too.
type nearPairs struct {
	inner     []float64 // z_i·z_j of all pairs, or of those near and beyondAll of others
	near      [][]int32 // of each row, those after it; nil: there are too many
	variances []float64 // when they were noted
	farthest  float64   // the largest δ₀ then, with what its rounding may be
	only      bool      // whether inner has no more than these
}

const (
	pairMargin = 40
	pairShare  = 16   // no more than one in so many pairs is worth noting: one alone takes longer than one of many
	beyondAll  = -1e9 // a product that makes the weight 0, and the neighbour admissible
	pairRows   = 128  // that one goroutine takes at a time
)

// hold reports whether the pairs noted are enough for these variances.
func (p *nearPairs) hold(variances []float64) bool {
	if p.near == nil {
		return false
	}
	low, high := math.Inf(1), 0.0
	for k, v := range p.variances {
		low, high = min(low, v/variances[k]), max(high, v/variances[k])
	}
	const reach = -2 * negligiblePair
	return (high*p.farthest+reach)/low <= p.farthest+reach+pairMargin
}

// negligiblePair is the logarithm of a weight that does not count, relative to the largest of its row.
const negligiblePair = -40

// sparedSteps counts the steps of near pairs only, for tests.
var sparedSteps atomic.Int64

// update sets the products for the rows z, whitened by the variances. leftOut names the rows that are no neighbours of one; those nearer to it than copies may
// be none either.
func (p *nearPairs) update(ctx context.Context, z, variances []float64, leftOut func(row int) []int32, copies float64) error {
	d := len(variances)
	rows := len(z) / d
	blocks := (rows + pairRows - 1) / pairRows
	if !p.hold(variances) {
		return p.renew(ctx, z, variances, leftOut, copies)
	}
	sparedSteps.Add(1)
	square := make([]float64, rows)
	for i := range square {
		square[i] = kernel.NormSquared(z[i*d:][:d])
	}
	if !p.only {
		for i := range p.inner {
			p.inner[i] = beyondAll
		}
		p.only = true
	}
	return eachIndex(ctx, blocks, func(block int) {
		const few = 4 // rows of which the kernels take the distances together
		some, delta := make([]float64, few*d), [few]float64{}
		for i := block * pairRows; i < min(rows, (block+1)*pairRows); i++ {
			for near := p.near[i]; len(near) > 0; near = near[min(few, len(near)):] {
				part := near[:min(few, len(near))]
				for l, j := range part {
					copy(some[l*d:][:d], z[int(j)*d:])
				}
				kernel.SquaredDistances(delta[:len(part)], some, d, z[i*d:][:d])
				for l, j := range part {
					v := 0.5 * (square[i] + square[j] - delta[l])
					p.inner[i*rows+int(j)], p.inner[int(j)*rows+i] = v, v
				}
			}
		}
	})
}

// renew computes all products, each once, and notes the pairs that are near.
func (p *nearPairs) renew(ctx context.Context, z, variances []float64, leftOut func(row int) []int32, copies float64) error {
	d := len(variances)
	rows := len(z) / d
	p.inner, p.only, p.near = linalg.Resize(p.inner, rows*rows), false, nil
	if err := eachIndex(ctx, (rows+pairRows-1)/pairRows, func(block int) {
		w := linalg.Borrow()
		defer w.Return()
		from, to := block*pairRows, min(rows, (block+1)*pairRows)
		w.Product(p.inner[from*rows:], rows, linalg.Dense(z[from*d:], d), linalg.Dense(z, d).T(), to-from, to, d, linalg.Set)
	}); err != nil {
		return err
	}
	linalg.Mirror(p.inner, rows)
	square, most := make([]float64, rows), 0.0
	for i := range square {
		square[i] = p.inner[i*rows+i]
		most = max(most, square[i])
	}
	rounding := 1e-12 * most
	p.variances, p.farthest = append(p.variances[:0], variances...), 0
	reach := make([]float64, rows)
	for i := range reach {
		nearest := nearestBeyond(p.inner[i*rows:][:rows], square, i, leftOut(i), 4*copies+rounding) + rounding
		if reach[i] = nearest - 2*negligiblePair + pairMargin + rounding; !math.IsInf(nearest, 1) {
			p.farthest = max(p.farthest, nearest)
		}
	}
	p.note(square, reach)
	return nil
}

// nearestBeyond returns the least distance of row i to a neighbour that is no copy, squared.
func nearestBeyond(inner, square []float64, i int, leftOut []int32, copies float64) float64 {
	out := map[int]bool{i: true}
	for _, j := range leftOut {
		out[int(j)] = true
	}
	least := math.Inf(1)
	for j, v := range inner {
		if delta := square[i] + square[j] - 2*v; delta < least && delta > copies && !out[j] {
			least = delta
		}
	}
	return least
}

// note notes the pairs of which one reaches the other, unless there are too many.
func (p *nearPairs) note(square, reach []float64) {
	rows := len(square)
	near, count := make([][]int32, rows), 0
	for i := range rows {
		for j := i + 1; j < rows; j++ {
			if delta := square[i] + square[j] - 2*p.inner[i*rows+j]; !(delta > reach[i] && delta > reach[j]) {
				near[i] = append(near[i], int32(j))
			}
		}
		if count += len(near[i]); count > rows*rows/(2*pairShare) {
			return
		}
	}
	p.near = near
}
