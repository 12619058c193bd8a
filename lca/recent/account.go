package recent

import (
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// account holds how columns differ, over rows of an episode, from what they were before it.
type account struct {
	noise   []float64 // mean of half the step and half the deviation, each by what it is without an episode; NaN: no value yet
	rms     []float64 // root of the mean of (x′ − before)², in the column's own unit, as the scale is another in each version; of the last rows, less drift
	mean    []float64 // mean of x′ − before
	strange []float64 // mean of the squared residual of x′ given the other columns, by its variance
}

func newAccount(d int) account {
	memory := make([]float64, 3*d)
	return account{unknown(d), memory[:d:d], memory[d : 2*d : 2*d], memory[2*d:]}
}

// add takes what a row says of column k, with a weight. Its square is of what it has moved less drift.
func (a *account) add(k int, weight, noise, moved, drift, scale, residual float64) {
	if a.noise[k] != a.noise[k] {
		weight, a.noise[k] = 1, 0
	}
	a.noise[k] = state.Round(a.noise[k] + float64(weight*(noise-a.noise[k])))
	was, is := a.rms[k]/scale, (moved-drift)/scale // squares of which do not overflow
	a.rms[k] = state.Round(scale * math.Sqrt(float64(was*was)+float64(weight*(float64(is*is)-float64(was*was)))))
	a.mean[k] = state.Round(a.mean[k] + float64(weight*(moved-a.mean[k])))
	a.strange[k] = state.Round(a.strange[k] + float64(weight*(float64(residual*residual)-a.strange[k])))
}

func (a *account) clone() account {
	return account{slices.Clone(a.noise), slices.Clone(a.rms), slices.Clone(a.mean), slices.Clone(a.strange)}
}

func (a *account) lists() [4]*[]float64 { return [4]*[]float64{&a.noise, &a.rms, &a.mean, &a.strange} }

func (a *account) write(w *state.Writer) {
	for _, v := range a.lists() {
		w.Halves(*v)
	}
}

func (a *account) read(r *state.Reader, d int) {
	for _, v := range a.lists() {
		if *v = r.Halves(); len(*v) != d {
			r.Fail(fmt.Errorf("%d numbers of an account of %d columns", len(*v), d))
		}
	}
}
