package streams

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

const (
	cycleRows  = 1440 // a day of minutes
	cycleHigh  = 3.0  // amplitude
	cycleNoise = 0.3  // standard deviation
	cycleLate  = 1.0  // phase of the second column, in radians
	turnRows   = 700  // rows of each turn of two ways to run
)

// cycle is a day's cycle in two columns, seen at any time of the day, and white noise in the others.
func cycle(*rand.Rand) law {
	white := normal(columns)
	const phases = cycleRows
	return law{dim: columns, draw: func(r *rand.Rand, row []float64) {
		white.draw(r, row)
		ofDay(row, 2*math.Pi*r.Float64())
	}, nll: func(row []float64) float64 {
		sum := 0.0
		for i := range phases {
			at := 2 * math.Pi * float64(i) / phases
			a, b := (row[0]-cycleHigh*math.Sin(at))/cycleNoise, (row[1]-cycleHigh*math.Sin(at+cycleLate))/cycleNoise
			sum += math.Exp(-0.5*(a*a+b*b)) / phases
		}
		return white.nll(row) - 0.5*(row[0]*row[0]+row[1]*row[1]) - math.Log(sum) + 2*math.Log(cycleNoise)
	}}
}

// ofDay makes a row of white noise one of that time of the day.
func ofDay(row []float64, at float64) {
	row[0] = cycleHigh*math.Sin(at) + cycleNoise*row[0]
	row[1] = cycleHigh*math.Sin(at+cycleLate) + cycleNoise*row[1]
}

// days has the rows of a cycle in the order of time, from any time of the day on.
func days(r *rand.Rand, l law, x *mat.Dense) {
	n, _ := x.Dims()
	began, white := 2*math.Pi*r.Float64(), normal(columns)
	for i := range n {
		row := x.RawRowView(i)
		white.draw(r, row)
		ofDay(row, began+2*math.Pi*float64(i)/cycleRows)
	}
}

// twoWays is a machine with two ways to run, each of which takes half of the time.
func twoWays(r *rand.Rand) law {
	one, other := mixedFive(r), mixedFive(r)
	return law{dim: columns, draw: func(r *rand.Rand, row []float64) {
		if r.IntN(2) == 0 {
			one.draw(r, row)
		} else {
			other.draw(r, row)
		}
	}, nll: func(row []float64) float64 {
		a, b := one.nll(row), other.nll(row)
		least := min(a, b)
		return least - math.Log(0.5*math.Exp(least-a)+0.5*math.Exp(least-b))
	}, ways: []law{one, other}}
}

// turns has a law's ways in turn, from anywhere within a turn on.
func turns(r *rand.Rand, l law, x *mat.Dense) {
	inTurn(r, x, turnRows, r.IntN(turnRows), l.ways...)
}

// inTurn draws that number of rows of each law in turn, and of the first one as many fewer as have been.
func inTurn(r *rand.Rand, x *mat.Dense, rows, been int, laws ...law) {
	n, _ := x.Dims()
	for i := range n {
		laws[(been+i)/rows%len(laws)].draw(r, x.RawRowView(i))
	}
}
