package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// norms generates the bias of a panel of points: a float64 chain of squares for each of its columns.
func (k kernel) norms() {
	k.text("norms", "func(dst, panel *float%[1]d, depth int)", "norms for one panel.")
	dst, panel, depth := Load(Param("dst"), GP64()), Load(Param("panel"), GP64()), Load(Param("depth"), GP64())
	n := 128 / k.size * 8 / k.bytes // accumulators
	half := k.c.at["half"]
	acc := func(i int) reg.VecPhysical { return k.v(i) }
	x := k.v(n)
	for i := range n {
		k.clear(acc(i))
	}
	TESTQ(depth, depth)
	JZ(LabelRef("store"))
	Label("loop")
	for i := range n {
		from := Mem{Base: panel, Disp: i * k.bytes * k.size / 8}
		if k.size == 4 {
			VCVTPS2PD(from, x)
		} else {
			VMOVUPD(from, x)
		}
		VFMADD231PD(x, x, acc(i))
	}
	ADDQ(U32(128), panel)
	DECQ(depth)
	JNZ(LabelRef("loop"))
	Label("store")
	VBROADCASTSD(half, x)
	for i := range n {
		VMULPD(x, acc(i), acc(i))
		to := Mem{Base: dst, Disp: i * k.bytes * k.size / 8}
		switch {
		case k.size == 8:
			VMOVUPD(acc(i), to)
		case k.bytes == 64:
			VCVTPD2PS(acc(i), ymm(i))
			VMOVUPS(ymm(i), to)
		default:
			VCVTPD2PSY(acc(i), xmm(i))
			VMOVUPS(xmm(i), to)
		}
	}
	k.end()
}

// transpose generates the transposition of square blocks, 8×8 float32 or 4×4 float64: a row fills an AVX register.
// Pairs of rows are interleaved, then pairs of pairs, then halves are exchanged.
func (k kernel) transpose() {
	k.text("transpose", "func(dst, src *float%[1]d, lds, blocks int)",
		"transpose for blocks next to each other in src, which become blocks below each other in a panel.")
	dst, src, blocks := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("blocks"), GP64())
	lds := k.stride("lds")
	n := 32 / k.size
	lds3, low := GP64(), GP64()
	LEAQ(Mem{Base: lds, Index: lds, Scale: 2}, lds3)
	Label("loop")
	LEAQ(Mem{Base: src, Index: lds, Scale: 4}, low)
	for r := range n {
		base := src
		if r >= 4 {
			base = low
		}
		k.load(element(base, lds, lds3, r%4), ymm(r))
	}
	out := func(c, r int) { k.load(ymm(r), Mem{Base: dst, Disp: c * 128}) }
	if k.size == 4 {
		for i := 0; i < 8; i += 2 {
			VUNPCKLPS(ymm(i+1), ymm(i), ymm(8+i))
			VUNPCKHPS(ymm(i+1), ymm(i), ymm(9+i))
		}
		for _, i := range []int{0, 4} { // ymm(i+c) is column c of rows 0–3 or 4–7, and column c+4 above it
			VSHUFPS(U8(0x44), ymm(10+i), ymm(8+i), ymm(i))
			VSHUFPS(U8(0xee), ymm(10+i), ymm(8+i), ymm(i+1))
			VSHUFPS(U8(0x44), ymm(11+i), ymm(9+i), ymm(i+2))
			VSHUFPS(U8(0xee), ymm(11+i), ymm(9+i), ymm(i+3))
		}
		for c := range 4 {
			VPERM2F128(U8(0x20), ymm(4+c), ymm(c), ymm(8+c))
			VPERM2F128(U8(0x31), ymm(4+c), ymm(c), ymm(12+c))
		}
		for c := range 8 {
			out(c, 8+c)
		}
	} else {
		for i := 0; i < 4; i += 2 {
			VUNPCKLPD(ymm(i+1), ymm(i), ymm(4+i))
			VUNPCKHPD(ymm(i+1), ymm(i), ymm(5+i))
		}
		for c := range 2 {
			VPERM2F128(U8(0x20), ymm(6+c), ymm(4+c), ymm(c))
			VPERM2F128(U8(0x31), ymm(6+c), ymm(4+c), ymm(2+c))
		}
		for c := range 4 {
			out(c, c)
		}
	}
	ADDQ(U32(n*k.size), src)
	ADDQ(U32(n*128), dst)
	DECQ(blocks)
	JNZ(LabelRef("loop"))
	k.end()
}

// centreF32 generates y = x − mean rounded to float32.
func (k kernel) centreF32() {
	k.textUntyped("centreF32", "func(dst *float32, x, mean *float%[1]d, n int)", "centreF32 for n numbers, a positive multiple of 16.")
	dst, x, mean, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("mean"), GP64()), Load(Param("n"), GP64())
	Label("loop")
	for i := range k.group() {
		to := Mem{Base: dst, Disp: i * k.bytes / 2}
		k.load(Mem{Base: x, Disp: i * k.bytes}, k.v(i))
		k.sub(Mem{Base: mean, Disp: i * k.bytes}, k.v(i), k.v(i))
		if k.bytes == 64 {
			VCVTPD2PS(k.v(i), ymm(i))
			VMOVUPS(ymm(i), to)
		} else {
			VCVTPD2PSY(k.v(i), xmm(i))
			VMOVUPS(xmm(i), to)
		}
	}
	ADDQ(U8(64), dst)
	k.step(n, "loop", x, mean)
	k.end()
}
