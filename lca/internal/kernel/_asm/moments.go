package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// subScale generates the scaled differences of a row from a mean, for running moments.
func (k kernel) subScale() {
	k.textUntyped("subScale", "func(dst, x, o *float%[1]d, s float%[1]d, n int)", "subScale for n numbers, a positive multiple of 16.")
	dst, x, o, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("o"), GP64()), Load(Param("n"), GP64())
	s, _ := Param("s").Resolve()
	g := k.group()
	k.broadcast(s.Addr, k.v(g))
	Label("loop")
	for i := range g {
		k.load(Mem{Base: x, Disp: i * k.bytes}, k.v(i))
		k.sub(Mem{Base: o, Disp: i * k.bytes}, k.v(i), k.v(i))
		k.mul(k.v(i), k.v(g), k.v(i))
		k.load(k.v(i), Mem{Base: dst, Disp: i * k.bytes})
	}
	k.step(n, "loop", dst, x, o)
	k.end()
}

// addDifferences generates a sum of differences, or of their squares, which are rounded before they are added.
func (k kernel) addDifferences(name string, squared bool) {
	k.textUntyped(name, "func(sum, x, o *float%[1]d, n int)", name+" for n numbers, a positive multiple of 16.")
	sum, x, o, n := Load(Param("sum"), GP64()), Load(Param("x"), GP64()), Load(Param("o"), GP64()), Load(Param("n"), GP64())
	Label("loop")
	for i := range k.group() {
		k.load(Mem{Base: x, Disp: i * k.bytes}, k.v(i))
		k.sub(Mem{Base: o, Disp: i * k.bytes}, k.v(i), k.v(i))
		if squared {
			k.mul(k.v(i), k.v(i), k.v(i))
		}
		k.add(Mem{Base: sum, Disp: i * k.bytes}, k.v(i), k.v(i))
		k.load(k.v(i), Mem{Base: sum, Disp: i * k.bytes})
	}
	k.step(n, "loop", sum, x, o)
	k.end()
}

// fade generates a sum of two products, each rounded.
func (k kernel) fade() {
	k.textUntyped("fade", "func(dst, x *float%[1]d, keep, s float%[1]d, n int)", "fade for n numbers, a positive multiple of 16.")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	keep, _ := Param("keep").Resolve()
	s, _ := Param("s").Resolve()
	g := k.group()
	k.broadcast(keep.Addr, k.v(2*g))
	k.broadcast(s.Addr, k.v(2*g+1))
	Label("loop")
	for i := range g {
		at := Mem{Base: dst, Disp: i * k.bytes}
		k.mul(at, k.v(2*g), k.v(i))
		k.mul(Mem{Base: x, Disp: i * k.bytes}, k.v(2*g+1), k.v(g+i))
		k.add(k.v(g+i), k.v(i), k.v(i))
		k.load(k.v(i), at)
	}
	k.step(n, "loop", dst, x)
	k.end()
}

// centre generates y = x − mean in float64 for rows of x, which is float32 if narrow is set.
func (k kernel) centre(name string, narrow bool) {
	kind, size := "float%[1]d", k.size
	if narrow {
		kind, size = "float32", 4
	}
	k.textUntyped(name, "func(dst *float%[1]d, ld int, x *"+kind+", mean *float%[1]d, dim, n, rows int)", name+" for the first n numbers, a positive multiple of 16, of rows ≥ 1.")
	k.subtract(size, narrow)
}

// centrePanel generates y = x − o for rows of x, in the type of the kernel.
func (k kernel) centrePanel() {
	k.text("centrePanel", "func(dst *float%[1]d, ld int, x, mean *float%[1]d, dim, n, rows int)", "centrePanel for the first n numbers, a positive multiple of 16, of rows ≥ 1.")
	k.subtract(k.size, false)
}

// subtract generates the loops of centre over numbers of a size.
func (k kernel) subtract(size int, narrow bool) {
	dst, ld, x, rows := Load(Param("dst"), GP64()), k.stride("ld"), Load(Param("x"), GP64()), Load(Param("rows"), GP64())
	dim := Load(Param("dim"), GP64())
	IMUL3Q(U8(size), dim, dim)
	Label("rows")
	to, from := GP64(), GP64()
	MOVQ(dst, to)
	MOVQ(x, from)
	mean, n := Load(Param("mean"), GP64()), Load(Param("n"), GP64())
	Label("loop")
	for i := range k.group() {
		at := Mem{Base: from, Disp: i * k.bytes * size / k.size}
		if narrow {
			VCVTPS2PD(at, k.v(i))
		} else {
			k.load(at, k.v(i))
		}
		k.sub(Mem{Base: mean, Disp: i * k.bytes}, k.v(i), k.v(i))
		k.load(k.v(i), Mem{Base: to, Disp: i * k.bytes})
	}
	ADDQ(U32(16*size), from)
	k.step(n, "loop", to, mean)
	ADDQ(ld, dst)
	ADDQ(dim, x)
	DECQ(rows)
	JNZ(LabelRef("rows"))
	k.end()
}

// finite generates the sum of all numbers times zero, which is NaN if one of them is NaN or infinite.
func (k kernel) finite() {
	k.textUntyped("finite", "func(v *float%[1]d, n int) int", "0 if finite holds for n numbers, a positive multiple of 64.")
	v, n := Load(Param("v"), GP64()), Load(Param("n"), GP64())
	const sums = 8
	zero := k.v(sums)
	k.clear(zero)
	for i := range sums {
		k.clear(k.v(i))
	}
	Label("loop")
	for i := range sums {
		k.fma(Mem{Base: v, Disp: i * k.bytes}, zero, k.v(i))
	}
	ADDQ(U32(sums*k.bytes), v)
	SUBQ(U8(sums*k.bytes/k.size), n)
	JNZ(LabelRef("loop"))
	for i := 1; i < sums; i++ {
		k.add(k.v(i), k.v(0), k.v(0))
	}
	VCMPPS(U8(3), k.v(0), k.v(0), k.v(0)) // unordered: NaN
	bad := GP64()
	VMOVMSKPS(k.v(0), bad.As32())
	Store(bad, ReturnIndex(0))
	k.end()
}

// maxAbs generates the maximum of numbers as integers, without their sign bits.
func (k kernel) maxAbs() {
	k.textUntyped("maxAbs", "func(x *float%[1]d, n int) uint64", "maxAbs for n numbers, a positive multiple of 16.")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	g, unsigned := k.group(), k.v(8)
	if k.bytes == 64 {
		VPTERNLOGD(U8(0xff), unsigned, unsigned, unsigned)
	} else {
		VPCMPEQD(unsigned, unsigned, unsigned)
	}
	VPSRLQ(U8(1), unsigned, unsigned)
	for i := range g {
		k.clear(k.v(i))
	}
	Label("loop")
	for i := range g {
		from := Mem{Base: x, Disp: i * k.bytes}
		if k.bytes == 64 {
			VPANDQ(from, unsigned, k.v(9))
		} else {
			VPAND(from, unsigned, k.v(9))
		}
		k.larger(k.v(9), k.v(i), k.v(i))
	}
	k.step(n, "loop", x)
	k.reduce(k.larger)
	result := GP64()
	VMOVQ(xmm(0), result)
	Store(result, ReturnIndex(0))
	k.end()
}

// larger is the maximum of unsigned integers. AVX2 has no such instruction: it compares and blends. That is a signed
// comparison, which is enough for numbers without their sign bit.
func (k kernel) larger(o ...Op) {
	if k.bytes == 64 {
		VPMAXUQ(o[0], o[1], o[2])
		return
	}
	var is Op = ymm(7)
	if o[0].(reg.VecPhysical).Size() == 16 {
		is = xmm(7)
	}
	VPCMPGTQ(o[1], o[0], is)
	VBLENDVPD(is, o[0], o[1], o[2])
}
