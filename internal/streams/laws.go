package streams

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

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
