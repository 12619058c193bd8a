package online

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// neighbourhood says which rows of the pool an E-step sums over for each row: the near nearest of
// all, each with weight 1, and far more drawn from the rest, each standing for rest/far of them, so
// that sums are unbiased. near = 0 is the paper's sample (section 5.2); far = 0 with near = 0 is all.
type neighbourhood struct{ near, far int }

func (h neighbourhood) String() string {
	switch {
	case h.near == 0 && h.far == 0:
		return "all"
	case h.near == 0:
		return fmt.Sprintf("random %d", h.far)
	}
	return fmt.Sprintf("near %d far %d", h.near, h.far)
}

// choose returns the neighbours of a row and log weights, given its squared distances to the pool.
func (h neighbourhood) choose(r *rand.Rand, distance []float64, self int) (index []int, logWeight []float64) {
	for j := range distance {
		if j != self {
			index = append(index, j)
		}
	}
	if h.near == 0 && h.far == 0 {
		return index, make([]float64, len(index))
	}
	if h.near > 0 {
		slices.SortFunc(index, func(a, b int) int { return cmp.Compare(distance[a], distance[b]) })
	}
	rest := index[h.near:]
	r.Shuffle(len(rest), func(a, b int) { rest[a], rest[b] = rest[b], rest[a] })
	logWeight = make([]float64, h.near+h.far)
	for k := h.near; k < len(logWeight); k++ {
		logWeight[k] = math.Log(float64(len(rest)) / float64(h.far))
	}
	return index[:h.near+h.far], logWeight
}

// step is Ĉ_L of the given rows of x against all of it, under B.
func (h neighbourhood) step(r *rand.Rand, x, b *mat.Dense, rows []int) *mat.Dense {
	n, d := x.Dims()
	var z mat.Dense
	z.Mul(x, b)
	cl := mat.NewDense(d, d, nil)
	distance := make([]float64, n)
	for _, i := range rows {
		for j := range n {
			distance[j] = squared(z.RawRowView(i), z.RawRowView(j))
		}
		index, w := h.choose(r, distance, i)
		for k, j := range index {
			w[k] -= 0.5 * distance[j]
		}
		lse := floats.LogSumExp(w)
		diff := mat.NewVecDense(d, nil)
		for k, j := range index {
			if lambda := math.Exp(w[k] - lse); lambda > 1e-12 {
				diff.SubVec(x.RowView(i), x.RowView(j))
				cl.RankOne(cl, lambda/float64(len(rows)), diff, diff)
			}
		}
	}
	return cl
}

// BenchmarkNearFar runs LCA by minibatches against a pool of 1500 rows, and reports the NLL of
// fresh rows that it comes to, in nats per row, with each choice of neighbours. See docs/near-far.md.
func BenchmarkNearFar(b *testing.B) {
	images, err := digits()
	if err != nil {
		b.Fatal(err)
	}
	for _, data := range []struct {
		name     string
		x, fresh mat.Matrix
	}{
		{"digits", images.Slice(0, 1500, 0, 64), images.Slice(1500, 1797, 0, 64)},
		{"five", five(rand.New(rand.NewPCG(1, 14)), 1500, 10), five(rand.New(rand.NewPCG(2, 14)), 1000, 10)},
	} {
		for _, h := range []neighbourhood{{0, 0}, {0, 1000}, {0, 500}, {0, 100}, {50, 50}, {100, 0}} {
			b.Run(data.name+"/"+h.String(), func(b *testing.B) {
				for range b.N {
					nll := 0.0
					const seeds = 3
					for seed := range uint64(seeds) {
						v, err := h.learn(seed, mat.DenseCopyOf(data.x), mat.DenseCopyOf(data.fresh))
						if err != nil {
							b.Fatal(err)
						}
						nll += v / seeds
					}
					b.ReportMetric(nll, "nats/row")
				}
			})
		}
	}
}

// learn makes 30 stochastic EM steps of 100 rows and returns the NLL of fresh rows.
func (h neighbourhood) learn(seed uint64, x, fresh *mat.Dense) (float64, error) {
	const steps, batch, keep, nu = 30, 100, 0.7, 0.05
	r := rand.New(rand.NewPCG(seed, 15))
	n, d := x.Dims()
	g := newRunningMoments(math.Inf(1), d)
	w := new(linalg.Workspace)
	g.start(linalg.Elements(x), w)
	cl := mat.NewDense(d, d, slices.Clone(g.cov))
	metric := func() (*mat.Dense, error) { // B with B Bᵀ = (C_L + ν s²)⁻¹, s² at least a thousandth of the mean
		sigma, mean := slices.Clone(linalg.Elements(cl)), 0.0
		for k := range d {
			mean += g.cov[k*d+k] / float64(d)
		}
		for k := range d {
			sigma[k*d+k] += nu * max(g.cov[k*d+k], 1e-3*mean)
		}
		low := make([]float64, d*d)
		if _, err := prop1.Factor(low, sigma, d, w); err != nil {
			return nil, err
		}
		b := mat.NewDense(d, d, nil)
		for k := range d {
			b.Set(k, k, 1)
		}
		w.SolveLeftTransposed(linalg.Dense(low, d), b.RawMatrix().Data, d, d, d)
		return b, nil
	}
	for range steps {
		b, err := metric()
		if err != nil {
			return 0, err
		}
		now := h.step(r, x, b, r.Perm(n)[:batch])
		cl.Scale(keep, cl)
		now.Scale(1-keep, now)
		cl.Add(cl, now)
	}
	b, err := metric()
	if err != nil {
		return 0, err
	}
	logDet, _ := mat.LogDet(b)
	var z, q mat.Dense
	z.Mul(x, b)
	q.Mul(fresh, b)
	m, _ := fresh.Dims()
	nll, logits := 0.0, make([]float64, n)
	for i := range m {
		for j := range n {
			logits[j] = -0.5 * squared(q.RawRowView(i), z.RawRowView(j))
		}
		nll -= floats.LogSumExp(logits) - math.Log(float64(n))
	}
	return nll/float64(m) + 0.5*float64(d)*math.Log(2*math.Pi) - logDet, nil
}

// squared returns |a−b|².
func squared(a, b []float64) float64 {
	sum := 0.0
	for k, v := range a {
		sum += (v - b[k]) * (v - b[k])
	}
	return sum
}
