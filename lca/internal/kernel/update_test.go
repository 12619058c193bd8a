package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestSparseProblems checks that the two problems above have the rows that their names promise.
func TestSparseProblems(t *testing.T) {
	for i, p := range problems() {
		if p.name != "sparse rows among dense ones" && p.name != "most points weigh nothing" {
			continue
		}
		q, z := p.data(uint64(i))
		var m Moments
		var s Scratch[float32]
		var pool Neighbours[float32]
		pool.Pack(convert[float32](z), p.n, p.dim, p.parzen)
		Update(&m, &s, convert[float32](q), p.rows, &pool, p.ex)
		last := p.rows - (p.rows-1)%blockRows[float32]() - 1
		dense, sparse := len(s.spaces[0].dense), -len(s.spaces[0].dense)
		for _, used := range m.Used[last:] {
			if used {
				sparse++
			}
		}
		t.Logf("%s: the last block has %d dense and %d sparse rows; %d of %d points weigh", p.name, dense, sparse, s.points, p.n)
		if p.name == "most points weigh nothing" && s.points*2 >= p.n {
			t.Errorf("%d of %d points weigh", s.points, p.n)
		} else if p.name != "most points weigh nothing" && (dense == 0 || sparse == 0) {
			t.Errorf("%d dense and %d sparse rows in a block", dense, sparse)
		}
	}
}

// textbook computes eqs. 3 to 5 as they are written, in float64, pair by pair, and their form for t kernels.
func textbook(q, z []float64, p problem, shape Shape) *Moments {
	rows, n, dim, parzen, ex := p.rows, p.n, p.dim, p.parzen, p.ex
	m := &Moments{dim: dim, Upper: make([]float64, dim*dim), shape: shape, parzen: parzen}
	if ex.Gate <= 0 {
		ex.Gate = math.Inf(1)
	}
	for i := range rows {
		qi := q[i*dim:][:dim]
		left := map[int]bool{}
		if ex.Start != nil {
			for _, j := range ex.Index[ex.Start[i]:ex.Start[i+1]] {
				left[int(j)] = true
			}
		}
		d2 := make([]float64, n)
		nearest := math.Inf(1)
		for j := range n {
			full := 0.0
			for k, v := range z[j*dim:][:dim] {
				full += (qi[k] - v) * (qi[k] - v)
				if k < parzen {
					d2[j] = full
				}
			}
			if full < ex.NearCopy && !left[j] {
				left[j] = true
				m.Copies++
			}
			if !left[j] {
				nearest = min(nearest, d2[j])
			}
		}
		lambda := make([]float64, n)
		sum, entropy, squares := 0.0, 0.0, 0.0
		for j := range n {
			if !left[j] {
				lambda[j] = math.Exp(shape.Log(d2[j], parzen) - shape.Log(nearest, parzen))
				sum += lambda[j]
			}
		}
		used := len(left) < n && nearest <= ex.Gate
		for j := range n {
			lambda[j] /= sum
			if lambda[j] > 0 {
				entropy -= lambda[j] * math.Log(lambda[j])
				squares += lambda[j] * lambda[j]
			}
			weight := lambda[j] * shape.Pull(d2[j], parzen)
			for a := range dim {
				for b := range dim {
					if used && lambda[j] > 0 {
						m.Upper[a*dim+b] += weight * (qi[a] - z[j*dim+a]) * (qi[b] - z[j*dim+b])
					}
				}
			}
		}
		effective := 0.0
		if len(left) < n {
			effective = math.Exp(entropy)
			if shape.DOF > 0 {
				effective = 1 / squares
			}
		}
		m.Sum, m.Nearest, m.Effective = append(m.Sum, sum), append(m.Nearest, nearest), append(m.Effective, effective)
		m.Admissible, m.Used = append(m.Admissible, int32(n-len(left))), append(m.Used, used)
		if used {
			m.Rows++
		}
	}
	return m
}

// lse returns the LSE of all rows.
func lse(m *Moments) (all []float64) {
	for i := range m.Sum {
		all = append(all, m.LSE(i))
	}
	return all
}

// points draws standard normal rows, rounded to T.
func points[T Float](seed uint64, rows, dim int, scale float64) ([]T, []float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	t, f := make([]T, rows*dim), make([]float64, rows*dim)
	for i := range t {
		t[i] = T(scale * r.NormFloat64())
		f[i] = float64(t[i])
	}
	return t, f
}

type problem struct {
	name                 string
	rows, n, dim, parzen int
	scale                float64
	ex                   Exclusion
	copies               bool // the first pool points are copies of the first queries, a little off
}

func problems() []problem {
	starts := func(rows int) []int32 {
		s := make([]int32, rows+1)
		for i := range s {
			s[i] = int32(i)
		}
		return s
	}
	return []problem{
		{name: "one row, one neighbour, one dimension", rows: 1, n: 1, dim: 1, parzen: 1, scale: 1},
		{name: "plain", rows: 61, n: 137, dim: 5, parzen: 5, scale: 1},
		{name: "no Parzen dimension: uniform weights", rows: 9, n: 33, dim: 3, parzen: 0, scale: 1},
		{name: "some dimensions Gaussian", rows: 57, n: 97, dim: 17, parzen: 6, scale: 1},
		{name: "exactly one panel", rows: 56, n: 32, dim: 32, parzen: 32, scale: 1},
		{name: "one more than two panels", rows: 113, n: 65, dim: 65, parzen: 65, scale: 1},
		{name: "many folds", rows: 300, n: 600, dim: 3, parzen: 2, scale: 1},
		{name: "far apart: one effective neighbour", rows: 40, n: 80, dim: 8, parzen: 8, scale: 100},
		{name: "lists of some blocks, gathered twice", rows: 200, n: 200, dim: 8, parzen: 8, scale: 100},
		{name: "sparse rows among dense ones", rows: 56, n: 400, dim: 3, parzen: 3, scale: 8},
		{name: "most points weigh nothing", rows: 5, n: 400, dim: 40, parzen: 40, scale: 5},
		{name: "gate", rows: 40, n: 80, dim: 4, parzen: 4, scale: 3, ex: Exclusion{Gate: 3}},
		{name: "own record excluded", rows: 30, n: 70, dim: 4, parzen: 3, scale: 1, copies: true,
			ex: Exclusion{Start: starts(30), Index: func() (x []int32) {
				for i := range int32(30) {
					x = append(x, i)
				}
				return x
			}()}},
		{name: "nothing admissible", rows: 3, n: 1, dim: 4, parzen: 3, scale: 1,
			ex: Exclusion{Start: starts(3), Index: []int32{0, 0, 0}}},
		{name: "near copies", rows: 30, n: 70, dim: 4, parzen: 4, scale: 30, copies: true, ex: Exclusion{NearCopy: 4e-6}},
		{name: "near copies only in the Parzen part", rows: 30, n: 70, dim: 4, parzen: 1, scale: 30, copies: true, ex: Exclusion{NearCopy: 4e-6}},
		{name: "empty pool", rows: 3, n: 0, dim: 4, parzen: 4, scale: 1},
		{name: "no rows", rows: 0, n: 5, dim: 4, parzen: 4, scale: 1},
	}
}

func (p problem) data(seed uint64) (q, z []float64) {
	_, q = points[float32](seed, p.rows, p.dim, p.scale)
	_, z = points[float32](seed+1, p.n, p.dim, p.scale)
	if p.copies {
		for i, v := range q {
			z[i] = v
			if p.ex.NearCopy > 0 && i%8 == 0 {
				z[i] = float64(float32(v + 1e-4)) // a copy that was rounded on its way
			}
		}
	}
	return q, z
}

func convert[T Float](x []float64) []T {
	t := make([]T, len(x))
	for i, v := range x {
		t[i] = T(v)
	}
	return t
}

// TestUpdateEqualsTextbook compares the fused pass with the pairwise formulas.
func TestUpdateEqualsTextbook(t *testing.T) {
	Each(func(name string) {
		for i, p := range problems() {
			// Logits reach |z|² = 1e4·dim in the wide problems; half an ulp of that, exponentiated.
			for _, dof := range []int{0, 1, 4} {
				testTextbook[float32](t, name, uint64(i), p, Shape{dof}, 1e-4*max(1, p.scale))
				testTextbook[float64](t, name, uint64(i), p, Shape{dof}, 1e-11)
			}
		}
	})
}

func testTextbook[T Float](t *testing.T, impl string, seed uint64, p problem, shape Shape, tol float64) {
	t.Run(fmt.Sprintf("%s/%T/dof %d/%s", impl, *new(T), shape.DOF, p.name), func(t *testing.T) {
		qf, zf := p.data(seed)
		want := textbook(qf, zf, p, shape)
		var got Moments
		var s Scratch[T]
		pool := Neighbours[T]{Shape: shape}
		pool.Pack(convert[T](zf), p.n, p.dim, p.parzen)
		Update(&got, &s, convert[T](qf), p.rows, &pool, p.ex)
		if got.Rows != want.Rows || got.Copies != want.Copies {
			t.Fatalf("rows %d, copies %d; want %d, %d", got.Rows, got.Copies, want.Rows, want.Copies)
		}
		for i := range p.rows {
			if got.Admissible[i] != want.Admissible[i] || got.Used[i] != want.Used[i] {
				t.Fatalf("row %d: admissible %d, used %v; want %d, %v", i, got.Admissible[i], got.Used[i], want.Admissible[i], want.Used[i])
			}
		}
		size := p.scale * p.scale * float64(p.rows)
		near(t, "Cov", got.Cov(), want.Cov(), tol*size)
		near(t, "LSE", lse(&got), lse(want), tol*p.scale)
		near(t, "Nearest", got.Nearest, want.Nearest, tol*p.scale)
		near(t, "Effective", got.Effective, want.Effective, tol*float64(p.n))
		if p.ex.Start == nil && p.ex.NearCopy == 0 {
			alone := make([]float64, p.rows)
			Attract(alone, nil, nil, &s, convert[T](qf), p.rows, &pool)
			near(t, "LSE alone", alone, lse(want), tol*p.scale)
		}
	})
}

func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i, v := range got {
		if !(math.Abs(v-want[i]) <= tol) && v != want[i] {
			t.Fatalf("%s[%d] = %v, want %v within %g", what, i, v, want[i], tol)
		}
	}
}

// TestUpdateLeavesOutWhatIsNotFinite checks that a row that is NaN, or so far away that its products overflow, counts
// nowhere and does not affect other rows.
func TestUpdateLeavesOutWhatIsNotFinite(t *testing.T) {
	const rows, n, dim = 60, 100, 5
	q, _ := points[float32](1, rows, dim, 1)
	z, _ := points[float32](2, n, dim, 1)
	var pool Neighbours[float32]
	pool.Pack(z, n, dim, dim)
	bad := map[int]float32{3: float32(math.NaN()), 17: float32(math.Inf(1)), 58: math.MaxFloat32}
	var good []float32
	for i := range rows {
		if _, ok := bad[i]; !ok {
			good = append(good, q[i*dim:][:dim]...)
		}
	}
	Each(func(name string) {
		var got, m Moments
		var s Scratch[float32]
		mixed := append([]float32(nil), q...)
		for i, v := range bad {
			for k := range dim {
				mixed[i*dim+k] = v
			}
		}
		Update(&m, &s, good, rows-len(bad), &pool, Exclusion{NearCopy: 1e-6})
		Update(&got, &s, mixed, rows, &pool, Exclusion{NearCopy: 1e-6})
		if got.Rows != rows-len(bad) {
			t.Fatalf("%s: %d rows used, want %d", name, got.Rows, rows-len(bad))
		}
		for i := range bad {
			if got.Used[i] || !math.IsInf(got.LSE(i), -1) {
				t.Errorf("%s: row %d is used %v with %v", name, i, got.Used[i], got.LSE(i))
			}
		}
		near(t, name, got.Cov(), m.Cov(), 1e-4) // float32 sums in other blocks
	})
}

func TestUpdateAllocatesNothing(t *testing.T) {
	q, _ := points[float64](1, 60, 6, 1)
	z, _ := points[float64](2, 100, 6, 1)
	var m Moments
	var pool Neighbours[float64]
	var project Projection
	s := Scratch[float64]{Threads: 2, workers: workers{least: 1}}
	lse, y := make([]float64, 60), make([]float32, 60*6)
	pull, centre := make([]float64, 60), make([]float64, 60*6)
	project.Pack(q[:6], z[:36], 6, 6)
	got := testing.AllocsPerRun(20, func() {
		pool.Pack(z, 100, 6, 4)
		Update(&m, &s, q, 60, &pool, Exclusion{NearCopy: 1e-6, Gate: 40})
		Attract(lse, nil, nil, &s, q, 60, &pool)
		Attract(lse, pull, centre, &s, q, 60, &pool)
		Project(&project, y, &s, q, 60)
	})
	if got != 0 {
		t.Errorf("%v allocations in steady state, want 0", got)
	}
}

// TestProjection32Bits checks that a Projection32 is the chain of float32 multiply-adds that its comment defines, on
// all implementations, and that it is near the float64 projection.
func TestProjection32Bits(t *testing.T) {
	Each(func(name string) {
		for _, shape := range [][3]int{{1, 1, 1}, {3, 5, 2}, {29, 17, 17}, {60, 40, 33}, {2, 64, 64}, {57, 33, 96}} {
			rows, dim, out := shape[0], shape[1], shape[2]
			x, _ := points[float64](3, rows, dim, 1e3)
			w, _ := points[float64](4, out, dim, 1)
			mean, _ := points[float64](5, 1, dim, 1e3)
			exact, got := make([]float32, rows*out), make([]float32, rows*out)
			affine(exact, x, rows, dim, mean, w, out)
			c := Coordinates[float32]{inFloat32: true}
			c.single.Pack(mean, w, dim, out)
			c.Apply(got, x, rows)
			for i := range rows {
				for o := range out {
					var y float32
					size := 0.0
					for k := range dim {
						centred := float32(x[i*dim+k] - mean[k])
						y = fma32(centred, float32(w[o*dim+k]), y)
						size += math.Abs(float64(centred) * w[o*dim+k])
					}
					if g := got[i*out+o]; g != y || math.Abs(float64(g-exact[i*out+o])) > float64(dim+3)*0x1p-24*size {
						t.Fatalf("%s: %d rows, %d → %d: y[%d][%d] = %v, want %v near %v", name, rows, dim, out, i, o, g, y, exact[i*out+o])
					}
				}
			}
		}
	})
}

// affine is Projection as its comment defines it, row by row.
func affine(dst []float32, x []float64, rows, dim int, mean, w []float64, out int) {
	for i := range rows {
		for o := range out {
			var y float64
			for k, v := range x[i*dim:][:dim] {
				y = math.FMA(v-mean[k], w[o*dim+k], y)
			}
			dst[i*out+o] = float32(y)
		}
	}
}

func TestProjectionEqualsAffine(t *testing.T) {
	Each(func(name string) {
		for _, shape := range [][3]int{{1, 1, 1}, {3, 5, 2}, {29, 17, 17}, {60, 40, 33}, {2, 64, 64}} {
			rows, dim, out := shape[0], shape[1], shape[2]
			x, _ := points[float64](3, rows, dim, 1e3)
			w, _ := points[float64](4, out, dim, 1)
			mean, _ := points[float64](5, 1, dim, 1e3)
			want, got := make([]float32, rows*out), make([]float32, rows*out)
			affine(want, x, rows, dim, mean, w, out)
			var p Projection
			var s Scratch[float64]
			p.Pack(mean, w, dim, out)
			Project(&p, got, &s, x, rows)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: %d rows, %d → %d: y[%d] = %v, want %v", name, rows, dim, out, i, got[i], want[i])
				}
			}
		}
	})
}
