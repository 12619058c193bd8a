package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// centre generates y = x − mean in float64 for rows of x, which is float32 if narrow is set.
func (k kernel) centre(name string, narrow bool) {
	kind, size := "float%[1]d", k.size
	if narrow {
		kind, size = "float32", 4
	}
	k.textUntyped(name, "func(dst *float%[1]d, ld int, x *"+kind+", mean *float%[1]d, dim, n, rows int)", name+" for the first n numbers, a positive multiple of 16, of rows ≥ 1.")
	k.subtract(size, narrow)
}

// centrePanel generates y = x − o for rows of x, in the type of the kernel.
func (k kernel) centrePanel() {
	k.text("centrePanel", "func(dst *float%[1]d, ld int, x, mean *float%[1]d, dim, n, rows int)", "centrePanel for the first n numbers, a positive multiple of 16, of rows ≥ 1.")
	k.subtract(k.size, false)
}

// subtract generates the loops of centre over numbers of a size.
func (k kernel) subtract(size int, narrow bool) {
	dst, ld, x, rows := Load(Param("dst"), GP64()), k.stride("ld"), Load(Param("x"), GP64()), Load(Param("rows"), GP64())
	dim := Load(Param("dim"), GP64())
	IMUL3Q(U8(size), dim, dim)
	Label("rows")
	to, from := GP64(), GP64()
	MOVQ(dst, to)
	MOVQ(x, from)
	mean, n := Load(Param("mean"), GP64()), Load(Param("n"), GP64())
	Label("loop")
	for i := range k.group() {
		at := Mem{Base: from, Disp: i * k.bytes * size / k.size}
		if narrow {
			VCVTPS2PD(at, k.v(i))
		} else {
			k.load(at, k.v(i))
		}
		k.sub(Mem{Base: mean, Disp: i * k.bytes}, k.v(i), k.v(i))
		k.load(k.v(i), Mem{Base: to, Disp: i * k.bytes})
	}
	ADDQ(U32(16*size), from)
	k.step(n, "loop", to, mean)
	ADDQ(ld, dst)
	ADDQ(dim, x)
	DECQ(rows)
	JNZ(LabelRef("rows"))
	k.end()
}
