package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

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
