package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

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
