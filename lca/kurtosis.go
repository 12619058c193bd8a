package lca

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

const (
	kurtosisStarts = 60  // random directions that descend; most end in few distinct minima
	kurtosisMost   = 4   // directions taken at most, and so the largest Parzen part started from
	kurtosisSame   = 0.9 // directions whose cosine is above this are the same minimum
	kurtosisRatio  = 1. / 9
)

// Candidate is one of the models that Search compared.
type Candidate struct {
	Name   string  // "red", or "kurtosis 1" … "kurtosis 4"
	NLL    float64 // on the rows that judge, nats per row; +Inf where it collapsed
	Parzen int     // d_P
	Model  *Model  // nil where it collapsed
}

// Search fits LCA-Gauss-Red, and LCA-Gauss from 1 to 4 directions of minimum kurtosis, and returns
// the model with the lowest NLL on fresh rows that are not among those of x. It goes beyond the paper:
// from C_G alone EM misses optima that exist, and clusters and rings are flat, which a low fourth moment
// finds. Without fresh rows (nil) it judges by the leave-one-out NLL, which favours the larger Parzen parts.
func Search(ctx context.Context, x, fresh *mat.Dense, c Config) (*Model, []Candidate, error) {
	f, found, err := searched(ctx, x, c)
	if err != nil {
		return nil, nil, err
	}
	var best *Model
	var candidates []Candidate
	bestNLL := math.Inf(1)
	for _, s := range found {
		if s.collapsed {
			candidates = append(candidates, Candidate{Name: s.name, NLL: math.Inf(1)})
			continue
		}
		m, err := f.model(ctx, x, s.state)
		if err != nil {
			return nil, nil, err
		}
		nll := s.NLL
		if fresh != nil {
			nll = m.TestNLL(fresh, x)
		}
		candidates = append(candidates, Candidate{Name: s.name, NLL: nll, Parzen: m.Parzen(), Model: m})
		if nll < bestNLL {
			best, bestNLL = m, nll
		}
	}
	if best == nil {
		return nil, candidates, fmt.Errorf("lca: search: every candidate collapsed: raise Nu, which is lca.nu in a configuration, or set NearCopies, lca.near_copies: %w", prop1.ErrSingular)
	}
	return best, candidates, nil
}

// Candidates returns what Search compares, with the leave-one-out NLL of each. The models have neither neighbours nor scores: they are for a
// caller that judges them in its own way.
func Candidates(ctx context.Context, x *mat.Dense, c Config) ([]Candidate, error) {
	f, found, err := searched(ctx, x, c)
	if err != nil {
		return nil, err
	}
	candidates := make([]Candidate, len(found))
	for i, s := range found {
		if candidates[i] = (Candidate{Name: s.name, NLL: math.Inf(1)}); !s.collapsed {
			m := f.out(s.state, Info{NLL: s.NLL})
			candidates[i] = Candidate{Name: s.name, NLL: s.NLL, Parzen: m.Parzen(), Model: m}
		}
	}
	return candidates, nil
}

// searchedState is what one of the fits of a search has found.
type searchedState struct {
	name      string
	collapsed bool // a matrix was singular, and there is no state
	state
}

// searched runs the fits of Search.
func searched(ctx context.Context, x *mat.Dense, c Config) (f *fitting, found []searchedState, err error) {
	c.Kind = KindLCAGaussRed
	if f, err = newFitting(x, c); err != nil {
		return nil, nil, err
	}
	s, err := f.reduce(ctx)
	if err != nil && !errors.Is(err, prop1.ErrSingular) {
		return nil, nil, err
	}
	found = append(found, searchedState{"red", err != nil, s})
	q, err := f.flattest(ctx)
	if err != nil {
		return nil, nil, err
	}
	for k := 1; k <= prop1.Columns(q); k++ {
		s, err := f.em(ctx, f.startFrom(prop1.ColumnRange(q, 0, k)), f.MaxIter)
		if err != nil && !errors.Is(err, prop1.ErrSingular) {
			return nil, nil, err
		}
		found = append(found, searchedState{fmt.Sprintf("kurtosis %d", k), err != nil, s})
	}
	return f, found, nil
}

// startFrom is a state whose Parzen part are the orthonormal directions q of the whitened rows
// I_G(x−μ), with kernels a third as wide as the data, and whose Gaussian part is all the rest.
func (f *fitting) startFrom(q *mat.Dense) state {
	d, k := q.Dims()
	e := make([]float64, d)
	for j := range e {
		e[j] = 1
		if j < k {
			e[j] = kurtosisRatio
		}
	}
	return state{Parts: prop1.Assemble(f.ig, completed(q), e, k), CL: f.cg}
}

// flattest returns up to four orthonormal directions of the whitened rows z = I_G(x−μ) that locally
// minimise the fourth moment E[(wᵀz)⁴] over |w| = 1, the lowest first.
func (f *fitting) flattest(ctx context.Context) (*mat.Dense, error) {
	var z mat.Dense
	linalg.Mul(&z, f.rows, mat.DenseCopyOf(f.ig))
	d := len(f.Active)
	w := mat.NewDense(kurtosisStarts, d, nil)
	for s := range kurtosisStarts {
		for k := range d {
			w.Set(s, k, f.random.NormFloat64())
		}
		normalise(w.RawRowView(s))
	}
	level, err := descend(ctx, w, &z)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(level, func(a, b direction) int { return cmp.Compare(a.fourth, b.fourth) })
	var found []float64
	for _, v := range level {
		if len(found) < min(kurtosisMost, d)*d {
			normalise(v.w)
			found = appendDistinct(found, v.w)
		}
	}
	rows := mat.NewDense(len(found)/d, d, found)
	return mat.DenseCopyOf(rows.T()), nil
}

// appendDistinct appends w to the orthonormal rows found, made orthogonal to them, unless it is
// nearly one of them.
func appendDistinct(found, w []float64) []float64 {
	d := len(w)
	rest := append([]float64(nil), w...)
	for b := range len(found) / d {
		row := found[b*d : (b+1)*d]
		cosine := floats.Dot(row, w)
		if math.Abs(cosine) > kurtosisSame {
			return found
		}
		floats.AddScaled(rest, -floats.Dot(row, rest), row)
	}
	if floats.Norm(rest, 2) < 1-kurtosisSame { // within the span of several
		return found
	}
	normalise(rest)
	return append(found, rest...)
}

// completed returns an orthogonal matrix whose first columns are those of q.
func completed(q *mat.Dense) *mat.Dense {
	d, k := q.Dims()
	var qr mat.QR
	qr.Factorize(q)
	var full mat.Dense
	qr.QTo(&full)
	full.Slice(0, d, 0, k).(*mat.Dense).Copy(q) // QR may flip signs
	return &full
}

func normalise(w []float64) { floats.Scale(1/floats.Norm(w, 2), w) }
