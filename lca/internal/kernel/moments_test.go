package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestDistanceBits(t *testing.T) {
	specification(t, distanceBits[float32], distanceBits[float64])
}

func distanceBits[T Float](t *testing.T, got, want *functions[T], r *rand.Rand, fill func() T) {
	for cols := range 40 {
		rows, ld := r.IntN(12), cols+r.IntN(5)
		x := newGuarded(max(0, (rows-1)*ld+cols)+1, r.IntN(8), fill)
		o := newGuarded(cols+1, r.IntN(8), func() float64 { return float64(fill()) })
		d1, d2 := make([]float64, rows), make([]float64, rows)
		got.distance(d1, x.s[:len(x.s)-1], ld, o.s[:cols])
		want.distance(d2, x.s[:len(x.s)-1], ld, o.s[:cols])
		compare(t, fmt.Sprintf("distances of %d×%d", rows, cols), d1, d2)
		a, z := newGuarded(cols+1, r.IntN(8), fill), newGuarded(cols+1, r.IntN(8), fill)
		compare(t, fmt.Sprintf("distance between two points of %d", cols), []float64{got.sqDist(a.s[:cols], z.s)}, []float64{want.sqDist(a.s[:cols], z.s)})
	}
}

func TestMomentBits(t *testing.T) {
	Each(func(name string) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, from := range numbersOf[float64](r) {
			for n := range 68 {
				x, o := newGuarded(n+1, r.IntN(8), from.fill), newGuarded(n+1, r.IntN(8), from.fill)
				d1 := newGuarded(n+1, r.IntN(8), from.fill)
				d2, s := d1.clone(), from.fill()
				AddDiff(d1.s[:n], x.s, o.s)
				addDiff(d2.s[:n], x.s, o.s)
				compare(t, name+": sum of "+from.kind, d1.all, d2.all)
				SubScale(d1.s[:n], x.s, o.s, s)
				subScale(d2.s[:n], x.s, o.s, s)
				compare(t, name+": scaled "+from.kind, d1.all, d2.all)
				AddSquares(d1.s[:n], x.s, o.s)
				addSquares(d2.s[:n], x.s, o.s)
				compare(t, name+": squares of "+from.kind, d1.all, d2.all)
				Fade(d1.s[:n], o.s, s, 0.3)
				fade(d2.s[:n], o.s, s, 0.3)
				compare(t, name+": two products of "+from.kind, d1.all, d2.all)
				if got, want := MaxAbs(x.s[:n]), maxAbs(x.s[:n]); got != want {
					t.Fatalf("%s: the largest of %d, %s, is %x, want %x", name, n, from.kind, got, want)
				}
			}
		}
	})
}
