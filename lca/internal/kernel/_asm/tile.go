package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile generates the product of a number of tiles, each rows high and vectors wide.
//
// A tile's accumulators stay in registers over the whole depth. Row r of A is reached from three
// bases, five rows apart, by the index registers rs and 3·rs; two registers take the broadcast
// elements of A in turn.
func (k kernel) tile(rows, vectors int) {
	name := fmt.Sprintf("tile%dx%d%s", k.bits, rows, k.name)
	if vectors == 1 {
		name += "Half"
	}
	TEXT(name, NOSPLIT, fmt.Sprintf("func(c *float%[1]d, ldc int, start *float%[1]d, lds int, a *float%[1]d, rs, cs int, b *float%[1]d, bs, depth, tiles int)", k.bits))
	Pragma("noescape")
	Doc(fmt.Sprintf("%s is tile%d for %d·tiles rows (tiles ≥ 1) and %d columns.", name, k.bits, rows, vectors*k.bytes/k.size))

	acc := func(r, v int) reg.VecPhysical { return k.v(r*vectors + v) }
	c, start := Load(Param("c"), GP64()), Load(Param("start"), GP64())
	rs, cs, bs := k.stride("rs"), k.stride("cs"), k.stride("bs")
	tiles := Load(Param("tiles"), GP64())
	rs3 := GP64()
	if rows > 3 {
		LEAQ(Mem{Base: rs, Index: rs, Scale: 2}, rs3)
	}
	base := []reg.GPVirtual{GP64(), GP64(), GP64()}[:(rows+4)/5]
	Load(Param("a"), base[0])

	Label("tiles")
	ld := k.stride("lds")
	for r := range rows {
		for v := range vectors {
			k.load(Mem{Base: start, Disp: v * k.bytes}, acc(r, v))
		}
		ADDQ(ld, start)
	}
	for i := 1; i < len(base); i++ {
		LEAQ(Mem{Base: base[i-1], Index: rs, Scale: 4}, base[i])
		ADDQ(rs, base[i])
	}
	b, depth := Load(Param("b"), GP64()), Load(Param("depth"), GP64())
	TESTQ(depth, depth)
	JZ(LabelRef("store"))

	Label("depth")
	k.oneStep(rows, vectors, b, base, rs, rs3, cs)
	ADDQ(bs, b)
	for _, p := range base {
		ADDQ(cs, p)
	}
	DECQ(depth)
	JNZ(LabelRef("depth"))

	Label("store")
	ld = k.stride("ldc")
	for r := range rows {
		for v := range vectors {
			k.load(acc(r, v), Mem{Base: c, Disp: v * k.bytes})
		}
		ADDQ(ld, c)
	}
	// Back to the first column of A, and down to the next tile.
	back := Load(Param("depth"), GP64())
	IMULQ(cs, back)
	SUBQ(back, base[0])
	down := GP64()
	IMUL3Q(I32(rows), rs, down)
	ADDQ(down, base[0])
	DECQ(tiles)
	JNZ(LabelRef("tiles"))
	k.end()
}

// oneStep generates one step of the chains: a row of B, and for each row of the tile its element of A.
func (k kernel) oneStep(rows, vectors int, b reg.Register, base []reg.GPVirtual, rs, rs3, cs reg.Register) {
	bv := func(v int) reg.VecPhysical { return k.v(rows*vectors + v) }
	spare := func(r int) reg.VecPhysical { return k.v(rows*vectors + vectors + r%2) }
	for v := range vectors {
		k.load(Mem{Base: b, Disp: v * k.bytes}, bv(v))
		if rows >= 8 { // B often comes from the L3 cache: ask for it 40 steps, more than a page, ahead
			PREFETCHT0(Mem{Base: b, Disp: 40*128 + v*k.bytes})
		}
	}
	if rows >= 8 { // A's columns
		for _, r := range []int{0, 2}[:(rows+4)/5-1] {
			PREFETCHT0(Mem{Base: base[r], Index: cs, Scale: 8})
		}
	}
	for r := range rows {
		k.broadcast(element(base[r/5], rs, rs3, r%5), spare(r))
		for v := range vectors {
			k.fma(bv(v), spare(r), k.v(r*vectors+v))
		}
	}
}

// element is row r < 5 below base.
func element(base, rs, rs3 reg.Register, r int) Mem {
	switch r {
	case 0:
		return Mem{Base: base}
	case 3:
		return Mem{Base: base, Index: rs3, Scale: 1}
	}
	return Mem{Base: base, Index: rs, Scale: uint8(r)}
}

// stride loads a parameter counted in numbers, in bytes.
func (k kernel) stride(name string) reg.Register {
	r := Load(Param(name), GP64())
	SHLQ(U8(map[int]int{4: 2, 8: 3}[k.size]), r)
	return r
}

// end returns; the upper halves are cleared so that SSE code that follows is not slowed.
func (k kernel) end() {
	VZEROUPPER()
	RET()
}
