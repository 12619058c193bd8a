package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

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
