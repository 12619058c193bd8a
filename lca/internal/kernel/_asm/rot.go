package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rot generates plane rotations of neighbouring rows of a strip of 32 float64, from the last
// pair up. The row that two rotations share stays in registers, so each rotation waits for one
// multiply-add of the one before.
func (k kernel) rot() {
	k.textUntyped("rot", "func(strip *float%[1]d, ld int, c, s *float%[1]d, n int)", "rot for n ≥ 1 rotations.")
	strip, c, s := Load(Param("strip"), GP64()), Load(Param("c"), GP64()), Load(Param("s"), GP64())
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	ld := k.stride("ld")
	vectors := 32 * 8 / k.bytes
	carry := func(i int) reg.VecPhysical { return k.v(i) }
	cosine, sine, g, sum := k.v(vectors), k.v(vectors+1), k.v(vectors+2), k.v(vectors+3)

	row := GP64() // row n, then upwards
	MOVQ(ld, row)
	IMULQ(n, row)
	ADDQ(strip, row)
	for i := range vectors {
		k.load(Mem{Base: row, Disp: i * k.bytes}, carry(i))
	}
	Label("loop")
	above := GP64()
	MOVQ(row, above)
	SUBQ(ld, above)
	k.broadcast(Mem{Base: c, Index: n, Scale: 8, Disp: -8}, cosine)
	k.broadcast(Mem{Base: s, Index: n, Scale: 8, Disp: -8}, sine)
	for i := range vectors {
		k.load(Mem{Base: above, Disp: i * k.bytes}, g)
		k.mul(g, sine, sum)
		k.fma(cosine, carry(i), sum)
		k.load(sum, Mem{Base: row, Disp: i * k.bytes})
		k.mul(g, cosine, g)
		VFNMADD231PD(sine, carry(i), g)
		k.load(g, carry(i))
	}
	MOVQ(above, row)
	DECQ(n)
	JNZ(LabelRef("loop"))
	for i := range vectors {
		k.load(carry(i), Mem{Base: row, Disp: i * k.bytes})
	}
	k.end()
}
