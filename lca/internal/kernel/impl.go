package kernel

import "sync/atomic"

// functions are the hot loops of one implementation; the generic ones define what all must return.
type functions[T Float] struct {
	tile      func(c []T, ldc int, init []T, ldi int, a []T, rs, cs int, b []T, bs, depth, rows, cols int)
	rowMax    func(s []T) T
	findGE    func(s []T, v T) int
	pick      func(index []int32, value, s []T, first int32, v T) (count int)
	gather    func(dst, panel []T, index []int32, value []T)
	scatter   func(sums []T, index []int32, value []T, factor T)
	addScaled func(sums, row []T, factor T)
	finish    func(mean, residual, sum, q []T, factor T)
	expRow    func(s []T, max T) (sum, dot T)
	expAdd    func(s, before, sums []T, max, factor T) (sum, dot T)
	scale     func(dst, src, s []T)
	addTo     func(dst []float64, src []T)
	subFrom   func(dst []float64, src []T)
	norms     func(dst, panel []T)
	transpose func(panel, src []T, lds, rows, cols int)
	clamp     func(s []T)
	distance  func(dst []float64, x []T, ld int, o []float64)
	between   func(x, z []T) float64
}

// implementation is one set of hot loops.
type implementation struct {
	name string
	f32  functions[float32]
	f64  functions[float64]

	rotate    func(strip []float64, ld int, c, s []float64)
	symmetric func(p, a []float64, ld int, v []float64, n int)
	shift     func(dst []float64, ld int, x, mean []float64, rows int)
	widen     func(dst []float64, ld int, x []float32, mean []float64, rows int)
	asking    func(c []float32, ldc int, init, a []float32, rs int, b []float32, depth, rows int, next []byte) (asked int)
	singles   func(dst []float32, x, mean []float64)
	rounded   func(c []float32, ldc int, a []float64, rs int, b []float64, depth, rows int, next []byte) (asked int)
	finite    func(v []float32) bool
	scaled    func(dst, x, o []float64, s float64)
	addFrom   func(sum, x, o []float64)
	largest   func(x []float64) uint64
}

func generic() *implementation {
	return &implementation{
		name: "generic", asking: asking32, rotate: rotate, symmetric: symmetric, shift: shift[float64], widen: shift[float32], singles: shiftRound, rounded: rounded, finite: finite, scaled: scaled, addFrom: addFrom, largest: largest,
		f32: functions[float32]{tile32, rowMax[float32], findGE[float32], pick[float32], gather32, scatter32, addScaled32, finish[float32], expRow32, expAdd32, scaleRows[float32], addTo[float32], subFrom[float32], norms[float32], transpose[float32], clamp[float32], distance[float32], between[float32]},
		f64: functions[float64]{tile64, rowMax[float64], findGE[float64], pick[float64], gather64, scatter64, addScaled64, finish[float64], expRow64, expAdd64, scaleRows[float64], addTo[float64], subFrom[float64], norms[float64], transpose[float64], clamp[float64], distance[float64], between[float64]},
	}
}

// available lists what this processor can run, the fastest first, generic last.
var available = append(native(), generic())

// forced is the implementation that a test asks for, nil outside of tests.
var forced atomic.Pointer[implementation]

func active() *implementation {
	if f := forced.Load(); f != nil {
		return f
	}
	return available[0]
}

func functionsOf[T Float]() *functions[T] {
	i := active()
	if f, ok := any(&i.f32).(*functions[T]); ok {
		return f
	}
	return any(&i.f64).(*functions[T])
}

// Name returns the implementation in use, such as "avx512". All return the same bits; the name is
// for logs and checkpoints.
func Name() string { return active().name }

// Each calls f once for every implementation that this processor has, with that one in use. It is
// for tests: results must not depend on the implementation.
func Each(f func(name string)) {
	defer forced.Store(forced.Load())
	for _, i := range available {
		forced.Store(i)
		f(i.name)
	}
}
