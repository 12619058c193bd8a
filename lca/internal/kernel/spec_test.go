package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// These tests compare every implementation with the generic functions, bit for bit. Inputs are unaligned and lie
// between guards of NaN: a read outside them shows in the result, a write in the guard.

const guard = 40

// guarded is a slice with NaN before and after it.
type guarded[T Float] struct{ all, s []T }

func newGuarded[T Float](n, shift int, fill func() T) guarded[T] {
	all := make([]T, guard+shift+n+guard)
	for i := range all {
		all[i] = T(math.NaN())
	}
	s := all[guard+shift:][:n]
	for i := range s {
		s[i] = fill()
	}
	return guarded[T]{all, s}
}

func (g guarded[T]) clone() guarded[T] {
	all := append([]T(nil), g.all...)
	lo := 0
	for &g.all[lo] != &g.s[:1][0] {
		lo++
	}
	return guarded[T]{all, all[lo:][:len(g.s)]}
}

// same compares bits, except that all NaN are the same.
func same[T Float](a, b T) bool {
	return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) || a != a && b != b
}

func compare[T Float](t *testing.T, what string, got, want []T) {
	t.Helper()
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("%s: element %d of %d is %x, want %x", what, i, len(want), got[i], want[i])
		}
	}
}

// source draws numbers from one range.
type source[T Float] struct {
	kind string
	fill func() T
}

// numbersOf lists the ranges: ordinary, far, denormal, half-way points, and every special value.
func numbersOf[T Float](r *rand.Rand) []source[T] {
	special := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat32, -math.MaxFloat32, 0x1p-126, 0x1p-149, -0x1p-149}
	tiny := 0x1p-140
	if sizeOf[T]() == 8 {
		tiny = 0x1p-1060
		special = append(special, math.MaxFloat64, 0x1p-1022, 0x1p-1074)
	}
	return []source[T]{
		{"ordinary", func() T { return T(r.NormFloat64()) }},
		{"far", func() T { return T(r.NormFloat64() * math.Pow(10, 15*r.Float64())) }},
		{"denormal", func() T { return T(r.NormFloat64() * tiny) }},
		{"half-way", func() T { return T(1 + float64(r.IntN(4))*0x1p-12) }},
		{"special", func() T { return T(special[r.IntN(len(special))]) }},
		{"small set", func() T { return T(r.IntN(3)) }},
	}
}

// specification runs f for both types, each implementation, and each range of numbers.
func specification(t *testing.T, f32 func(t *testing.T, got, want *functions[float32], r *rand.Rand, fill func() float32),
	f64 func(t *testing.T, got, want *functions[float64], r *rand.Rand, fill func() float64)) {
	spec := generic()
	Each(func(name string) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, from := range numbersOf[float32](r) {
			t.Run(fmt.Sprintf("%s/float32/%s", name, from.kind), func(t *testing.T) { f32(t, functionsOf[float32](), &spec.f32, r, from.fill) })
		}
		for _, from := range numbersOf[float64](r) {
			t.Run(fmt.Sprintf("%s/float64/%s", name, from.kind), func(t *testing.T) { f64(t, functionsOf[float64](), &spec.f64, r, from.fill) })
		}
	})
}

func TestCentrePanelBits(t *testing.T) {
	specification(t, centrePanelBits[float32], centrePanelBits[float64])
}

func centrePanelBits[T Float](t *testing.T, got, want *functions[T], r *rand.Rand, fill func() T) {
	w := panelWidth[T]()
	for n := range w + 1 {
		rows, ld := r.IntN(5), n+r.IntN(3)
		x, o, panel := newGuarded(max(0, (rows-1)*ld+n), r.IntN(8), fill), newGuarded(max(n, 1), r.IntN(8), fill), newGuarded(max(1, rows*w), r.IntN(8), fill)
		other := panel.clone()
		got.centrePanel(panel.s, x.s, ld, o.s[:n], rows)
		want.centrePanel(other.s, x.s, ld, o.s[:n], rows)
		compare(t, fmt.Sprintf("%d rows of %d", rows, n), panel.all, other.all)
	}
}

func TestTileBits(t *testing.T) { specification(t, tileBits[float32], tileBits[float64]) }

func tileBits[T Float](t *testing.T, got, want *functions[T], r *rand.Rand, fill func() T) {
	w := panelWidth[T]()
	for rows := range 68 {
		cols, depth := 1+r.IntN(w), r.IntN(68)
		rs, cs := depth+r.IntN(5), 1
		if rows%3 == 0 { // the transposed A of a covariance
			rs, cs = 1, max(1, rows)+r.IntN(5)
		}
		ldc, bs := w+r.IntN(3), w+r.IntN(3)
		ldi := []int{0, w, w + 1}[r.IntN(3)]
		size := func(outer, stride, inner int) int { return max(0, (outer-1)*stride+inner) }
		a := newGuarded(size(rows, rs, size(depth, cs, 1)), r.IntN(8), fill)
		b := newGuarded(size(depth, bs, w), r.IntN(8), fill)
		init := newGuarded(size(rows, ldi, w), r.IntN(8), fill)
		c := newGuarded(size(rows, ldc, w), r.IntN(8), fill)
		if rows == 0 {
			got.tile(c.s, ldc, init.s, ldi, a.s, rs, cs, b.s, bs, depth, rows, cols)
			continue
		}
		c2 := c.clone()
		got.tile(c.s, ldc, init.s, ldi, a.s, rs, cs, b.s, bs, depth, rows, cols)
		want.tile(c2.s, ldc, init.s, ldi, a.s, rs, cs, b.s, bs, depth, rows, cols)
		compare(t, fmt.Sprintf("tile of %d×%d, depth %d", rows, cols, depth), c.all, c2.all)
		got.tile(c.s, ldc, c.s, ldc, a.s, rs, cs, b.s, bs, depth, rows, cols)
		want.tile(c2.s, ldc, c2.s, ldc, a.s, rs, cs, b.s, bs, depth, rows, cols)
		compare(t, "tile added to itself", c.all, c2.all)
	}
}

// TestTilePrefetchBits checks that prefetching does not change the bits.
func TestTilePrefetchBits(t *testing.T) {
	Each(func(name string) {
		r := rand.New(rand.NewPCG(5, 7))
		for _, from := range numbersOf[float32](r) {
			for rows := 1; rows < 68; rows++ {
				depth := r.IntN(68)
				rs, ldc := depth+r.IntN(5), 32+r.IntN(3)
				a, b := newGuarded((rows-1)*rs+depth, r.IntN(8), from.fill), newGuarded(depth*32, r.IntN(8), from.fill)
				init, c := newGuarded(32, r.IntN(8), from.fill), newGuarded((rows-1)*ldc+32, r.IntN(8), from.fill)
				c2, next := c.clone(), make([]float64, r.IntN(99))
				active().tilePrefetch(c.s, ldc, init.s, a.s, rs, b.s, depth, rows, bytesOf(next))
				tilePrefetch(c2.s, ldc, init.s, a.s, rs, b.s, depth, rows, bytesOf(next))
				compare(t, fmt.Sprintf("%s: tile of %d rows, depth %d", name, rows, depth), c.all, c2.all)
			}
		}
	})
}

// TestTileBlocking checks that dividing the depth does not change the bits.
func TestTileBlocking(t *testing.T) {
	Each(func(name string) {
		f := functionsOf[float32]()
		r := rand.New(rand.NewPCG(5, 6))
		const rows, depth, w = 31, 600, 32
		fill := func() float32 { return float32(r.NormFloat64()) }
		a, b, zero := newGuarded(rows*depth, 1, fill), newGuarded(depth*w, 3, fill), make([]float32, w)
		whole, parts := make([]float32, rows*w), make([]float32, rows*w)
		f.tile(whole, w, zero, 0, a.s, depth, 1, b.s, w, depth, rows, w)
		init, ldi := zero, 0
		for k := 0; k < depth; {
			d := min(1+r.IntN(99), depth-k)
			f.tile(parts, w, init, ldi, a.s[k:], depth, 1, b.s[k*w:], w, d, rows, w)
			init, ldi = parts, w
			k += d
		}
		compare(t, name, parts, whole)
	})
}

func TestRowBits(t *testing.T) { specification(t, rowBits[float32], rowBits[float64]) }

func rowBits[T Float](t *testing.T, got, want *functions[T], r *rand.Rand, fill func() T) {
	w := panelWidth[T]()
	for n := 1; n < 68; n++ {
		s := newGuarded(n, r.IntN(8), fill)
		if g, x := got.rowMax(s.s), want.rowMax(s.s); g != x {
			t.Fatalf("maximum of %v is %v, want %v", s.s, g, x)
		}
		for _, v := range []T{s.s[r.IntN(n)], fill(), T(math.Inf(1))} {
			if g, x := got.findGE(s.s, v), want.findGE(s.s, v); g != x {
				t.Fatalf("first of %d at least %v is %d, want %d", n, v, g, x)
			}
			whole := n &^ (lanes - 1)
			value := newGuarded(whole, r.IntN(8), fill)
			i1, i2, v2 := make([]int32, whole), make([]int32, whole), value.clone()
			g, x := got.pick(i1, value.s, s.s[:whole], 7, v), want.pick(i2, v2.s, s.s[:whole], 7, v)
			if g != x || !slices.Equal(i1[:g], i2[:x]) {
				t.Fatalf("of %d at least %v: slots %v, want %v", whole, v, i1[:g], i2[:x])
			}
			copy(value.s[g:], v2.s[g:])
			compare(t, "chosen", value.all, v2.all)
		}
		rows := n
		panel, scale := newGuarded(rows*w, r.IntN(8), fill), newGuarded(rows, r.IntN(8), fill)
		d1, d2 := newGuarded(rows*w, 5, fill), newGuarded(rows*w, 5, fill)
		got.scale(d1.s, panel.s, scale.s)
		want.scale(d2.s, panel.s, scale.s)
		compare(t, "scaled panel", d1.all, d2.all)
		got.norms(d1.s, panel.s)
		want.norms(d2.s, panel.s)
		compare(t, "norms", d1.all, d2.all)
		index := make([]int32, r.IntN(n+1))
		for e := range index {
			index[e] = int32(r.IntN(rows))
		}
		slices.Sort(index)
		got.spmv(d1.s[:w], panel.s, index, scale.s[:len(index)])
		want.spmv(d2.s[:w], panel.s, index, scale.s[:len(index)])
		compare(t, "weighted sum", d1.all, d2.all)
		got.scatterAdd(d1.s, index, scale.s[:len(index)], s.s[0])
		want.scatterAdd(d2.s, index, scale.s[:len(index)], s.s[0])
		compare(t, "scattered row", d1.all, d2.all)
		got.axpy(d1.s[:n], s.s, scale.s[0])
		want.axpy(d2.s[:n], s.s, scale.s[0])
		compare(t, "added row", d1.all, d2.all)
		got.meanResidual(d1.s[:n], d1.s[n:2*n], panel.s, s.s, scale.s[0])
		want.meanResidual(d2.s[:n], d2.s[n:2*n], panel.s, s.s, scale.s[0])
		compare(t, "mean and residual", d1.all, d2.all)
		far := newGuarded(n, r.IntN(8), func() T { return fill() * 1e15 })
		far2 := far.clone()
		got.clamp(far.s)
		want.clamp(far2.s)
		compare(t, "clamped", far.all, far2.all)
		for _, v := range far.s {
			if !(v <= farAway && v >= -farAway) {
				t.Fatalf("clamped to %v", v)
			}
		}
		sums := newGuarded(n, r.IntN(8), func() float64 { return r.NormFloat64() })
		sums2 := sums.clone()
		got.addTo(sums.s, s.s)
		want.addTo(sums2.s, s.s)
		compare(t, "sum", sums.all, sums2.all)
		got.subFrom(sums.s, s.s)
		want.subFrom(sums2.s, s.s)
		compare(t, "difference", sums.all, sums2.all)
	}
}

func TestSoftmaxBits(t *testing.T) { specification(t, softmaxBits[float32], softmaxBits[float64]) }

func softmaxBits[T Float](t *testing.T, got, want *functions[T], r *rand.Rand, fill func() T) {
	least := 0x1p-126
	if sizeOf[T]() == 8 {
		least = 0x1p-1022
	}
	for n := lanes; n < 68+lanes; n += lanes {
		for _, scale := range []T{1, 30, 300} {
			s := newGuarded(n, r.IntN(8), func() T { return fill() * scale })
			top := want.rowMax(s.s)
			s2, s3 := s.clone(), s.clone()
			z, d := got.expRow(s.s, top)
			z2, d2 := want.expRow(s2.s, top)
			compare(t, "weights", s.all, s2.all)
			compare(t, "sums", []T{z, d}, []T{z2, d2})
			before, sums := newGuarded(n, r.IntN(8), fill), newGuarded(n, r.IntN(8), fill)
			sums2 := sums.clone()
			z, d = got.expAdd(s3.s, before.s, sums.s, top, scale)
			want.axpy(sums2.s, before.s, scale)
			compare(t, "weights, next to another row", s3.all, s2.all)
			compare(t, "their sums", []T{z, d}, []T{z2, d2})
			compare(t, "the other row's", sums.all, sums2.all)
			for _, v := range s.s {
				if v != 0 && float64(v) < least || v > 1 || v != v {
					t.Fatalf("weight %v, want 0 or a normal number up to 1", v)
				}
			}
		}
	}
}

func TestTransposeBits(t *testing.T) {
	specification(t, transposeBits[float32], transposeBits[float64])
}

func transposeBits[T Float](t *testing.T, got, want *functions[T], r *rand.Rand, fill func() T) {
	w := panelWidth[T]()
	for cols := range 68 {
		rows, lds := 1+r.IntN(w), cols+r.IntN(5)
		src := newGuarded((rows-1)*lds+cols, r.IntN(8), fill)
		d1 := newGuarded(cols*w, r.IntN(8), fill)
		d2 := newGuarded(cols*w, r.IntN(8), fill)
		copy(d2.s, d1.s)
		got.transpose(d1.s, src.s, lds, rows, cols)
		want.transpose(d2.s, src.s, lds, rows, cols)
		compare(t, fmt.Sprintf("transpose of %d×%d", rows, cols), d1.s, d2.s)
		for i, v := range d1.all {
			if (i < guard || i >= len(d1.all)-guard) && v == v {
				t.Fatalf("transpose of %d×%d wrote outside", rows, cols)
			}
		}
	}
}

func TestCentreF32Bits(t *testing.T) {
	Each(func(name string) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, from := range numbersOf[float64](r) {
			for n := range 68 {
				x, mean := newGuarded(n+1, r.IntN(8), from.fill), newGuarded(n+1, r.IntN(8), from.fill)
				f1 := newGuarded(n, r.IntN(8), func() float32 { return 1 })
				f2 := f1.clone()
				active().centreF32(f1.s, x.s, mean.s)
				centreF32(f2.s, x.s, mean.s)
				compare(t, name+": centreF32 of "+from.kind, f1.all, f2.all)
			}
		}
	})
}

func TestRotBits(t *testing.T) {
	Each(func(name string) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, from := range numbersOf[float64](r) {
			for n := range 68 {
				ld := RotWidth + r.IntN(3)
				strip := newGuarded(n*ld+RotWidth, r.IntN(8), from.fill)
				c, s := newGuarded(n, r.IntN(8), from.fill), newGuarded(n, r.IntN(8), from.fill)
				want := strip.clone()
				Rot(strip.s, ld, c.s, s.s)
				rot(want.s, ld, c.s, s.s)
				compare(t, name+": "+from.kind, strip.all, want.all)
			}
		}
	})
}

func TestSymvBits(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	fill := func() float64 { return r.NormFloat64() }
	for n := 8; n < 80; n += 8 {
		ld := n + r.IntN(5)
		a, v, p := newGuarded(7*ld+n, r.IntN(8), fill), newGuarded(n, r.IntN(8), fill), newGuarded(n, r.IntN(8), fill)
		want := p.clone()
		symv(want.s, a.s, ld, v.s, n)
		Each(func(name string) {
			got := p.clone()
			Symv(got.s, a.s, ld, v.s, n)
			compare(t, fmt.Sprintf("%s: product with %d columns", name, n), got.all, want.all)
		})
	}
}

// TestUpdateBits runs whole updates: neither the implementation nor the number of threads may change the bits.
func TestUpdateBits(t *testing.T) {
	for i, p := range problems() {
		t.Run(p.name, func(t *testing.T) {
			for _, dof := range []int{0, 3} {
				updateBits[float32](t, uint64(i), p, Shape{dof})
				updateBits[float64](t, uint64(i), p, Shape{dof})
			}
		})
	}
}

func updateBits[T Float](t *testing.T, seed uint64, p problem, shape Shape) {
	qf, zf := p.data(seed)
	q, z := convert[T](qf), convert[T](zf)
	run := func(threads int) (m Moments, lse []float64) {
		s := Scratch[T]{Threads: threads, workers: workers{least: 1}}
		pool := Neighbours[T]{Shape: shape}
		pool.Pack(z, p.n, p.dim, p.parzen)
		lse = make([]float64, p.rows)
		Update(&m, &s, q, p.rows, &pool, p.ex)
		Attract(lse, nil, nil, &s, q, p.rows, &pool)
		return m, lse
	}
	forced.Store(generic())
	want, wantLSE := run(1)
	forced.Store(nil)
	Each(func(name string) {
		for _, threads := range []int{1, 2, 3, 8} {
			got, lse := run(threads)
			what := fmt.Sprintf("%s, %T, %d threads: ", name, *new(T), threads)
			compare(t, what+"Cov", got.Cov(), want.Cov())
			compare(t, what+"sums", got.Sum, want.Sum)
			compare(t, what+"Nearest", got.Nearest, want.Nearest)
			compare(t, what+"Effective", got.Effective, want.Effective)
			compare(t, what+"LSE alone", lse, wantLSE)
			if fmt.Sprint(got.Admissible, got.Used, got.Rows, got.Copies) != fmt.Sprint(want.Admissible, want.Used, want.Rows, want.Copies) {
				t.Fatalf("%s%v, want %v", what, got, want)
			}
		}
	})
}
