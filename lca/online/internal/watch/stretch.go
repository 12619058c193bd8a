package watch

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	StretchMinibatches = 2  // a row of the pool came soon after another one if fewer minibatches than this were between them
	stretchRows        = 20 // least rows of the pool that make a kind
	stretchSurely      = 3  // standard errors by which their mean is above that of all
)

// Stretch returns the values of those rows that came fewer than soon rows after one that has a value of at least least. It returns nil if there are few, or
// if their mean is not surely above that of all, as where rows are independent.
func Stretch(values []float64, places []pool.Place, least float64, soon uint64) (such []float64) {
	order := pool.InOrder(nil, places)
	for i, row := range order[min(1, len(order)):] {
		if before := order[i]; values[before] >= least && places[row].Near(places[before], soon) {
			such = append(such, values[row])
		}
	}
	var all Level
	for _, v := range values {
		all.Among(v, math.Inf(1))
	}
	mean, _ := MeanAtMost(such, math.Inf(1))
	if len(such) < stretchRows || !(mean-all.Mean > stretchSurely*math.Sqrt(all.Variance/float64(len(such)))) {
		return nil
	}
	return such
}

// Rarely reports whether the chance of as high a mean of that number of rows is below that logarithm, both by all of the pool's rows and by those of
// a stretch that is like that.
func Rarely(values []float64, places []pool.Place, soon uint64, mean, rows, logarithm float64) bool {
	if Chance(values, mean, rows) >= logarithm {
		return false
	}
	such := Stretch(values, places, mean, soon)
	return such == nil || Chance(such, mean, rows) < logarithm
}
