package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// TestPrecision measures the rounding errors of Ĉ where they matter: C_L is inverted, so an error counts relative to
// the variance of its own direction. The figure is the largest |e − 1| over the
// generalised eigenvalues e of (computed, exact); a small Frobenius norm can hide a large error.
//
// The data have spectra over four decades and lie far from the origin; the metric is that of a
// few EM steps, as in practice. The exact matrix is summed pair by pair from raw differences.
func TestPrecision(t *testing.T) {
	for _, dim := range []int{4, 16, 64} {
		for _, kind := range []string{"aniso", "mix", "manifold"} {
			for _, offset := range []float64{0, 1000}[min(1, dim/64):] {
				t.Run(fmt.Sprintf("d=%d/%s/offset %g sd", dim, kind, offset), func(t *testing.T) {
					const rows, n = 60, 300
					x := rawData(kind, rows+n, dim, offset)
					factor := fewSteps(t, x[:rows*dim], x[rows*dim:], rows, n, dim)
					exact := pairwise(x[:rows*dim], x[rows*dim:], rows, n, dim, factor)
					// An EM step moves Ĉ by more than 5e-3 until long after it is of use; 1e-10 is
					// float64's rounding times |z|² and the number of terms, with room.
					if e := worstEigenvalue(t, computed[float32](x, rows, n, dim, factor), exact, factor, rows, dim); !(e <= 5e-3) {
						t.Errorf("float32: worst generalised eigenvalue is off by %.2g, want at most 5e-3", e)
					}
					if w, deviation := metricOf(x[rows*dim:], n, dim, factor); kernel.Float32Suffices(w, dim, dim, deviation) {
						if e := worstEigenvalue(t, inFloat32(x, rows, n, dim, w, deviation), exact, factor, rows, dim); !(e <= 5e-3) {
							t.Errorf("projected in float32: worst generalised eigenvalue is off by %.2g, want at most 5e-3", e)
						}
					} else if kind != "aniso" && dim < 64 {
						t.Errorf("float32 does not suffice to project, as it should for such data")
					}
					if e := worstEigenvalue(t, computed[float64](x, rows, n, dim, factor), exact, factor, rows, dim); !(e <= 1e-10) {
						t.Errorf("float64: worst generalised eigenvalue is off by %.2g, want at most 1e-10", e)
					}
				})
			}
		}
	}
}

// rawData draws rows whose columns are rotated against their directions of variance.
func rawData(kind string, rows, dim int, offset float64) []float64 {
	r := rand.New(rand.NewPCG(uint64(dim), uint64(len(kind))))
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return v
	}
	scale := make([]float64, dim) // standard deviations from .03 to 5.5: variances from 1e-3 to 30
	for k := range scale {
		scale[k] = math.Sqrt(1e-3 * math.Pow(3e4, float64(k)/float64(max(1, dim-1))))
	}
	rotation := normal(dim * dim)
	centres := normal(20 * dim)
	const hidden = 6
	bend, phase := normal(hidden*dim), normal(dim)
	x := make([]float64, rows*dim)
	for i := range rows {
		g := normal(dim)
		u := normal(hidden)
		cluster := r.IntN(20)
		for k := range dim {
			switch kind {
			case "aniso":
				g[k] *= scale[k]
			case "mix":
				g[k] = scale[k] * (5*centres[cluster*dim+k] + 0.2*g[k])
			case "manifold":
				s := phase[k]
				for h := range hidden {
					s += 0.5 * u[h] * bend[h*dim+k]
				}
				g[k] = scale[k] * (3*math.Sin(s) + 0.05*g[k])
			}
		}
		for a := range dim {
			for k := range dim {
				x[i*dim+a] += rotation[a*dim+k] * g[k] / math.Sqrt(float64(dim))
			}
			x[i*dim+a] += offset * scale[dim-1]
		}
	}
	return x
}

// nu is Algorithm 1's ν: C_L of a few rows is singular without it.
const nu = 1e-4

// fewSteps runs EM steps from the pool's covariance, and returns the lower factor of C_L.
func fewSteps(t *testing.T, q, z []float64, rows, n, dim int) []float64 {
	mean := meanOf(z, n, dim)
	c := make([]float64, dim*dim)
	for j := range n {
		for a := range dim {
			for b := range dim {
				c[a*dim+b] += (z[j*dim+a] - mean[a]) * (z[j*dim+b] - mean[b]) / float64(n)
			}
		}
	}
	for range 3 {
		l := factorOf(t, c, dim)
		c = sandwich(l, pairwise(q, z, rows, n, dim, l), dim)
		for a := range dim {
			for b := range dim {
				c[a*dim+b] /= float64(rows)
			}
			c[a*dim+a] += nu
		}
	}
	return factorOf(t, c, dim)
}

func factorOf(t *testing.T, c []float64, dim int) []float64 {
	t.Helper()
	l := append([]float64(nil), c...)
	if err := new(linalg.Workspace).CholeskyLower(l, dim); err != nil {
		t.Fatal(err)
	}
	return l
}

func meanOf(z []float64, n, dim int) []float64 {
	mean := make([]float64, dim)
	for j := range n {
		for k := range dim {
			mean[k] += z[j*dim+k] / float64(n)
		}
	}
	return mean
}

// solve returns L⁻¹v.
func solve(l, v []float64, dim int) []float64 {
	y := make([]float64, dim)
	for i := range dim {
		s := v[i]
		for k := range i {
			s -= l[i*dim+k] * y[k]
		}
		y[i] = s / l[i*dim+i]
	}
	return y
}

// pairwise is eq. 5 with the metric (L Lᵀ)⁻¹, whitened by it.
func pairwise(q, z []float64, rows, n, dim int, l []float64) []float64 {
	inverse := append([]float64(nil), l...)
	invertLower(inverse, dim)
	c := make([]float64, dim*dim)
	y := make([]float64, n*dim)
	for i := range rows {
		d2, nearest := make([]float64, n), math.Inf(1)
		for j := range n {
			for a := range dim {
				var v float64
				for k, w := range inverse[a*dim:][:a+1] {
					v += w * (q[i*dim+k] - z[j*dim+k])
				}
				y[j*dim+a] = v
				d2[j] += v * v
			}
			nearest = min(nearest, d2[j])
		}
		var sum float64
		for _, v := range d2 {
			sum += math.Exp(-0.5 * (v - nearest))
		}
		for j := range n {
			lambda := math.Exp(-0.5*(d2[j]-nearest)) / sum
			if lambda < 1e-25 {
				continue // negligible next to one
			}
			for a, v := range y[j*dim:][:dim] {
				for b, w := range y[j*dim:][:dim] {
					c[a*dim+b] += lambda * v * w
				}
			}
		}
	}
	return c
}

// computed is Ĉ as the learner computes it: centred and whitened in float64, rounded, summed by
// Update.
func computed[T kernel.Float](x []float64, rows, n, dim int, l []float64) []float64 {
	mean := meanOf(x[rows*dim:], n, dim)
	w := make([]T, len(x))
	for i := range rows + n {
		v := make([]float64, dim)
		for k := range v {
			v[k] = x[i*dim+k] - mean[k]
		}
		for k, y := range solve(l, v, dim) {
			w[i*dim+k] = T(y)
		}
	}
	var m kernel.Moments
	var s kernel.Scratch[T]
	var pool kernel.Neighbours[T]
	pool.Pack(w[rows*dim:], n, dim, dim)
	kernel.Update(&m, &s, w, rows, &pool, kernel.Exclusion{})
	return m.Cov()
}

// metricOf returns L⁻¹ and the standard deviations of the columns of z.
func metricOf(z []float64, n, dim int, l []float64) (w, deviation []float64) {
	w, deviation = append([]float64(nil), l...), make([]float64, dim)
	invertLower(w, dim)
	mean := meanOf(z, n, dim)
	for k := range deviation {
		for j := range n {
			deviation[k] += (z[j*dim+k] - mean[k]) * (z[j*dim+k] - mean[k]) / float64(n)
		}
		deviation[k] = math.Sqrt(deviation[k])
	}
	return w, deviation
}

// inFloat32 is Ĉ as the learner computes it where a [kernel.Projection32] suffices.
func inFloat32(x []float64, rows, n, dim int, w, deviation []float64) []float64 {
	var c kernel.Coordinates[float32]
	var s kernel.Scratch[float32]
	z := make([]float32, len(x))
	c.Pack(meanOf(x[rows*dim:], n, dim), w, dim, dim, deviation)
	c.Apply(z, x, rows+n)
	var m kernel.Moments
	var pool kernel.Neighbours[float32]
	pool.Pack(z[rows*dim:], n, dim, dim)
	kernel.Update(&m, &s, z, rows, &pool, kernel.Exclusion{})
	return m.Cov()
}

// sandwich is L C Lᵀ.
func sandwich(l, c []float64, dim int) []float64 {
	half, out := make([]float64, dim*dim), make([]float64, dim*dim)
	for i := range dim {
		for k := range i + 1 {
			for j := range dim {
				half[i*dim+j] += l[i*dim+k] * c[k*dim+j]
			}
		}
	}
	for i := range dim {
		for j := range dim {
			for k := range j + 1 {
				out[i*dim+j] += half[i*dim+k] * l[j*dim+k]
			}
		}
	}
	return out
}

// worstEigenvalue is max |e − 1| over the eigenvalues of got relative to want, both with the ν that
// the metric gets before it is inverted.
func worstEigenvalue(t *testing.T, got, want, l []float64, rows, dim int) float64 {
	t.Helper()
	inverse := append([]float64(nil), l...)
	invertLower(inverse, dim)
	got, want = append([]float64(nil), got...), append([]float64(nil), want...)
	for a := range dim {
		for b := range dim {
			for k := range dim {
				v := nu * float64(rows) * inverse[a*dim+k] * inverse[b*dim+k]
				got[a*dim+b] += v
				want[a*dim+b] += v
			}
		}
	}
	inverse = factorOf(t, want, dim)
	invertLower(inverse, dim)
	values, _, err := linalg.EigenSym(sandwich(inverse, got, dim), dim)
	if err != nil {
		t.Fatal(err)
	}
	return max(math.Abs(values[0]-1), math.Abs(values[dim-1]-1))
}

// invertLower replaces the lower triangular l by its inverse.
func invertLower(l []float64, n int) {
	inverse := mat.NewTriDense(n, mat.Lower, nil)
	if err := inverse.InverseTri(mat.NewTriDense(n, mat.Lower, slices.Clone(l))); err != nil {
		panic(err)
	}
	for i := range n {
		for j := range n {
			l[i*n+j] = inverse.At(i, j)
		}
	}
}
