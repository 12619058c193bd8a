package lca

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// plateau is the number of passes that are compared with as many before them to tell whether a
// subsampled fit still gains: each pass' NLL is noisy.
const plateau = 5

// samples reports whether the steps are those of section 5 and not plain EM.
func (f *fitting) samples() bool {
	return f.batchRows() < f.count() || f.neighbourRows() < f.count() || f.Gamma > 0
}

func (f *fitting) count() int { return f.rows.RawMatrix().Rows }

func (f *fitting) batchRows() int     { return orAll(f.Minibatch, f.count()) }
func (f *fitting) neighbourRows() int { return orAll(f.Neighbours, f.count()) }

func orAll(rows, all int) int {
	if rows == 0 {
		return all
	}
	return min(rows, all)
}

// stochastic is section 5: each step averages the local covariances of B rows, found among N
// neighbours drawn again each time, into the C_L so far. It starts from C_L = C_G and makes at most most passes.
func (f *fitting) stochastic(ctx context.Context, s state, most int) (state, error) {
	run := f.nextRun()
	cl := f.working.covariance()
	var nlls []float64
	for s.Iter < most && prop1.Columns(s.BL) > 0 && !levelled(nlls, f.Tol) {
		s.NLL, s.Effective, s.Copies = 0, 0, 0
		used := 0
		for _, rows := range f.minibatches() {
			e, q, err := f.draw(ctx, rows, s.Parts)
			if err != nil {
				return state{}, err
			}
			if e.Used == 0 {
				continue
			}
			s.NLL += f.nll(s.Parts, q, &e) * float64(e.Used)
			s.Effective += e.Effective * float64(e.Used)
			s.Copies += e.Copies
			used += e.Used
			cl = discounted(cl, e.CL, f.Gamma, len(rows), f.count())
			if err := f.mStep(&s, cl, Auto); err != nil {
				return state{}, err
			}
			if prop1.Columns(s.BL) == 0 {
				break
			}
		}
		if used == 0 {
			return state{}, fmt.Errorf("lca: fit: no row has a neighbour among the %d drawn that is not itself or a near copy", f.neighbourRows())
		}
		s.NLL /= float64(used)
		s.Effective /= float64(used)
		s.Penalised = s.NLL + f.penalty(s.Parts)
		s.Iter++
		f.trace(run, s)
		nlls = append(nlls, s.Penalised)
	}
	return f.settle(ctx, s, cl)
}

// discounted is C_L ← γ^(B/n) C_L + (1−γ^(B/n)) Ĉ_L   (eq. 8, section 5.1; B rows now, n rows per pass).
func discounted(cl, now *mat.SymDense, gamma float64, batch, pass int) *mat.SymDense {
	keep := 0.0
	if gamma > 0 {
		keep = math.Pow(gamma, float64(batch)/float64(pass))
	}
	d := cl.SymmetricDim()
	next := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			next.SetSym(i, j, keep*cl.At(i, j)+(1-keep)*now.At(i, j))
		}
	}
	return next
}

// settle corrects the kernel width for the number of neighbours that the model will be used with,
// and evaluates the result on all rows. d_P stays: by the narrower C_L, directions of noise would be Parzen.
func (f *fitting) settle(ctx context.Context, s state, cl *mat.SymDense) (state, error) {
	if parzen := prop1.Columns(s.BL); f.TargetRows > 0 && parzen > 0 {
		if err := f.mStep(&s, smallPool(cl, f.neighbourRows(), f.TargetRows, parzen), parzen); err != nil {
			return state{}, err
		}
	}
	if prop1.Columns(s.BL) == 0 {
		return f.gaussian(), nil
	}
	e, err := eStep(ctx, f.allPairs(), s.Parts, false)
	if err != nil {
		return state{}, err
	}
	s.evaluate(f, e)
	return s, nil
}

// smallPool corrects a C_L learnt with few neighbours to what target neighbours would give: the
// best kernel covariance shrinks as n^(−2/(d_P+4)), a pure factor.
func smallPool(cl *mat.SymDense, neighbours, target, parzen int) *mat.SymDense {
	out := mat.NewSymDense(cl.SymmetricDim(), nil)
	out.ScaleSym(prop1.WidthFactor(neighbours, target, parzen), cl)
	return out
}

// minibatches cuts a fresh permutation of the rows into batches of B.
func (f *fitting) minibatches() [][]int {
	order := identity(f.rows)
	f.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return slices.Collect(slices.Chunk(order, f.batchRows()))
}

// draw is the E-step of the given rows against N neighbours drawn without replacement.
func (f *fitting) draw(ctx context.Context, rows []int, b prop1.Parts) (expectation, *mat.Dense, error) {
	slots := identity(f.rows)
	if N := f.neighbourRows(); N < f.count() {
		slots = f.random.Perm(f.count())[:N]
		slices.Sort(slots)
	}
	slotOf := make(map[int]int, len(slots))
	for slot, row := range slots {
		slotOf[row] = slot
	}
	s := pairs{q: take(f.rows, rows), p: take(f.rows, slots), self: make([]int, len(rows)), nearCopies: f.NearCopies, shape: f.shape(), precision: f.Precision}
	for i, row := range rows {
		slot, drawn := slotOf[row]
		if !drawn {
			slot = -1
		}
		s.self[i] = slot
	}
	e, err := eStep(ctx, &s, b, true)
	return e, s.q, err
}

// take copies the given rows of x.
func take(x *mat.Dense, rows []int) *mat.Dense {
	_, d := x.Dims()
	out := mat.NewDense(len(rows), d, nil)
	for i, r := range rows {
		copy(out.RawRowView(i), x.RawRowView(r))
	}
	return out
}

// levelled reports whether the last passes gained less than tol per pass on those before them.
func levelled(nlls []float64, tol float64) bool {
	n := len(nlls)
	if n < 2*plateau {
		return false
	}
	return mean(nlls[n-2*plateau:n-plateau])-mean(nlls[n-plateau:]) < tol*plateau
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
