package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// widen generates y = x − mean for a float32 x, in float64.
func (k kernel) widen() {
	k.text("widen", "func(dst *float%[1]d, x *float32, mean *float%[1]d, n int)", "widen for n numbers, a positive multiple of 16.")
	dst, x, mean, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("mean"), GP64()), Load(Param("n"), GP64())
	Label("loop")
	for i := range k.group() {
		VCVTPS2PD(Mem{Base: x, Disp: i * k.bytes / 2}, k.v(i))
		k.sub(Mem{Base: mean, Disp: i * k.bytes}, k.v(i), k.v(i))
		k.load(k.v(i), Mem{Base: dst, Disp: i * k.bytes})
	}
	ADDQ(U8(16*4), x)
	k.step(n, "loop", dst, mean)
	k.end()
}
