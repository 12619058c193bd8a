package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pick generates the list of a row. Each compressed register is stored behind the numbers of the one before, over the unused rest of that store;
// most have no number to store, and are passed.
func (k kernel) pick() {
	k.text("pick", "func(index *int32, value, s *float%[1]d, n int, first int32, v float%[1]d) int", "pick for n numbers, a positive multiple of 16, with room for n.")
	index, value := Load(Param("index"), GP64()), Load(Param("value"), GP64())
	s, n := Load(Param("s"), GP64()), Load(Param("n"), GP64())
	g := k.group()
	v, _ := Param("v").Resolve()
	k.broadcast(v.Addr, k.v(0))
	slots := []reg.VecPhysical{reg.Z1, reg.Y1}[g-1]
	kept := []reg.VecPhysical{reg.Z3, reg.Y3}[g-1]
	step := []reg.VecPhysical{reg.Z4, reg.Y4}[g-1]
	VPBROADCASTD(Load(Param("first"), GP32()), slots)
	VPADDD(k.c.at["upwards"], slots, slots)
	VPBROADCASTD(k.c.at["vector"], step)
	from, bits := GP64(), GP64()
	MOVQ(value, from)
	Label("loop")
	for i := range g {
		const greaterEqual = 13 // ordered: false for NaN
		k.load(Mem{Base: s, Disp: i * k.bytes}, k.v(2))
		k.cmp(U8(greaterEqual), k.v(0), k.v(2), reg.K1)
		KMOVW(reg.K1, bits.As32())
		TESTQ(bits, bits)
		JZ(LabelRef(fmt.Sprint("none", i)))
		if k.size == 4 {
			VCOMPRESSPS_Z(k.v(2), reg.K1, k.v(2))
		} else {
			VCOMPRESSPD_Z(k.v(2), reg.K1, k.v(2))
		}
		VPCOMPRESSD_Z(slots, reg.K1, kept)
		POPCNTQ(bits, bits)
		k.load(k.v(2), Mem{Base: value})
		VMOVDQU32(kept, Mem{Base: index})
		LEAQ(Mem{Base: value, Index: bits, Scale: uint8(k.size)}, value)
		LEAQ(Mem{Base: index, Index: bits, Scale: 4}, index)
		Label(fmt.Sprint("none", i))
		VPADDD(step, slots, slots)
	}
	k.step(n, "loop", s)
	SUBQ(from, value)
	SHRQ(U8(map[int]int{4: 2, 8: 3}[k.size]), value)
	Store(value, ReturnIndex(0))
	k.end()
}

// scatterAdd generates the addition of a sparse row, one number at a time.
func (k kernel) scatterAdd() {
	k.text("scatterAdd", "func(sums *float%[1]d, index *int32, value *float%[1]d, n int, factor float%[1]d)", "scatterAdd%[1]d for n ≥ 1 numbers.")
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

// clamp generates the bounds. MINPS(limit, v) is v < limit ? v : limit, as in the Go code; MAXPS corresponds.
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

// axpy generates the addition of a multiple of a dense row.
func (k kernel) axpy() {
	k.text("axpy", "func(sums, row *float%[1]d, n int, factor float%[1]d)", "axpy%[1]d for n numbers, a positive multiple of 16.")
	sums, row, n := Load(Param("sums"), GP64()), Load(Param("row"), GP64()), Load(Param("n"), GP64())
	factor, _ := Param("factor").Resolve()
	k.broadcast(factor.Addr, k.v(0))
	Label("loop")
	for i := range k.group() {
		at := Mem{Base: sums, Disp: i * k.bytes}
		k.load(at, k.v(1+i))
		k.fma(Mem{Base: row, Disp: i * k.bytes}, k.v(0), k.v(1+i))
		k.load(k.v(1+i), at)
	}
	k.step(n, "loop", sums, row)
	k.end()
}

// meanResidual generates a row's mean and residual.
func (k kernel) meanResidual() {
	k.text("meanResidual", "func(mean, residual, sum, q *float%[1]d, n int, factor float%[1]d)", "meanResidual for n numbers, a positive multiple of 16.")
	mean, residual := Load(Param("mean"), GP64()), Load(Param("residual"), GP64())
	sum, q, n := Load(Param("sum"), GP64()), Load(Param("q"), GP64()), Load(Param("n"), GP64())
	factor, _ := Param("factor").Resolve()
	k.broadcast(factor.Addr, k.v(0))
	Label("loop")
	for i := range k.group() {
		at := i * k.bytes
		k.mul(Mem{Base: sum, Disp: at}, k.v(0), k.v(1))
		k.load(k.v(1), Mem{Base: mean, Disp: at})
		k.load(Mem{Base: q, Disp: at}, k.v(2))
		k.sub(k.v(1), k.v(2), k.v(2))
		k.load(k.v(2), Mem{Base: residual, Disp: at})
	}
	k.step(n, "loop", mean, residual, sum, q)
	k.end()
}
