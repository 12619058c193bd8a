package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// scatter generates the addition of a sparse row, number by number.
func (k kernel) scatter() {
	k.text("scatter", "func(sums *float%[1]d, index *int32, value *float%[1]d, n int, factor float%[1]d)", "scatter%[1]d for n ≥ 1 numbers.")
	sums, index := Load(Param("sums"), GP64()), Load(Param("index"), GP64())
	value, n := Load(Param("value"), GP64()), Load(Param("n"), GP64())
	factor, _ := Param("factor").Resolve()
	move, fma := VMOVSS, VFMADD213SS
	if k.size == 8 {
		move, fma = VMOVSD, VFMADD213SD
	}
	move(factor.Addr, xmm(0))
	Label("loop")
	slot := GP64()
	MOVLQSX(Mem{Base: index}, slot)
	at := Mem{Base: sums, Index: slot, Scale: uint8(k.size)}
	move(Mem{Base: value}, xmm(1))
	fma(at, xmm(0), xmm(1))
	move(xmm(1), at)
	ADDQ(U8(4), index)
	ADDQ(U8(k.size), value)
	DECQ(n)
	JNZ(LabelRef("loop"))
	k.end()
}

// clamp generates the bounds. MINPS(limit, v) is v < limit ? v : limit, as the Go code has it, and MAXPS likewise.
func (k kernel) clamp() {
	k.text("clamp", "func(s *float%[1]d, n int)", "clamp for n numbers, a positive multiple of 16.")
	s, n := Load(Param("s"), GP64()), Load(Param("n"), GP64())
	g := k.group()
	k.broadcast(k.c.at["far"], k.v(g))
	k.broadcast(k.c.at["minusFar"], k.v(g+1))
	Label("loop")
	for i := range g {
		at := Mem{Base: s, Disp: i * k.bytes}
		k.load(at, k.v(i))
		k.min(k.v(g), k.v(i), k.v(i))
		k.max(k.v(g+1), k.v(i), k.v(i))
		k.load(k.v(i), at)
	}
	k.step(n, "loop", s)
	k.end()
}
