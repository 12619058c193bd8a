package timegap

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	mostLevels  = 13  // lags of up to 4096 rows
	fewestPairs = 4   // without which a lag is not judged
	mostPairs   = 512 // more of a lag say nearly the same, and cost time

	nearbyLevel = 4 // the lag with which that of adjacent rows is compared in a finite set
)

// Autocorrelation is that of rows at lags of about 1, 2, 4, … rows of the same partition, as far as the rows show pairs that are one lag apart. Of a pool that is
// full they are fewer than of the stream, but enough: of two rows that came one after the other it holds both in one case of ten, as long as they are recent.
//
// A column takes part from the first pair on of which both rows differ from the first row: the step from
// a constant to something that varies is no movement.
//
// Rows that stay at a level for long and then jump to another have the autocorrelation of slow ones. But their
// adjacent rows are no copies of each other: they differ as much as rows 16 apart, except for the few pairs with a jump in
// between, of which a median knows nothing. So surelyMoves compares the median squared differences at these two lags.
type Autocorrelation struct {
	span   uint64  // places from the first to the last row of each partition
	levels []level // none: the rows tell nothing

	order []int
	pairs [][2]int
	each  []float64
}

// level is a lag.
type level struct {
	lag   float64
	pairs []float64 // of each column
	rho   []float64 // NaN: it does not vary
	apart []float64 // median squared difference, at the two lags that are compared

	square, product []float64
}

// Measure measures rows of d columns.
func (a *Autocorrelation) Measure(b pool.Batch, d int) {
	a.order = pool.InOrder(a.order, b.Places)
	for len(a.order) > 0 && b.Places[a.order[0]].Partition == pool.NoPartition {
		a.order = a.order[1:]
	}
	a.span, a.levels = 0, a.levels[:0]
	for i, row := range a.order {
		if next := i + 1; next < len(a.order) && b.Places[row].Partition == b.Places[a.order[next]].Partition {
			a.span += b.Places[a.order[next]].At - b.Places[row].At
		}
	}
	for j := range mostLevels {
		if a.pair(b.Places, 1<<j); len(a.pairs) < fewestPairs {
			break
		}
		a.levels = slices.Grow(a.levels, 1)[:j+1]
		a.levels[j].measure(b, d, b.X[a.order[0]*d:][:d], a.pairs)
		if j == 0 || j == nearbyLevel {
			a.medians(&a.levels[j], b, d)
		}
	}
}

// pair finds pairs of rows that are at least one lag apart, and less than two: each begins where the one before it ends, and they are spread over all rows.
func (a *Autocorrelation) pair(places []pool.Place, lag uint64) {
	a.pairs = a.pairs[:0]
	for i, k := 0, 0; i < len(a.order); {
		from := places[a.order[i]]
		for k < len(a.order) && places[a.order[k]].Compare(pool.Place{Partition: from.Partition, At: from.At + lag}) < 0 {
			k++
		}
		if k == len(a.order) {
			break
		}
		if places[a.order[k]].Near(from, 2*lag) {
			a.pairs = append(a.pairs, [2]int{a.order[i], a.order[k]})
			i = k
		} else {
			i++
		}
	}
	if n := len(a.pairs); n > mostPairs {
		for i := range mostPairs {
			a.pairs[i] = a.pairs[i*n/mostPairs]
		}
		a.pairs = a.pairs[:mostPairs]
	}
}

// measure takes the pairs in. Rows are measured from centre.
func (l *level) measure(b pool.Batch, d int, centre []float64, pairs [][2]int) {
	for _, v := range []*[]float64{&l.pairs, &l.rho, &l.square, &l.product} {
		*v = linalg.Resize(*v, d)
		clear(*v)
	}
	l.lag = 0
	for _, p := range pairs {
		l.lag += float64(b.Places[p[1]].At-b.Places[p[0]].At) / float64(len(pairs))
		before, row := b.X[p[0]*d:][:d], b.X[p[1]*d:][:d]
		for k, c := range centre {
			x, y := before[k]-c, row[k]-c
			if l.pairs[k] == 0 && (x == 0 || y == 0) {
				continue
			}
			l.pairs[k]++
			l.rho[k] += 0.5 * (x + y)
			l.square[k] += float64(0.5 * (float64(x*x) + float64(y*y)))
			l.product[k] += float64(x * y)
		}
	}
	for k, n := range l.pairs {
		mean := l.rho[k] / n
		variance := l.square[k]/n - float64(mean*mean)
		if l.rho[k] = math.NaN(); n > 0 && prop1.Varies(variance, mean, prop1.RunningRounding) {
			l.rho[k] = (l.product[k]/n - float64(mean*mean)) / variance
		}
	}
}

// medians sets the median squared difference of each column.
func (a *Autocorrelation) medians(l *level, b pool.Batch, d int) {
	l.apart = linalg.Resize(l.apart, d)
	for k := range d {
		a.each = a.each[:0]
		for _, p := range a.pairs {
			v := b.X[p[0]*d+k] - b.X[p[1]*d+k]
			a.each = append(a.each, float64(v*v))
		}
		l.apart[k] = median(a.each)
	}
}

// median sorts values. Of none it is NaN.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// lag returns where the median column's autocorrelation falls below 1/e.
func (a *Autocorrelation) lag() float64 {
	return a.falls(func(l *level) (rho, pairs float64) {
		a.each = a.each[:0]
		for k, n := range l.pairs {
			if n >= fewestPairs && !math.IsNaN(l.rho[k]) {
				a.each, pairs = append(a.each, l.rho[k]), max(pairs, n)
			}
		}
		return median(a.each), pairs
	})
}

// longestLag returns where that of the slowest column falls below 1/e.
func (a *Autocorrelation) longestLag() (longest float64) {
	if len(a.levels) == 0 {
		return 0
	}
	for k := range a.levels[0].pairs {
		longest = max(longest, a.falls(func(l *level) (rho, pairs float64) { return l.rho[k], l.pairs[k] }))
	}
	return longest
}

// falls returns the lag at which an autocorrelation, known at each level, falls below 1/e, on a logarithmic scale between
// two of the lags; 0 where that of adjacent rows is below it, or not surely above.
func (a *Autocorrelation) falls(at func(*level) (rho, pairs float64)) float64 {
	last, lag := math.NaN(), 0.0
	for j := range a.levels {
		l := &a.levels[j]
		rho, pairs := at(l)
		if pairs < fewestPairs || math.IsNaN(rho) {
			break
		}
		limit := 1 / math.E
		if j == 0 {
			if rho < limit+2/math.Sqrt(pairs) {
				return 0
			}
		} else if rho < limit {
			return lag * math.Pow(l.lag/lag, (last-limit)/(last-rho))
		}
		last, lag = rho, l.lag
	}
	return lag
}

// surelyMoves reports whether adjacent rows are nearer to each other than rows some time apart by two standard errors more.
func (a *Autocorrelation) surelyMoves() bool {
	if len(a.levels) <= nearbyLevel {
		return false
	}
	adjacent, apart := &a.levels[0], &a.levels[nearbyLevel]
	pairs := 0.0
	a.each = a.each[:0]
	for k, v := range apart.apart {
		if adjacent.apart[k] > 0 && v > 0 {
			a.each, pairs = append(a.each, 1-adjacent.apart[k]/v), max(pairs, apart.pairs[k])
		}
	}
	rho := median(a.each)
	return rho-2*(1-rho)*math.Sqrt(2/pairs) > 1/math.E
}
