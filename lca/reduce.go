package lca

import (
	"context"
	"errors"
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// reduceIterations is the length of the first run, and of each rerun, of LCA-Gauss-Red: "a few
// iterations (40 in our experiments)".
const reduceIterations = 40

// reduce is LCA-Gauss-Red (section 4, "Escaping local optima"): EM rarely moves a dimension from
// one part to the other, and stops with too many in the Parzen part. So
//
//  1. run LCA-Gauss for 40 iterations;
//  2. transfer the columns of B_L whose e is nearest 1 to B_G, and rerun from there;
//  3. search the number to transfer dichotomically, by the penalised leave-one-out NLL: start at
//     half of d_P, keep what improves, halve what does not, until moving one column does not help;
//  4. run to convergence.
func (f *fitting) reduce(ctx context.Context) (state, error) {
	start, err := f.start()
	if err != nil {
		return state{}, err
	}
	best, err := f.em(ctx, start, reduceIterations)
	if err != nil {
		return state{}, err
	}
	tried := map[int]bool{}
	for move := max(1, prop1.Columns(best.BL)/2); move >= 1; {
		keep := prop1.Columns(best.BL) - move
		if keep < 1 || tried[keep] {
			move /= 2
			continue
		}
		tried[keep] = true
		rerun, err := f.rerun(ctx, best, keep)
		if err != nil {
			return state{}, err
		}
		if rerun.Penalised < best.Penalised {
			best = rerun
			move = min(move, max(1, prop1.Columns(best.BL)/2))
			continue
		}
		move /= 2
	}
	return f.converge(ctx, best)
}

// rerun is LCA-Gauss from s with all but keep columns of B_L transferred. A rerun that collapses
// has lost the search, and is not an error.
func (f *fitting) rerun(ctx context.Context, s state, keep int) (state, error) {
	moved := s
	moved.Parts, moved.Iter = transfer(s.Parts, keep), 0
	found, err := f.em(ctx, moved, reduceIterations)
	if errors.Is(err, prop1.ErrSingular) {
		found.Penalised, err = math.Inf(1), nil
	}
	return found, err
}

// converge runs s to convergence, as a run of its own.
func (f *fitting) converge(ctx context.Context, s state) (state, error) {
	s.Iter = 0
	return f.em(ctx, s, f.MaxIter)
}

// transfer moves columns from B_L to B_G and leaves the keep most local ones: B_L's columns are
// I_G u / √e, so √e times them is what they would be in the Gaussian part.
func transfer(b prop1.Parts, keep int) prop1.Parts {
	all := b.Joined()
	d, parzen := all.RawMatrix().Rows, prop1.Columns(b.BL)
	for j := keep; j < parzen; j++ {
		r := math.Sqrt(b.Ratio[j])
		for i := range d {
			all.Set(i, j, all.At(i, j)*r)
		}
	}
	return prop1.Parts{BL: prop1.ColumnRange(all, 0, keep), BG: prop1.ColumnRange(all, keep, d), Ratio: b.Ratio}
}
