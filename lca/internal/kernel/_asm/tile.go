package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile generates the product of a number of tiles, each of the given rows. It has two vectors of columns, or one if
// half is set.
//
// A tile's accumulators stay in registers over the whole depth. Rows of A are addressed from a few base registers,
// by the index registers rs, 3·rs and 5·rs.
func (k kernel) tile(rows int, half bool) {
	vectors := 2
	if half {
		vectors = 1
	}
	k.begin(k.tileName(rows, half),
		"func(c *float%[1]d, ldc int, start *float%[1]d, lds int, a *float%[1]d, rs, cs int, b *float%[1]d, bs, depth, tiles int, next *float64, step int)",
		fmt.Sprintf("tile%d for %d·tiles rows (tiles ≥ 1) and %d columns.", k.bits, rows, vectors*k.bytes/k.size))

	acc := func(r, v int) reg.VecPhysical { return k.v(r*vectors + v) }
	c, start := Load(Param("c"), GP64()), Load(Param("start"), GP64())
	cs, bs := k.stride("cs"), k.stride("bs")
	tiles := Load(Param("tiles"), GP64())
	a := k.rows(rows, half)
	prefetches, next := rows == tallest && !half, GP64() // of one line of next per step
	if prefetches {
		Load(Param("next"), next)
	}

	Label("tiles")
	ld := k.stride("lds")
	for r := range rows {
		for v := range vectors {
			k.load(Mem{Base: start, Disp: v * k.bytes}, acc(r, v))
		}
		ADDQ(ld, start)
	}
	a.spread()
	b, depth := Load(Param("b"), GP64()), Load(Param("depth"), GP64())
	TESTQ(depth, depth)
	JZ(LabelRef("store"))

	Label("depth")
	if half {
		k.narrowStep(rows, b, a)
	} else {
		k.oneStep(rows, vectors, b, a, cs)
	}
	if prefetches {
		PREFETCHT1(Mem{Base: next})
		step, _ := Param("step").Resolve()
		ADDQ(step.Addr, next)
	}
	ADDQ(bs, b)
	for _, p := range a.base {
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
	k.nextTile(a, rows, cs)
	DECQ(tiles)
	JNZ(LabelRef("tiles"))
	k.end()
}

// tileName is the name of a tile: Tile32x14AVX512, or Tile32x28HalfAVX512 for half a panel.
func (k kernel) tileName(rows int, half bool) string {
	suffix := k.name
	if half {
		suffix = "Half" + suffix
	}
	return fmt.Sprintf("Tile%dx%d%s", k.bits, rows, suffix)
}

// nextTile moves the base of A back to the first column, and down to the next tile.
func (k kernel) nextTile(a *rowsOfA, rows int, cs reg.Register) {
	back, down := Load(Param("depth"), GP64()), GP64()
	IMULQ(cs, back)
	SUBQ(back, a.base[0])
	IMUL3Q(I32(rows), a.rs, down)
	ADDQ(down, a.base[0])
}

// rowsOfA addresses the rows of A, five or seven of them from each base register.
type rowsOfA struct {
	base         []reg.GPVirtual
	rs, rs3, rs5 reg.Register
	each         int
}

func (k kernel) rows(rows int, half bool) *rowsOfA {
	a := &rowsOfA{rs: k.stride("rs"), each: 5}
	if half {
		a.each = 7
		a.rs5 = a.times(4, rows > 5)
	}
	a.rs3 = a.times(2, rows > 3)
	for range (rows + a.each - 1) / a.each {
		a.base = append(a.base, GP64())
	}
	Load(Param("a"), a.base[0])
	return a
}

// times returns a register, which holds (1+scale)·rs if needed.
func (a *rowsOfA) times(scale uint8, needed bool) reg.Register {
	r := GP64()
	if needed {
		LEAQ(Mem{Base: a.rs, Index: a.rs, Scale: scale}, r)
	}
	return r
}

// spread computes the other bases from the first.
func (a *rowsOfA) spread() {
	for i := 1; i < len(a.base); i++ {
		if a.each == 5 {
			LEAQ(Mem{Base: a.base[i-1], Index: a.rs, Scale: 4}, a.base[i])
			ADDQ(a.rs, a.base[i])
		} else {
			LEAQ(Mem{Base: a.base[i-1], Index: a.rs3, Scale: 2}, a.base[i])
			ADDQ(a.rs, a.base[i])
		}
	}
}

// at returns the address of the element of A in row r.
func (a *rowsOfA) at(r int) Mem {
	base := a.base[r/a.each]
	switch r %= a.each; r {
	case 5:
		return Mem{Base: base, Index: a.rs5, Scale: 1}
	case 6:
		return Mem{Base: base, Index: a.rs3, Scale: 2}
	default:
		return element(base, a.rs, a.rs3, r)
	}
}

// narrowStep is oneStep for half a panel. There an element of A is used by one multiply-add only, which loads it
// itself.
func (k kernel) narrowStep(rows int, b reg.Register, a *rowsOfA) {
	fma := VFMADD231PS_BCST
	if k.size == 8 {
		fma = VFMADD231PD_BCST
	}
	k.load(Mem{Base: b}, k.v(rows))
	for r := range rows {
		fma(a.at(r), k.v(rows), k.v(r))
	}
}

// oneStep generates one step of all chains: a row of B times an element of A for each row of the tile. The elements
// are broadcast to two registers in turn.
func (k kernel) oneStep(rows, vectors int, b reg.Register, a *rowsOfA, cs reg.Register) {
	bv := func(v int) reg.VecPhysical { return k.v(rows*vectors + v) }
	spare := func(r int) reg.VecPhysical { return k.v(rows*vectors + vectors + r%2) }
	for v := range vectors {
		k.load(Mem{Base: b, Disp: v * k.bytes}, bv(v))
		if rows >= 8 { // B is often in the L3 cache: prefetch it 40 steps ahead, more than a page
			PREFETCHT0(Mem{Base: b, Disp: 40*128 + v*k.bytes})
		}
	}
	if rows >= 8 { // the next columns of A
		for _, r := range []int{0, 2}[:(rows+4)/5-1] {
			PREFETCHT0(Mem{Base: a.base[r], Index: cs, Scale: 8})
		}
	}
	for r := range rows {
		k.broadcast(a.at(r), spare(r))
		for v := range vectors {
			k.fma(bv(v), spare(r), k.v(r*vectors+v))
		}
	}
}

// element returns the address of row r < 5 from base on.
func element(base, rs, rs3 reg.Register, r int) Mem {
	switch r {
	case 0:
		return Mem{Base: base}
	case 3:
		return Mem{Base: base, Index: rs3, Scale: 1}
	}
	return Mem{Base: base, Index: rs, Scale: uint8(r)}
}

// stride loads a parameter that counts numbers, and converts it to bytes.
func (k kernel) stride(name string) reg.Register {
	r := Load(Param(name), GP64())
	SHLQ(U8(map[int]int{4: 2, 8: 3}[k.size]), r)
	return r
}

// end returns. It clears the upper halves of the registers first, because they would slow down SSE code.
func (k kernel) end() {
	VZEROUPPER()
	RET()
}

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
