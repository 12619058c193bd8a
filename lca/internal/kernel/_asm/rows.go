package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// table holds the constants of one type in memory, one number each.
type table struct {
	at    map[string]Mem
	terms []string // the polynomial, highest power first
}

func constants(t numbers) *table {
	c := &table{at: map[string]Mem{}}
	put := func(name string, v float64) {
		full := fmt.Sprintf("%s%d", name, t.bits)
		// avo prints float constants that are whole numbers as integers, so the bits are given.
		if t.bits == 32 {
			c.at[name] = ConstData(full, U32(math.Float32bits(float32(v))))
		} else {
			c.at[name] = ConstData(full, U64(math.Float64bits(v)))
		}
	}
	put("inf", math.Inf(-1))
	put("far", 1e15)
	put("one", 1)
	put("minusFar", -1e15)
	put("log2e", math.Log2E)
	c.at["half"] = ConstData(fmt.Sprintf("half%d", t.bits), U64(math.Float64bits(-0.5)))
	c.at["vector"] = ConstData(fmt.Sprintf("vector%d", t.bits), U32(64/t.size))
	c.at["upwards"] = GLOBL(fmt.Sprintf("upwards%d", t.bits), RODATA|NOPTR)
	for i := range 64 / t.size {
		DATA(4*i, U32(i))
	}
	degree := 13
	if t.bits == 32 {
		degree = 7
		put("cut", -67)
		put("low", -68)
		put("magic", 1.5*(1<<23))
		put("high", -0.693359375)
		put("rest", 2.12194440054690583e-4)
	} else {
		put("cut", -688)
		put("low", -689)
		put("magic", 1.5*(1<<52))
		put("high", -6.93147180369123816490e-01)
		put("rest", -1.90821492927058770002e-10)
	}
	f, terms := 1.0, make([]string, degree+1)
	for i := range degree + 1 {
		terms[degree-i] = fmt.Sprintf("term%d_", i)
		put(terms[degree-i], 1/f)
		f *= float64(i + 1)
	}
	c.terms = terms
	return c
}

// text begins an assembly function. Its name is the operation, the bits of its type and the instruction set:
// amd64.RowMax32AVX512 is called by the wrapper rowMax32AVX512 and computes what the generic rowMax does.
func (k kernel) text(op, signature, doc string) {
	k.begin(fmt.Sprintf("%s%d%s", op, k.bits, k.name), signature, doc)
}

// textUntyped is text for an operation that exists for one type only, so that its name has no bits.
func (k kernel) textUntyped(op, signature, doc string) { k.begin(op+k.name, signature, doc) }

func (k kernel) begin(name, signature, doc string) {
	name = strings.ToUpper(name[:1]) + name[1:]
	TEXT(name, NOSPLIT, strings.ReplaceAll(signature, "%[1]d", fmt.Sprint(k.bits)))
	Pragma("noescape")
	Doc(name + " is " + strings.ReplaceAll(doc, "%[1]d", fmt.Sprint(k.bits)))
}

// group returns the number of vectors in sixteen lanes.
func (k kernel) group() int { return 16 * k.size / k.bytes }

// step advances the pointers by sixteen numbers and jumps to label while n is not zero.
func (k kernel) step(n reg.Register, label string, pointers ...reg.Register) {
	for _, p := range pointers {
		ADDQ(U32(16*k.size), p)
	}
	SUBQ(U8(16), n)
	JNZ(LabelRef(label))
}

// rowMax generates the maximum. MAXPS(x, m) is x > m ? x : m, as in the Go code.
func (k kernel) rowMax() {
	k.text("rowMax", "func(s *float%[1]d, n int) float%[1]d", "rowMax for n numbers, a positive multiple of 16.")
	s, n := Load(Param("s"), GP64()), Load(Param("n"), GP64())
	g := k.group()
	sets := min(4, 8/g) // independent maxima, so that they overlap
	for i := range sets * g {
		k.broadcast(k.c.at["inf"], k.v(i))
	}
	next := func(sets int) {
		for i := range sets * g {
			k.load(Mem{Base: s, Disp: i * k.bytes}, k.v(8+i%8))
			k.max(k.v(i), k.v(8+i%8), k.v(i))
		}
		ADDQ(U32(sets*16*k.size), s)
		SUBQ(U8(sets*16), n)
	}
	SUBQ(U8(sets*16), n)
	JL(LabelRef("rest"))
	Label("loop")
	next(sets)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(U8(sets*16), n)
	JZ(LabelRef("done"))
	Label("one")
	next(1)
	JNZ(LabelRef("one"))
	Label("done")
	for i := g; i < sets*g; i++ {
		k.max(k.v(i%g), k.v(i), k.v(i%g))
	}
	k.reduce(k.max)
	Store(xmm(0), ReturnIndex(0))
	k.end()
}

// findGE generates the search. First it takes up to 64 numbers at a time and compares their maximum, until that may
// reach v; then sixteen at a time, with a bit for each that is at least v. NaN only ends the first part early.
func (k kernel) findGE() {
	k.text("findGE", "func(s *float%[1]d, n int, v float%[1]d) int", "findGE for n numbers, a positive multiple of 16.")
	s, n := Load(Param("s"), GP64()).(reg.GPVirtual), Load(Param("n"), GP64())
	v, _ := Param("v").Resolve()
	k.broadcast(v.Addr, k.v(0))
	at, bits := GP64(), GP64()
	XORQ(at, at)
	sets := min(4, 8/k.group())
	SUBQ(U8(sets*16), n)
	JL(LabelRef("rest"))
	Label("fast")
	k.mayReach(sets*k.group(), s, bits)
	TESTQ(bits, bits)
	JNZ(LabelRef("rest"))
	ADDQ(U8(sets*16), at)
	ADDQ(U32(sets*16*k.size), s)
	SUBQ(U8(sets*16), n)
	JGE(LabelRef("fast"))
	Label("rest")
	ADDQ(U8(sets*16), n)
	JZ(LabelRef("none"))
	Label("loop")
	k.atLeast(s, bits)
	TESTQ(bits, bits)
	JNZ(LabelRef("found"))
	ADDQ(U8(16), at)
	k.step(n, "loop", s)
	Label("none")
	Store(at, ReturnIndex(0))
	k.end()
	Label("found")
	BSFQ(bits, bits)
	ADDQ(bits, at)
	Store(at, ReturnIndex(0))
	k.end()
}

// mayReach sets bits if the maximum of some vectors at s is not below register 0, or is NaN.
func (k kernel) mayReach(vectors int, s, bits reg.GPVirtual) {
	const notLess = 5 // true for NaN
	for i := range vectors {
		k.load(Mem{Base: s, Disp: i * k.bytes}, k.v(1+i))
	}
	for h := vectors / 2; h > 0; h /= 2 {
		for i := range h {
			k.max(k.v(1+i), k.v(1+i+h), k.v(1+i))
		}
	}
	if k.bytes == 64 {
		k.cmp(U8(notLess), k.v(0), k.v(1), reg.K1)
		KMOVW(reg.K1, bits.As32())
		return
	}
	k.cmp(U8(notLess), k.v(0), k.v(1), k.v(1))
	if k.size == 4 {
		VMOVMSKPS(k.v(1), bits.As32())
	} else {
		VMOVMSKPD(k.v(1), bits.As32())
	}
}

// markGE generates a bit for each number that is at least v, and their count. AVX2 has no compressing store for pick.
func (k kernel) markGE() {
	k.text("markGE", "func(marks *uint16, s *float%[1]d, n int, v float%[1]d) int", "markGE for n numbers, a positive multiple of 16.")
	marks := Load(Param("marks"), GP64())
	s, n := Load(Param("s"), GP64()).(reg.GPVirtual), Load(Param("n"), GP64())
	v, _ := Param("v").Resolve()
	k.broadcast(v.Addr, k.v(0))
	count, bits := GP64(), GP64()
	XORQ(count, count)
	Label("loop")
	k.atLeast(s, bits)
	MOVW(bits.As16(), Mem{Base: marks})
	ADDQ(U8(2), marks)
	POPCNTQ(bits, bits)
	ADDQ(bits, count)
	k.step(n, "loop", s)
	Store(count, ReturnIndex(0))
	k.end()
}

// spmv generates the weighted sum of rows of a panel.
func (k kernel) spmv() {
	k.text("spmv", "func(dst, panel *float%[1]d, index *int32, value *float%[1]d, n int)", "spmv%[1]d for n ≥ 0 rows.")
	dst, panel, index := Load(Param("dst"), GP64()), Load(Param("panel"), GP64()), Load(Param("index"), GP64())
	value, n := Load(Param("value"), GP64()), Load(Param("n"), GP64())
	vectors := 128 / k.bytes
	for i := range vectors {
		k.clear(k.v(i))
	}
	TESTQ(n, n)
	JZ(LabelRef("store"))
	Label("loop")
	row := GP64()
	MOVLQSX(Mem{Base: index}, row)
	SHLQ(U8(7), row)
	k.broadcast(Mem{Base: value}, k.v(vectors))
	for i := range vectors {
		k.fma(Mem{Base: panel, Index: row, Scale: 1, Disp: i * k.bytes}, k.v(vectors), k.v(i))
	}
	ADDQ(U8(4), index)
	ADDQ(U8(k.size), value)
	DECQ(n)
	JNZ(LabelRef("loop"))
	Label("store")
	for i := range vectors {
		k.load(k.v(i), Mem{Base: dst, Disp: i * k.bytes})
	}
	k.end()
}

// atLeast sets a bit for each of sixteen numbers at s that is at least register 0.
func (k kernel) atLeast(s, bits reg.GPVirtual) {
	const greaterEqual = 13 // ordered: false for NaN
	g, part := k.group(), GP64()
	for i := range g {
		m := Mem{Base: s, Disp: i * k.bytes}
		k.load(m, k.v(1+i))
		to := bits
		if i > 0 {
			to = part
		}
		if k.bytes == 64 {
			k.cmp(U8(greaterEqual), k.v(0), k.v(1+i), reg.K1)
			KMOVW(reg.K1, to.As32())
		} else {
			k.cmp(U8(greaterEqual), k.v(0), k.v(1+i), k.v(1+i))
			if k.size == 4 {
				VMOVMSKPS(k.v(1+i), to.As32())
			} else {
				VMOVMSKPD(k.v(1+i), to.As32())
			}
		}
		if i > 0 {
			SHLQ(U8(i*k.bytes/k.size), part)
			ORQ(part, bits)
		}
	}
}

// scale generates the multiplication of each row of a panel by a number.
func (k kernel) scale() {
	k.text("scale", "func(dst, src, s *float%[1]d, n int)", "scale for n ≥ 1 rows.")
	dst, src, s, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("s"), GP64()), Load(Param("n"), GP64())
	Label("loop")
	k.broadcast(Mem{Base: s}, k.v(0))
	for i := range 128 / k.bytes {
		k.mul(Mem{Base: src, Disp: i * k.bytes}, k.v(0), k.v(1+i))
		k.load(k.v(1+i), Mem{Base: dst, Disp: i * k.bytes})
	}
	ADDQ(U8(k.size), s)
	ADDQ(U32(128), src)
	ADDQ(U32(128), dst)
	DECQ(n)
	JNZ(LabelRef("loop"))
	k.end()
}

// fold generates the addition of numbers to float64 sums, or their subtraction.
func (k kernel) fold(name string, op func(...Op)) {
	k.text(name, "func(dst *float64, src *float%[1]d, n int)", name+" for n numbers, a positive multiple of 16.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	Label("loop")
	for i := range 128 / k.bytes { // sixteen float64
		from := Mem{Base: src, Disp: i * k.bytes * k.size / 8}
		if k.size == 4 {
			VCVTPS2PD(from, k.v(i))
		} else {
			VMOVUPD(from, k.v(i))
		}
		to := Mem{Base: dst, Disp: i * k.bytes}
		VMOVUPD(to, k.v(8+i))
		op(k.v(i), k.v(8+i), k.v(8+i))
		VMOVUPD(k.v(8+i), to)
	}
	ADDQ(U32(128), dst)
	ADDQ(U32(16*k.size), src)
	SUBQ(U8(16), n)
	JNZ(LabelRef("loop"))
	k.end()
}
