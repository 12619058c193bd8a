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
