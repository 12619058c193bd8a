// Package clustering judges a metric: it clusters records and compares the result with labels that the learner never
// sees. Nothing of it is on the data path.
package clustering

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Spectral clusters the n rows of x (n×dim) into k groups after Ng, Jordan and Weiss (2001): a
// symmetrised graph of the 20 nearest neighbours, the self-tuning affinity of Zelnik-Manor and
// Perona (2004) with the 7th neighbour, and k-means on the row-normalised leading eigenvectors.
// It depends on the data only by their distances, which is why it can judge a metric.
func Spectral(x []float64, dim, k int, rng *rand.Rand) []int {
	n := len(x) / dim
	v := leading(affinity(x, dim, n), n, k, rng)
	y := make([]float64, n*k)
	for i := range n {
		row := y[i*k : (i+1)*k]
		for j := range row {
			row[j] = v.At(i, j)
		}
		normalise(row)
	}
	return KMeans(y, k, k, rng)
}

const (
	graphNeighbours = 20
	scaleNeighbour  = 7
	restarts        = 5
)

// affinity returns exp(−d²_ij / (σ_i σ_j)) where i is among j's neighbours or j among i's, and 0 elsewhere,
// normalised to D^{-½} A D^{-½}.
func affinity(x []float64, dim, n int) *graph {
	d2 := make([]float64, n*n)
	for i := range n {
		for j := range i {
			s := squared(x[i*dim:(i+1)*dim], x[j*dim:(j+1)*dim])
			d2[i*n+j], d2[j*n+i] = s, s
		}
	}
	order := make([]int, n)
	near := make([][]int, n)
	sigma := make([]float64, n)
	for i := range n {
		for j := range order {
			order[j] = j
		}
		slices.SortFunc(order, func(a, b int) int {
			if c := d2[i*n+a] - d2[i*n+b]; c != 0 {
				return int(math.Copysign(1, c))
			}
			return a - b
		})
		near[i] = slices.Clone(order[1:min(1+graphNeighbours, n)]) // order[0] is i itself
		sigma[i] = max(math.Sqrt(d2[i*n+order[min(scaleNeighbour, n-1)]]), 1e-12)
	}
	g := &graph{to: make([][]int, n), weight: make([][]float64, n)}
	degree := make([]float64, n)
	for i := range n {
		for j := range n {
			if i == j || !(slices.Contains(near[i], j) || slices.Contains(near[j], i)) {
				continue
			}
			a := math.Exp(-d2[i*n+j] / (sigma[i] * sigma[j]))
			g.to[i], g.weight[i] = append(g.to[i], j), append(g.weight[i], a)
			degree[i] += a
		}
	}
	for i := range n {
		for e, j := range g.to[i] {
			g.weight[i][e] /= math.Sqrt(degree[i] * degree[j])
		}
	}
	return g
}

// KMeans is Lloyd's algorithm with k-means++ starts. It returns the best of five runs.
func KMeans(x []float64, dim, k int, rng *rand.Rand) []int {
	best, cost := []int(nil), math.Inf(1)
	for range restarts {
		labels, c := lloyd(x, dim, seeds(x, dim, k, rng))
		if c < cost {
			best, cost = labels, c
		}
	}
	return best
}

// seeds draws k centres, each with probability proportional to the squared distance to the nearest so far.
func seeds(x []float64, dim, k int, rng *rand.Rand) []float64 {
	n := len(x) / dim
	first := rng.IntN(n)
	centres := slices.Clone(x[first*dim : (first+1)*dim])
	near := make([]float64, n)
	for i := range near {
		near[i] = math.Inf(1)
	}
	for len(centres) < k*dim {
		last, total := centres[len(centres)-dim:], 0.0
		for i := range near {
			near[i] = min(near[i], squared(x[i*dim:(i+1)*dim], last))
			total += near[i]
		}
		pick, u := n-1, rng.Float64()*total
		for i, d := range near {
			if u -= d; u <= 0 {
				pick = i
				break
			}
		}
		centres = append(centres, x[pick*dim:(pick+1)*dim]...)
	}
	return centres
}

func lloyd(x []float64, dim int, centres []float64) (labels []int, cost float64) {
	n, k := len(x)/dim, len(centres)/dim
	labels = make([]int, n)
	counts := make([]int, k)
	for range 100 {
		cost = 0
		moved := false
		for i := range n {
			at, d := nearest(x[i*dim:(i+1)*dim], centres, dim)
			moved = moved || labels[i] != at
			labels[i] = at
			cost += d
		}
		clear(counts)
		sums := make([]float64, len(centres))
		for i, at := range labels {
			counts[at]++
			for j := range dim {
				sums[at*dim+j] += x[i*dim+j]
			}
		}
		for c, m := range counts {
			for j := 0; j < dim && m > 0; j++ {
				centres[c*dim+j] = sums[c*dim+j] / float64(m)
			}
		}
		if !moved {
			break
		}
	}
	return labels, cost
}

func nearest(x, centres []float64, dim int) (at int, d float64) {
	d = math.Inf(1)
	for c := 0; c*dim < len(centres); c++ {
		if s := squared(x, centres[c*dim:(c+1)*dim]); s < d {
			at, d = c, s
		}
	}
	return at, d
}

// AdjustedRand compares two labellings: 1 is agreement up to names, 0 is chance (Hubert and Arabie, 1985).
func AdjustedRand(a, b []int) float64 {
	pairs := func(n float64) float64 { return n * (n - 1) / 2 }
	joint, rows, cols := map[[2]int]float64{}, map[int]float64{}, map[int]float64{}
	for i := range a {
		joint[[2]int{a[i], b[i]}]++
		rows[a[i]]++
		cols[b[i]]++
	}
	var both, left, right float64
	for _, n := range joint {
		both += pairs(n)
	}
	for _, n := range rows {
		left += pairs(n)
	}
	for _, n := range cols {
		right += pairs(n)
	}
	expected := left * right / pairs(float64(len(a)))
	most := (left + right) / 2
	if most == expected {
		return 1
	}
	return (both - expected) / (most - expected)
}

// Whiten returns the rows times C^{-½}: global whitening, the standard method that the demo compares with.
func Whiten(x []float64, dim int) ([]float64, error) {
	n := len(x) / dim
	mean := make([]float64, dim)
	for i := range x {
		mean[i%dim] += x[i] / float64(n)
	}
	c := make([]float64, len(x))
	for i := range x {
		c[i] = x[i] - mean[i%dim]
	}
	var cov mat.SymDense
	cov.SymOuterK(1/float64(n), mat.NewDense(n, dim, slices.Clone(c)).T())
	var eig mat.EigenSym
	if !eig.Factorize(&cov, true) {
		return nil, errors.New("clustering: whitening: the eigenproblem did not converge")
	}
	var v, y mat.Dense
	eig.VectorsTo(&v)
	values := eig.Values(nil)
	for j, e := range values {
		s := 0.0 // a constant direction has nothing to whiten
		if e > 1e-12*values[len(values)-1] {
			s = 1 / math.Sqrt(e)
		}
		for i := range dim {
			v.Set(i, j, v.At(i, j)*s)
		}
	}
	y.Mul(mat.NewDense(n, dim, c), &v)
	return y.RawMatrix().Data, nil
}

func squared(a, b []float64) (s float64) {
	for i := range a {
		s += (a[i] - b[i]) * (a[i] - b[i])
	}
	return s
}

func normalise(v []float64) {
	s := 0.0
	for _, a := range v {
		s += a * a
	}
	if s > 0 {
		for i := range v {
			v[i] /= math.Sqrt(s)
		}
	}
}
