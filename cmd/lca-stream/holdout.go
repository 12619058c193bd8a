package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mat"
)

// holdOut divides rows in the order of time into those that candidates are fitted to and those that judge them. Whole blocks are held
// out, with a margin of rows between that are left out: rows near in time are alike, and a candidate that is judged by rows like
// those it was fitted to need only remember them.
type holdOut struct {
	train, fresh []int // indices of rows
	block        []int // of each fresh row, from 0
	margin       int   // rows left out on either side of a block
	copies       int   // rows of the blocks left out because they are copies of rows to be fitted
}

const (
	mostBlocks  = 40
	leastBlocks = 20
	heldOneIn   = 4  // blocks
	blockRows   = 10 // at least
)

// newHoldOut divides n rows whose likeness lasts for the given number of rows.
func newHoldOut(n, gap int) (*holdOut, error) {
	if n < leastBlocks*blockRows {
		return nil, fmt.Errorf("%d usable rows are too few to hold blocks of them back; want at least %d", n, leastBlocks*blockRows)
	}
	blocks := min(mostBlocks, max(leastBlocks, n/max(blockRows, 4*gap)))
	h := &holdOut{margin: min(gap, n/blocks/4)}
	for i := range n {
		b := i * blocks / n
		switch {
		case b%heldOneIn == heldOneIn/2:
			h.fresh, h.block = append(h.fresh, i), append(h.block, b/heldOneIn)
		case !held(i-h.margin, n, blocks) && !held(i+h.margin, n, blocks):
			h.train = append(h.train, i)
		}
	}
	return h, nil
}

func held(row, n, blocks int) bool {
	return row >= 0 && row < n && row*blocks/n%heldOneIn == heldOneIn/2
}

// mean returns the mean over the fresh rows and its standard error, with blocks and not rows as what is drawn; nil where they are not
// finite.
func (h *holdOut) mean(values []float64) (average, standardError *float64) {
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	sums := map[int]float64{}
	for i, v := range values {
		sums[h.block[i]] += v - mean
	}
	square, blocks := 0.0, float64(h.blocks())
	for block := range h.block[len(h.block)-1] + 1 {
		square += sums[block] * sums[block]
	}
	return finite(mean), finite(math.Sqrt(square*blocks/(blocks-1)) / float64(len(values)))
}

// blocks is how many blocks have fresh rows.
func (h *holdOut) blocks() int {
	n := 0
	for i, b := range h.block {
		if i == 0 || b != h.block[i-1] {
			n++
		}
	}
	return n
}

// dropCopies leaves out the fresh rows that are near copies of rows to be fitted, by the distance at which the learner takes rows for
// copies: a thousandth of a standard deviation per column, as a mean of squares.
func (h *holdOut) dropCopies(x *mat.Dense) {
	const near = 1e-3
	d := x.RawMatrix().Cols
	scale := deviations(x)
	within := near * near * float64(d)
	// Rows that are near have near sums, of which their difference is at most √d times their distance.
	sum := func(row int) (total float64) {
		for k, v := range x.RawRowView(row) {
			total += v * scale[k]
		}
		return total
	}
	type keyed struct {
		sum float64
		row int
	}
	train := make([]keyed, len(h.train))
	for i, row := range h.train {
		train[i] = keyed{sum(row), row}
	}
	slices.SortFunc(train, func(a, b keyed) int { return cmp.Compare(a.sum, b.sum) })
	isCopy := func(row int) bool {
		at, reach := sum(row), near*float64(d)
		from, _ := slices.BinarySearchFunc(train, at-reach, func(k keyed, v float64) int { return cmp.Compare(k.sum, v) })
		for _, k := range train[from:] {
			if k.sum > at+reach {
				return false
			}
			if distance(x.RawRowView(row), x.RawRowView(k.row), scale, within) <= within {
				return true
			}
		}
		return false
	}
	var fresh, block []int
	for i, row := range h.fresh {
		if isCopy(row) {
			h.copies++
			continue
		}
		fresh, block = append(fresh, row), append(block, h.block[i])
	}
	h.fresh, h.block = fresh, block
}

// distance is squared; beyond the limit it may be any number that is larger.
func distance(a, b, scale []float64, limit float64) float64 {
	sum := 0.0
	for k, v := range a {
		e := (v - b[k]) * scale[k]
		if sum += e * e; sum > limit {
			break
		}
	}
	return sum
}

// deviations returns the inverse standard deviation of each column; 0 for one that is constant.
func deviations(x *mat.Dense) []float64 {
	n, d := x.Dims()
	scale := make([]float64, d)
	for k := range d {
		mean, square := 0.0, 0.0
		for i := range n {
			mean += x.At(i, k) / float64(n)
		}
		for i := range n {
			e := x.At(i, k) - mean
			square += e * e / float64(n)
		}
		if square > 0 {
			scale[k] = 1 / math.Sqrt(square)
		}
	}
	return scale
}

// likeness returns for how many rows, of all partitions, rows of the same partition are alike: three times the lag at which the
// autocorrelation of the median column has fallen below 1/e, in the partition with the most rows; 0 where it has at lag 1.
func likeness(x *mat.Dense, partitions []int32) int {
	rows := map[int32][]int{}
	for i, p := range partitions {
		rows[p] = append(rows[p], i)
	}
	var longest []int
	for _, p := range partitions { // in the order of rows, so that the same rows give the same
		if len(rows[p]) > len(longest) {
			longest = rows[p]
		}
	}
	n, d := x.Dims()
	series := mat.NewDense(len(longest), d, nil)
	for i, row := range longest {
		series.SetRow(i, x.RawRowView(row))
	}
	alike := func(lag int) bool { return correlationAt(series, lag) >= 1/math.E }
	if len(longest) < 2 || !alike(1) {
		return 0
	}
	from, to := 1, 2
	for to < len(longest)/4 && alike(to) {
		from, to = to, 2*to
	}
	// The first lag beyond from at which they are not alike, as if they never were again.
	lag := from + 1 + sort.Search(to-from-1, func(i int) bool { return !alike(from + 1 + i) })
	return 3 * lag * n / len(longest)
}

// correlationAt returns the median over the columns of the autocorrelation at a lag; constant columns do not count.
func correlationAt(x *mat.Dense, lag int) float64 {
	n, d := x.Dims()
	var all []float64
	for k := range d {
		mean, variance, covariance := 0.0, 0.0, 0.0
		for i := range n {
			mean += x.At(i, k) / float64(n)
		}
		for i := range n {
			e := x.At(i, k) - mean
			variance += e * e / float64(n)
			if i+lag < n {
				covariance += e * (x.At(i+lag, k) - mean) / float64(n-lag)
			}
		}
		if variance > 0 {
			all = append(all, covariance/variance)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
