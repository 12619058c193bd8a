package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestProjectionBits(t *testing.T) {
	Each(func(name string) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, from := range numbersOf[float64](r) {
			single := func() float32 { return float32(from.fill()) }
			for n := range 68 {
				rows, ld := n%9, n+r.IntN(3)
				x, mean := newGuarded(rows*n, r.IntN(8), single), newGuarded(n, r.IntN(8), from.fill)
				d1 := newGuarded((rows+1)*ld+1, r.IntN(8), from.fill)
				d2 := d1.clone()
				active().centreFromF32(d1.s, ld, x.s, mean.s, rows)
				centre(d2.s, ld, x.s, mean.s, rows)
				compare(t, name+": centreFromF32 of "+from.kind, d1.all, d2.all)
				wide := newGuarded(rows*n, r.IntN(8), from.fill)
				active().centre(d1.s, ld, wide.s, mean.s, rows)
				centre(d2.s, ld, wide.s, mean.s, rows)
				compare(t, name+": centre of "+from.kind, d1.all, d2.all)

				depth, ldc := r.IntN(20), TileWidth+r.IntN(3)
				a, b := newGuarded(n*ld+depth, r.IntN(8), from.fill), newGuarded(depth*TileWidth, r.IntN(8), from.fill)
				y1 := newGuarded((n+1)*ldc, r.IntN(8), func() float32 { return 1 })
				y2 := y1.clone()
				active().tileF32(y1.s, ldc, a.s, ld, b.s, depth, n, make([]byte, r.IntN(300)))
				tileF32(y2.s, ldc, a.s, ld, b.s, depth, n, nil)
				compare(t, fmt.Sprintf("%s: tileF32 of %d rows of %d of %s", name, n, depth, from.kind), y1.all, y2.all)
			}
		}
	})
}

func TestProjectAllocatesNothing(t *testing.T) {
	const dim, rows = 40, 100
	Each(func(name string) {
		x, _ := points[float32](1, rows, dim, 1)
		w, _ := points[float64](2, dim, dim, 1)
		y := make([]float32, rows*dim)
		var p Projection
		var s Scratch[float64]
		p.Pack(w, w, dim, dim)
		project := func() { Project(&p, y, &s, x, rows) }
		project()
		if a := testing.AllocsPerRun(10, project); a != 0 {
			t.Errorf("%s: %v allocations", name, a)
		}
	})
}

func TestFinite(t *testing.T) {
	bad := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}
	Each(func(name string) {
		for n := range 300 {
			v := newGuarded(n, n%8, func() float32 { return float32(math.Copysign(math.MaxFloat32, float64(n%2)-1)) })
			if !Finite(v.s) {
				t.Fatalf("%s: %d of the largest numbers are not finite", name, n)
			}
			for i := range n {
				was := v.s[i]
				v.s[i] = bad[i%len(bad)]
				if Finite(v.s) {
					t.Fatalf("%s: %v at %d of %d is finite", name, v.s[i], i, n)
				}
				v.s[i] = was
			}
		}
	})
}
