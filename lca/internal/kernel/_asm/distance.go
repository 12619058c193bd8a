package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// distance generates the partial sums of four rows at a time, so that additions overlap.
func (k kernel) distance() {
	k.text("distance", "func(sums *float64, x *float%[1]d, ldx int, o *float64, n int)",
		"the four partial sums of distance for each of four rows of n numbers, a positive multiple of 4.")
	sums, x, o, n := Load(Param("sums"), GP64()), Load(Param("x"), GP64()), Load(Param("o"), GP64()), Load(Param("n"), GP64())
	ldx, ldx3 := k.stride("ldx"), GP64()
	LEAQ(Mem{Base: ldx, Index: ldx, Scale: 2}, ldx3)
	for r := range 4 {
		VXORPD(ymm(r), ymm(r), ymm(r))
	}
	Label("loop")
	VMOVUPD(Mem{Base: o}, ymm(4))
	for r := range 4 {
		if k.size == 4 {
			VCVTPS2PD(element(x, ldx, ldx3, r), ymm(5+r))
		} else {
			VMOVUPD(element(x, ldx, ldx3, r), ymm(5+r))
		}
		VSUBPD(ymm(4), ymm(5+r), ymm(5+r))
		VFMADD231PD(ymm(5+r), ymm(5+r), ymm(r))
	}
	ADDQ(U32(32), o)
	ADDQ(U32(4*k.size), x)
	SUBQ(U8(4), n)
	JNZ(LabelRef("loop"))
	for r := range 4 {
		VMOVUPD(ymm(r), Mem{Base: sums, Disp: r * 32})
	}
	k.end()
}

// sqDist generates the four partial sums of one pair of points.
func (k kernel) sqDist() {
	k.text("sqDist", "func(sums *float64, x, z *float%[1]d, n int)", "the four partial sums of sqDist for n numbers, a positive multiple of 4.")
	sums, x, z, n := Load(Param("sums"), GP64()), Load(Param("x"), GP64()), Load(Param("z"), GP64()), Load(Param("n"), GP64())
	VXORPD(ymm(0), ymm(0), ymm(0))
	Label("loop")
	if k.size == 4 {
		VCVTPS2PD(Mem{Base: x}, ymm(1))
		VCVTPS2PD(Mem{Base: z}, ymm(2))
	} else {
		VMOVUPD(Mem{Base: x}, ymm(1))
		VMOVUPD(Mem{Base: z}, ymm(2))
	}
	VSUBPD(ymm(2), ymm(1), ymm(1))
	VFMADD231PD(ymm(1), ymm(1), ymm(0))
	ADDQ(U32(4*k.size), x)
	ADDQ(U32(4*k.size), z)
	SUBQ(U8(4), n)
	JNZ(LabelRef("loop"))
	VMOVUPD(ymm(0), Mem{Base: sums})
	k.end()
}
