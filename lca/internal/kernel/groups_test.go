package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// grouped is a pool and rows to score by it.
type grouped struct {
	name         string
	rows, n, dim int
	q, z         []float64
}

// groupedProblems are pools of one group and of many, dense and sparse, near and far from the rows.
func groupedProblems() (all []grouped) {
	for _, dim := range []int{1, 2, 5, 16, 64} {
		for _, scale := range []float64{0.01, 1, 30, 1000} {
			for kind, shape := range map[string]func(r *rand.Rand, k, cluster int) float64{
				"round": func(r *rand.Rand, _, _ int) float64 { return scale * r.NormFloat64() },
				"long":  func(r *rand.Rand, k, _ int) float64 { return scale * math.Exp(-float64(k)) * r.NormFloat64() },
				"clusters": func(r *rand.Rand, k, cluster int) float64 {
					return r.NormFloat64() + scale*math.Sin(float64(cluster*(k+1)))
				},
				"copies": func(_ *rand.Rand, k, cluster int) float64 { return scale * math.Sin(float64(cluster*(k+1))) },
				"tails":  func(r *rand.Rand, _, _ int) float64 { return scale * r.NormFloat64() / (0.1 + r.Float64()) },
			} {
				p := grouped{name: fmt.Sprintf("%s of %d dimensions at %g", kind, dim, scale), rows: 150, n: 700, dim: dim}
				p.q, p.z = make([]float64, p.rows*dim), make([]float64, p.n*dim)
				for i, x := range [][]float64{p.q, p.z} {
					r := rand.New(rand.NewPCG(uint64(i), uint64(dim)))
					for j := 0; j < len(x); j += dim {
						cluster := r.IntN(180)
						for k := range dim {
							x[j+k] = shape(r, k, cluster)
						}
					}
				}
				all = append(all, p)
			}
		}
	}
	return all
}

// exactLSE is [Groups.LSE] in float64 from differences of the points.
func exactLSE(p grouped, shape Shape) []float64 {
	dst, logs := make([]float64, p.rows), make([]float64, p.n)
	for i := range dst {
		top, sum := math.Inf(-1), 0.0
		for j := range logs {
			delta := 0.0
			for k := range p.dim {
				e := p.q[i*p.dim+k] - p.z[j*p.dim+k]
				delta += e * e
			}
			logs[j] = shape.Log(delta, p.dim)
			top = max(top, logs[j])
		}
		for _, v := range logs {
			sum += math.Exp(v - top)
		}
		dst[i] = top + math.Log(sum)
	}
	return dst
}

// TestGroups: a score is off by at most two roundings of a float32 of 64 nats, or of itself, and every implementation and every company of
// rows gives the same bits.
func TestGroups(t *testing.T) {
	for i, p := range groupedProblems() {
		for _, dof := range []int{0, 3} {
			t.Run(fmt.Sprint(p.name, ", ", dof), func(t *testing.T) {
				want, got := exactLSE(p, Shape{dof}), groupedLSE(p, Shape{dof})
				if i%8 == 0 { // the generic implementation takes its time
					Each(func(name string) { compare(t, name, groupedLSE(p, Shape{dof}), got) })
				}
				for i, v := range got {
					if e := math.Abs(v - want[i]); !(e <= 2*math.Exp2(-24)*max(64, math.Abs(want[i]))) {
						t.Fatalf("row %d: %v, want %v: off by %.2g", i, v, want[i], e)
					}
				}
			})
		}
	}
}

func groupedLSE(p grouped, shape Shape) []float64 {
	pool := Groups{Shape: shape}
	pool.Pack(new(GroupScratch), p.z, p.n, p.dim)
	var s GroupScratch
	dst := make([]float64, p.rows)
	pool.LSE(dst, &s, p.q, p.rows)
	return dst
}

// TestGroupsRowAlone: the groups that others of a block need change no bit of a row.
func TestGroupsRowAlone(t *testing.T) {
	for _, p := range groupedProblems() {
		for _, dof := range []int{0, 3} {
			pool := Groups{Shape: Shape{dof}}
			pool.Pack(new(GroupScratch), p.z, p.n, p.dim)
			var s GroupScratch
			together, alone := groupedLSE(p, Shape{dof}), make([]float64, p.rows)
			for i := range alone {
				pool.LSE(alone[i:i+1], &s, p.q[i*p.dim:], 1)
			}
			compare(t, p.name, alone, together)
		}
	}
}

// TestGroupsFollowTheData: points in clusters have groups of their own, and a cloud without any has one.
func TestGroupsFollowTheData(t *testing.T) {
	const dim, clusters, each = 8, 6, 150
	r := rand.New(rand.NewPCG(1, 1))
	z := make([]float64, clusters*each*dim)
	for _, apart := range []float64{0, 100} {
		for i := range z {
			z[i] = r.NormFloat64() + apart*math.Sin(float64(i/dim%clusters*(i%dim+1)))
		}
		var pool Groups
		pool.Pack(new(GroupScratch), z, clusters*each, dim)
		if n := len(pool.groups); apart == 0 && n != 1 || apart > 0 && (n < clusters || n > 4*clusters) {
			t.Errorf("clusters %g apart: %d groups", apart, n)
		}
	}
}

// TestGroupsOfFew: pools of no point, of one and of just more than panels.
func TestGroupsOfFew(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 127, 128, 129, 257} {
		p := grouped{rows: 3, n: n, dim: 2}
		p.q, _ = points[float64](1, 3, 2, 1)
		p.z, _ = points[float64](2, n, 2, 5)
		near(t, fmt.Sprint(n, " points"), groupedLSE(p, Shape{}), exactLSE(p, Shape{}), 1e-5)
	}
	for i, v := range groupedLSE(grouped{rows: 3, dim: 2, q: make([]float64, 6)}, Shape{}) {
		if !math.IsInf(v, -1) {
			t.Errorf("row %d has the sum %v over no point", i, v)
		}
	}
}

// TestGroupsOverflow: a row that is not finite, or beyond float32, has no sum, and the others of its block keep theirs.
func TestGroupsOverflow(t *testing.T) {
	for _, p := range groupedProblems() {
		want := groupedLSE(p, Shape{})
		for k, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e200, 1e30} {
			p.q[7*p.dim+k%p.dim] = v
			got := groupedLSE(p, Shape{})
			if !math.IsInf(got[7], -1) {
				t.Fatalf("%s: a row with %v has the sum %v", p.name, v, got[7])
			}
			got[7] = want[7]
			compare(t, p.name, got, want)
		}
	}
}
