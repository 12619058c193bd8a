package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileF32 generates the product of tiles that start from zero, with contiguous rows of A and the result rounded to
// float32. Before the first step of a tile it prefetches the lines that it will write, so that they are in the cache
// at the last step. Each step prefetches a line of the next operands.
func (k kernel) tileF32(rows int) {
	const vectors = 2
	k.textUntyped(fmt.Sprintf("tileF32x%d", rows),
		"func(c *float32, ldc int, a *float%[1]d, rs int, b *float%[1]d, depth, tiles int, next *byte, step int)",
		fmt.Sprintf("tileF32 for %d·tiles rows (tiles ≥ 1) and %d columns.", rows, vectors*k.bytes/k.size))

	acc := func(r, v int) reg.VecPhysical { return k.v(r*vectors + v) }
	c, tiles, next := Load(Param("c"), GP64()), Load(Param("tiles"), GP64()), Load(Param("next"), GP64())
	ld, cs := Load(Param("ldc"), GP64()), GP64()
	SHLQ(U8(2), ld)
	MOVQ(U32(k.size), cs)
	a := k.rows(rows, false)

	Label("tiles")
	to := GP64()
	MOVQ(c, to)
	for r := range rows {
		PREFETCHT0(Mem{Base: to})
		ADDQ(ld, to)
		for v := range vectors {
			k.clear(acc(r, v))
		}
	}
	a.spread()
	b, depth := Load(Param("b"), GP64()), Load(Param("depth"), GP64())
	TESTQ(depth, depth)
	JZ(LabelRef("store"))

	Label("depth")
	k.oneStep(rows, vectors, b, a, cs)
	PREFETCHT0(Mem{Base: next})
	step, _ := Param("step").Resolve()
	ADDQ(step.Addr, next)
	ADDQ(U32(16*k.size), b)
	for _, p := range a.base {
		ADDQ(cs, p)
	}
	DECQ(depth)
	JNZ(LabelRef("depth"))

	Label("store")
	for r := range rows {
		for v := range vectors {
			at := Mem{Base: c, Disp: v * k.bytes / 2}
			if k.bytes == 64 {
				VCVTPD2PS(acc(r, v), ymm(0))
				VMOVUPS(ymm(0), at)
			} else {
				VCVTPD2PSY(acc(r, v), xmm(0))
				VMOVUPS(xmm(0), at)
			}
		}
		ADDQ(ld, c)
	}
	k.nextTile(a, rows, cs)
	DECQ(tiles)
	JNZ(LabelRef("tiles"))
	k.end()
}
