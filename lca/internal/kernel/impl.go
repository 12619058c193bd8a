package kernel

import "sync/atomic"

// functions are the operations of one implementation on one type. The generic functions say what each of them
// must return. An operation has one name from here down: rowMax is the generic function, rowMax32AVX512 the
// generated wrapper around the assembly rowMax32AVX512Asm.
type functions[T Float] struct {
	tile         func(c []T, ldc int, init []T, ldi int, a []T, rs, cs int, b []T, bs, depth, rows, cols int)
	rowMax       func(s []T) T
	findGE       func(s []T, v T) int
	pick         func(index []int32, value, s []T, first int32, v T) (count int)
	spmv         func(dst, panel []T, index []int32, value []T)
	scatterAdd   func(sums []T, index []int32, value []T, factor T)
	axpy         func(sums, row []T, factor T)
	meanResidual func(mean, residual, sum, q []T, factor T)
	expRow       func(s []T, max T) (sum, dot T)
	expAdd       func(s, before, sums []T, max, factor T) (sum, dot T)
	studentRow   func(s []T, max, rate, least T, power int) (sum, pulled, squares T)
	scale        func(dst, src, s []T)
	addTo        func(dst []float64, src []T)
	subFrom      func(dst []float64, src []T)
	norms        func(dst, panel []T)
	centrePanel  func(panel, x []T, ldx int, o []T, rows int)
	transpose    func(panel, src []T, lds, rows, cols int)
	clamp        func(s []T)
	distance     func(dst []float64, x []T, ld int, o []float64)
	sqDist       func(x, z []T) float64
}

// implementation is all operations in one instruction set: those of both types, and those that exist for one type.
type implementation struct {
	name string
	f32  functions[float32]
	f64  functions[float64]

	tilePrefetch  func(c []float32, ldc int, init, a []float32, rs int, b []float32, depth, rows int, next []byte) (prefetched int)
	tileF32       func(c []float32, ldc int, a []float64, rs int, b []float64, depth, rows int, next []byte) (prefetched int)
	centre        func(dst []float64, ld int, x, mean []float64, rows int)
	centreFromF32 func(dst []float64, ld int, x []float32, mean []float64, rows int)
	centreF32     func(dst []float32, x, mean []float64)
	rot           func(strip []float64, ld int, c, s []float64)
	symv          func(p, a []float64, ld int, v []float64, n int)
	subScale      func(dst, x, o []float64, s float64)
	addDiff       func(sum, x, o []float64)
	addSquares    func(sum, x, o []float64)
	fade          func(dst, x []float64, keep, s float64)
	addPair       func(m *PairMoments, x, y, o, limit []float64, most, w float64)
	maxAbs        func(x []float64) uint64
	finite        func(v []float32) bool
}

func generic() *implementation {
	i := &implementation{
		name:          "generic",
		f32:           genericFunctions[float32](),
		f64:           genericFunctions[float64](),
		tilePrefetch:  tilePrefetch,
		tileF32:       tileF32,
		centre:        centre[float64],
		centreFromF32: centre[float32],
		centreF32:     centreF32,
		rot:           rot,
		symv:          symv,
		subScale:      subScale,
		addDiff:       addDiff,
		addSquares:    addSquares,
		fade:          fade,
		addPair:       addPair,
		maxAbs:        maxAbs,
		finite:        finite,
	}
	// Go has no float32 fused multiply-add, so what multiplies and adds is written once per type, with fma32 and
	// with math.FMA.
	f, g := &i.f32, &i.f64
	f.tile, f.spmv, f.scatterAdd, f.axpy, f.expRow, f.expAdd = tile32, spmv32, scatterAdd32, axpy32, expRow32, expAdd32
	g.tile, g.spmv, g.scatterAdd, g.axpy, g.expRow, g.expAdd = tile64, spmv64, scatterAdd64, axpy64, expRow64, expAdd64
	return i
}

// genericFunctions returns the operations that one generic function defines for both types.
func genericFunctions[T Float]() functions[T] {
	return functions[T]{
		rowMax:       rowMax[T],
		findGE:       findGE[T],
		pick:         pick[T],
		meanResidual: meanResidual[T],
		studentRow:   studentRow[T],
		scale:        scale[T],
		addTo:        addTo[T],
		subFrom:      subFrom[T],
		norms:        norms[T],
		centrePanel:  centrePanel[T],
		transpose:    transpose[T],
		clamp:        clamp[T],
		distance:     distance[T],
		sqDist:       sqDist[T],
	}
}

// available lists the implementations that this processor can run, the fastest first and the generic one last.
var available = append(native(), generic())

// forced is the implementation that a test has chosen. It is nil outside of tests.
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

// Name returns the implementation in use, such as "avx512". All return the same bits; the name is for logs
// and checkpoints.
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
