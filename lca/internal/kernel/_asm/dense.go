package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// symv generates the product of eight rows of an upper triangle with a vector, both as rows and as columns, so that
// each number is loaded once. AVX-512 takes all eight rows together, AVX2 two at a time; the order of the terms is
// the same.
func (k kernel) symv() {
	k.textUntyped("symv", "func(p, a *float%[1]d, ld int, v *float%[1]d, n int)", "symv for n columns, a positive multiple of 8.")
	rows, parts := k.together()
	acc := func(r, i int) reg.VecPhysical { return k.v(r*parts + i) }
	x := func(r int) reg.VecPhysical { return k.v(rows*parts + r) }
	free := rows*parts + rows
	v, p := func(i int) reg.VecPhysical { return k.v(free + i) }, func(i int) reg.VecPhysical { return k.v(free + parts + i) }
	number := k.v(free + 2*parts)

	ld := k.stride("ld")
	ld3, first := GP64(), Load(Param("a"), GP64()).(reg.GPVirtual)
	LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, ld3)
	for from := 0; from < 8; from += rows {
		base := []reg.GPVirtual{GP64(), GP64()}[:(rows+3)/4]
		MOVQ(first, base[0])
		if len(base) > 1 {
			LEAQ(Mem{Base: first, Index: ld, Scale: 4}, base[1])
		}
		vs, ps := Load(Param("v"), GP64()), Load(Param("p"), GP64())
		for r := range rows {
			k.broadcast(Mem{Base: vs, Disp: 8 * (from + r)}, x(r))
			for i := range parts {
				k.clear(acc(r, i))
			}
		}
		group := func(columns bool) {
			for i := range parts {
				at := Mem{Base: ps, Disp: i * k.bytes}
				k.load(Mem{Base: vs, Disp: i * k.bytes}, v(i))
				if columns {
					k.load(at, p(i))
				}
				for r := range rows {
					e := element(base[r/4], ld, ld3, r%4)
					e.Disp = i * k.bytes
					k.load(e, number)
					k.fma(number, v(i), acc(r, i))
					if columns {
						k.fma(number, x(r), p(i))
					}
				}
				if columns {
					k.load(p(i), at)
				}
			}
			for _, pointer := range append(base, vs.(reg.GPVirtual), ps.(reg.GPVirtual)) {
				ADDQ(U8(64), pointer)
			}
		}
		n := Load(Param("n"), GP64())
		loop, fold := fmt.Sprintf("loop%d", from), fmt.Sprintf("fold%d", from)
		group(false)
		SUBQ(U8(8), n)
		JZ(LabelRef(fold))
		Label(loop)
		group(true)
		SUBQ(U8(8), n)
		JNZ(LabelRef(loop))
		Label(fold)
		Load(Param("p"), ps)
		for r := range rows {
			k.foldEight(acc(r, 0), acc(r, parts-1), Mem{Base: ps, Disp: 8 * (from + r)})
		}
		if from+rows < 8 {
			LEAQ(Mem{Base: first, Index: ld, Scale: uint8(rows)}, first)
		}
	}
	k.end()
}

// together returns how many rows symv takes at a time, and how many vectors make eight lanes.
func (k kernel) together() (rows, parts int) {
	if k.bytes == 64 {
		return 8, 1
	}
	return 2, 2
}

// foldEight adds up eight lanes, which are in one vector or in two, by the tree 4, 2, 1, and adds the sum to a number
// in memory.
func (k kernel) foldEight(low, high reg.VecPhysical, to Mem) {
	sum, half := ymm(14), ymm(15)
	if k.bytes == 64 {
		VEXTRACTF64X4(U8(1), low, half)
		VEXTRACTF64X4(U8(0), low, sum)
		VADDPD(half, sum, sum)
	} else {
		VADDPD(high, low, sum)
	}
	VEXTRACTF128(U8(1), sum, reg.X15)
	VADDPD(reg.X15, reg.X14, reg.X14)
	VUNPCKHPD(reg.X14, reg.X14, reg.X15)
	VADDSD(reg.X15, reg.X14, reg.X14)
	VADDSD(to, reg.X14, reg.X14)
	VMOVSD(reg.X14, to)
}

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
