package streams

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Stream is a stream of rows, and the law of the rows that come after its end.
type Stream struct {
	Name string
	Dim  int // number of columns

	rows    int // length
	law     func(r *rand.Rand) law
	arrange func(r *rand.Rand, l law, x *mat.Dense) // fills x with the stream; nil: independent rows of the law
	returns int                                     // rows of each regime, where two laws take turns; 0 elsewhere
}

// Trial is a stream of one seed.
type Trial struct {
	Rows  *mat.Dense
	Fresh *mat.Dense // rows that are not in the stream, of the law at its end, outliers left out
	Truth float64    // NLL of Fresh under that law, nats per row
	Every int        // rows of each regime, where two laws take turns; 0 elsewhere
}

const (
	columns    = 8
	length     = 12000
	freshRows  = 4000
	changeAt   = 4000 // rows before a change
	changeRows = 2000 // rows after it
	regimeRows = 3000
)

// All returns the streams.
func All() []Stream {
	every := make([]int, columns)
	for k := range every {
		every[k] = k
	}
	offset := func(*rand.Rand) law {
		b := make([]float64, columns)
		b[0] = 1.7e9
		return five(columns-2).mixed(diagonal(columns, 3, 0), b)
	}
	return []Stream{
		{Name: "white noise", Dim: columns, rows: length, law: mixedNormal},
		{Name: "AR(1) .99", Dim: columns, rows: length, law: mixedNormal, arrange: autoregressive(0.99)},
		{Name: "AR(1) .998", Dim: columns, rows: length, law: mixedNormal, arrange: autoregressive(0.998)},
		{Name: "all columns shrink to a tenth", Dim: columns, rows: changeAt + changeRows, law: mixedFive, arrange: shrink(every...)},
		{Name: "one column shrinks to a tenth", Dim: columns, rows: changeAt + changeRows, law: plainFive, arrange: shrink(3)},
		{Name: "5 % of rows at 8 sd", Dim: columns, rows: length, law: mixedFive, arrange: outliers(0.05, 8)},
		{Name: "t, 1.5 degrees", Dim: columns, rows: length, law: func(*rand.Rand) law { return student(columns, 1.5) }},
		{Name: "lognormal 1.5", Dim: columns, rows: length, law: func(*rand.Rand) law { return lognormal(columns, 1.5) }},
		{Name: "collinear columns", Dim: columns, rows: length, law: collinear},
		{Name: "duplicated columns", Dim: columns, rows: length, law: duplicated},
		{Name: "offset 1.7e9", Dim: columns, rows: length, law: offset},
		{Name: "A/B/A/B", Dim: columns, rows: 4 * regimeRows, law: mixedFive, arrange: regimes, returns: regimeRows},
		{Name: "five + 8 noise, mixed", Dim: 10, rows: 10000, law: func(r *rand.Rand) law { return five(8).mixed(mixing(r, 10), make([]float64, 10)) }},
		{Name: "sorted by cluster", Dim: columns, rows: 15000, law: mixedFive, arrange: bursts},
		{Name: "a day's cycle in two columns", Dim: columns, rows: length, law: cycle, arrange: days},
		{Name: "two ways to run, in turn", Dim: columns, rows: length, law: twoWays, arrange: turns},
		{Name: "a new cluster of 5 %", Dim: columns, rows: length, law: withCluster, arrange: change},
	}
}

// Draw gives the stream of one seed.
func (s Stream) Draw(seed uint64) Trial {
	r := rand.New(rand.NewPCG(seed, 2026))
	l := s.law(r)
	t := Trial{Rows: mat.NewDense(s.rows, s.Dim, nil), Fresh: l.rows(r, freshRows), Every: s.returns}
	t.Truth = l.mean(t.Fresh)
	if s.arrange == nil {
		t.Rows = l.rows(r, s.rows)
	} else {
		s.arrange(r, l, t.Rows)
	}
	return t
}

func mixedNormal(r *rand.Rand) law {
	return normal(columns).mixed(mixing(r, columns), make([]float64, columns))
}

func plainFive(*rand.Rand) law { return five(columns - 2) }

func mixedFive(r *rand.Rand) law {
	return five(columns-2).mixed(mixing(r, columns), make([]float64, columns))
}

// collinear has a last column that is the sum of the others, except for a thousandth.
func collinear(*rand.Rand) law {
	a := diagonal(columns, 1e-3, columns-1)
	for k := range columns - 1 {
		a.Set(columns-1, k, 1)
	}
	return five(columns-2).mixed(a, make([]float64, columns))
}

// duplicated has each column twice, except for a thousandth.
func duplicated(*rand.Rand) law {
	a := diagonal(columns, 1e-3, 4, 5, 6, 7)
	for k := range columns / 2 {
		a.Set(columns/2+k, k, 1)
	}
	return five(columns-2).mixed(a, make([]float64, columns))
}

// autoregressive gives normal rows the memory φ: sensors of the time constant 1/(1−φ) rows, whose law in the long run
// is that of independent rows.
func autoregressive(phi float64) func(*rand.Rand, law, *mat.Dense) {
	return func(r *rand.Rand, l law, x *mat.Dense) {
		n, d := x.Dims()
		fresh := make([]float64, d)
		l.draw(r, x.RawRowView(0))
		for i := 1; i < n; i++ {
			l.draw(r, fresh)
			for k, v := range fresh {
				x.Set(i, k, phi*x.At(i-1, k)+math.Sqrt(1-phi*phi)*v)
			}
		}
	}
}

// shrink has columns that were ten times as wide before the change.
func shrink(which ...int) func(*rand.Rand, law, *mat.Dense) {
	return func(r *rand.Rand, l law, x *mat.Dense) {
		n, _ := x.Dims()
		for i := range n {
			row := x.RawRowView(i)
			l.draw(r, row)
			for _, k := range which {
				if i < changeAt {
					row[k] *= 10
				}
			}
		}
	}
}

// outliers adds noise of that number of standard deviations to a share of the rows.
func outliers(share, deviations float64) func(*rand.Rand, law, *mat.Dense) {
	return func(r *rand.Rand, l law, x *mat.Dense) {
		n, d := x.Dims()
		wide := make([]float64, d)
		scale := deviationsOf(l.rows(r, freshRows))
		for i := range n {
			row := x.RawRowView(i)
			l.draw(r, row)
			if r.Float64() < share {
				for k := range wide {
					row[k] += deviations * scale[k] * r.NormFloat64()
				}
			}
		}
	}
}

// deviationsOf returns the standard deviation of each column.
func deviationsOf(x *mat.Dense) []float64 {
	n, d := x.Dims()
	out := make([]float64, d)
	for k := range d {
		var sum, squares float64
		for i := range n {
			sum, squares = sum+x.At(i, k), squares+x.At(i, k)*x.At(i, k)
		}
		out[k] = math.Sqrt(squares/float64(n) - sum/float64(n)*sum/float64(n))
	}
	return out
}

// regimes is A, B, A, B: the law is that of B, and A is another of its kind.
func regimes(r *rand.Rand, b law, x *mat.Dense) {
	inTurn(r, x, regimeRows, 0, mixedFive(r), b)
}

// bursts has rows in the order of their clusters, 7500 rows at a time: long stretches of like rows.
func bursts(r *rand.Rand, l law, x *mat.Dense) {
	const stretch = 7500
	n, _ := x.Dims()
	for first := 0; first < n; first += stretch {
		rows := l.rows(r, stretch)
		order := make([]int, stretch)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(l.cluster(rows.RawRowView(a)), l.cluster(rows.RawRowView(b)))
		})
		for i, from := range order {
			copy(x.RawRowView(first+i), rows.RawRowView(from))
		}
	}
}

// withCluster is five clusters, and a sixth of 5 % that is not there before the change.
func withCluster(r *rand.Rand) law {
	at := append(make([]float64, columns-2), 9, 9)
	known, sixth := five(columns-2), normal(columns).mixed(diagonal(columns, 1), at)
	both := law{dim: columns, draw: func(r *rand.Rand, row []float64) {
		if r.Float64() < 0.05 {
			sixth.draw(r, row)
		} else {
			known.draw(r, row)
		}
	}, nll: func(row []float64) float64 {
		return -math.Log(0.05*math.Exp(-sixth.nll(row)) + 0.95*math.Exp(-known.nll(row)))
	}}
	a, zero := mixing(r, columns), make([]float64, columns)
	before := known.mixed(a, zero)
	both = both.mixed(a, zero)
	both.before = &before
	return both
}

// change has the law's former rows first.
func change(r *rand.Rand, l law, x *mat.Dense) {
	n, _ := x.Dims()
	for i := range n {
		if i < changeAt {
			l.before.draw(r, x.RawRowView(i))
		} else {
			l.draw(r, x.RawRowView(i))
		}
	}
}

// law is a distribution of rows whose density is known.
type law struct {
	dim  int
	draw func(r *rand.Rand, row []float64)
	nll  func(row []float64) float64 // −log p in nats

	before  *law                        // the law before a change; nil where there is none
	cluster func(row []float64) float64 // number of the row's cluster; nil where there is none
	ways    []law                       // laws of which it is the mixture; nil where there are none
}

// rows draws n independent rows.
func (l law) rows(r *rand.Rand, n int) *mat.Dense {
	x := mat.NewDense(n, l.dim, nil)
	for i := range n {
		l.draw(r, x.RawRowView(i))
	}
	return x
}

// mean returns the mean of −log p over the rows of x.
func (l law) mean(x *mat.Dense) float64 {
	n, _ := x.Dims()
	sum := 0.0
	for i := range n {
		sum += l.nll(x.RawRowView(i))
	}
	return sum / float64(n)
}

// normal is white noise in d columns.
func normal(d int) law {
	return independent(d, (*rand.Rand).NormFloat64, func(v float64) float64 { return 0.5*v*v + 0.5*math.Log(2*math.Pi) })
}

// independent has d independent columns, each with the same density.
func independent(d int, draw func(*rand.Rand) float64, nll func(v float64) float64) law {
	return law{dim: d, draw: func(r *rand.Rand, row []float64) {
		for k := range row {
			row[k] = draw(r)
		}
	}, nll: func(row []float64) float64 {
		sum := 0.0
		for _, v := range row {
			sum += nll(v)
		}
		return sum
	}}
}

// student has d independent columns of Student's t.
func student(d int, dof float64) law {
	half, _ := math.Lgamma(dof / 2)
	more, _ := math.Lgamma((dof + 1) / 2)
	constant := half - more + 0.5*math.Log(dof*math.Pi)
	return independent(d, func(r *rand.Rand) float64 {
		return r.NormFloat64() / math.Sqrt(chiSquared(r, dof)/dof)
	}, func(v float64) float64 { return constant + (dof+1)/2*math.Log1p(v*v/dof) })
}

// chiSquared draws from the chi-squared law of dof degrees (Marsaglia, Tsang 2000, for a gamma law of shape dof/2).
func chiSquared(r *rand.Rand, dof float64) float64 {
	shape, boost := dof/2, 1.0
	if shape < 1 {
		boost, shape = math.Pow(1-r.Float64(), 1/shape), shape+1
	}
	a := shape - 1.0/3
	for {
		z := r.NormFloat64()
		v := 1 + z/math.Sqrt(9*a)
		v *= v * v
		if v > 0 && math.Log(1-r.Float64()) < 0.5*z*z+a-a*v+a*math.Log(v) {
			return 2 * a * v * boost
		}
	}
}

// lognormal has d independent columns exp(s·z).
func lognormal(d int, s float64) law {
	return independent(d, func(r *rand.Rand) float64 { return math.Exp(s * r.NormFloat64()) }, func(v float64) float64 {
		z := math.Log(v) / s
		return 0.5*z*z + 0.5*math.Log(2*math.Pi) + math.Log(s) + math.Log(v)
	})
}

// five is the toy of five clusters with unit variance: (0, 0) with weight 4 and (±4, ±4) with weight 1 each, and noise
// columns of unit variance behind.
func five(noise int) law {
	corners := [...][2]float64{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {4, 4}, {4, -4}, {-4, 4}, {-4, -4}}
	white := normal(2 + noise)
	return law{dim: 2 + noise, draw: func(r *rand.Rand, row []float64) {
		white.draw(r, row)
		at := corners[r.IntN(len(corners))]
		row[0], row[1] = row[0]+at[0], row[1]+at[1]
	}, nll: func(row []float64) float64 {
		nearer := func(at [2]float64) float64 { return at[0]*row[0] + at[1]*row[1] - 0.5*(at[0]*at[0]+at[1]*at[1]) }
		most, sum := math.Inf(-1), 0.0
		for _, at := range corners {
			most = max(most, nearer(at))
		}
		for _, at := range corners {
			sum += math.Exp(nearer(at)-most) / float64(len(corners))
		}
		return white.nll(row) - most - math.Log(sum)
	}, cluster: func(row []float64) float64 {
		nearest, least := 0, math.Inf(1)
		for c, at := range corners {
			if v := math.Hypot(row[0]-at[0], row[1]-at[1]); v < least {
				nearest, least = c, v
			}
		}
		return float64(nearest)
	}}
}

// mixed is the law of A x + b.
func (l law) mixed(a *mat.Dense, b []float64) law {
	var inverse mat.Dense
	if err := inverse.Inverse(a); err != nil {
		panic(err) // a random matrix is regular
	}
	volume, _ := mat.LogDet(a)
	back := func(row []float64) []float64 {
		x, y := make([]float64, l.dim), make([]float64, l.dim)
		for k, v := range row {
			y[k] = v - b[k]
		}
		multiply(x, &inverse, y)
		return x
	}
	return law{dim: l.dim, draw: func(r *rand.Rand, row []float64) {
		x := make([]float64, l.dim)
		l.draw(r, x)
		multiply(row, a, x)
		for k := range row {
			row[k] += b[k]
		}
	}, nll: func(row []float64) float64 { return l.nll(back(row)) + volume },
		cluster: func(row []float64) float64 { return l.cluster(back(row)) }}
}

func multiply(dst []float64, a *mat.Dense, x []float64) {
	mat.NewVecDense(len(dst), dst).MulVec(a, mat.NewVecDense(len(x), x))
}

// mixing draws a matrix of standard normal numbers.
func mixing(r *rand.Rand, d int) *mat.Dense {
	a := mat.NewDense(d, d, nil)
	a.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, a)
	return a
}

// diagonal is a diagonal matrix of d columns with the given value in each of columns, and 1 elsewhere.
func diagonal(d int, value float64, columns ...int) *mat.Dense {
	a := mat.NewDense(d, d, nil)
	for k := range d {
		a.Set(k, k, 1)
	}
	for _, k := range columns {
		a.Set(k, k, value)
	}
	return a
}

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
