package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// studentRow generates the weights of t kernels and their three sums.
//
//	registers 0 … g−1  Σ w,  g = vectors in sixteen lanes; reduce needs registers 0 and 1
//	next g, next g     Σ w·y, Σ w²
//	then y, the power, a temporary, and the constants: those that have no register of their own are loaded at each use
func (k kernel) studentRow() {
	k.text("studentRow", "func(s *float%[1]d, n int, max, rate, least float%[1]d, power, top int) (sum, pulled, squares float%[1]d)",
		"studentRow for n logits, a positive multiple of 16. top is the second highest bit of power/2.")
	s, n := Load(Param("s"), GP64()), Load(Param("n"), GP64())
	power, top := Load(Param("power"), GP64()), Load(Param("top"), GP64())
	g := k.group()
	first := max(g, 2)
	sum := func(i int) reg.VecPhysical { return k.v(i) }
	pulled := func(i int) reg.VecPhysical { return k.v(first + i) }
	squares := func(i int) reg.VecPhysical { return k.v(first + g + i) }
	next := first + 2*g
	y, w, t := k.v(next), k.v(next+1), k.v(next+2)
	for i := range next {
		k.clear(k.v(i))
	}
	at := map[string]Mem{"one": k.c.at["one"]}
	for _, name := range []string{"max", "rate", "least"} {
		p, _ := Param(name).Resolve()
		at[name] = p.Addr
	}
	held := map[string]reg.VecPhysical{}
	for i, name := range []string{"max", "rate", "one", "least"} {
		if last := next + 3 + i; k.bytes == 64 || last < 15 { // one register is left for the other constants
			held[name] = k.v(last)
			k.broadcast(at[name], held[name])
		}
	}
	constant := func(name string) reg.VecPhysical {
		if v, ok := held[name]; ok {
			return v
		}
		k.broadcast(at[name], k.v(15))
		return k.v(15)
	}
	half, odd, bit := power, GP64(), GP64()
	MOVQ(power, odd)
	ANDQ(U8(1), odd)
	SHRQ(U8(1), half)

	Label("loop")
	for i := range g {
		from := Mem{Base: s, Disp: i * k.bytes}
		k.load(constant("max"), y)
		k.sub(from, y, y)
		k.mul(constant("rate"), y, y)
		k.add(constant("one"), y, y)
		k.div(y, constant("one"), y)
		k.load(y, w)
		MOVQ(top, bit)
		k.power(string(rune('0'+i)), y, w, t, bit, half, odd)
		k.zeroUnlessAbove(constant("least"), y, w, t)
		k.add(w, sum(i), sum(i))
		k.mul(w, w, t)
		k.add(t, squares(i), squares(i))
		k.mul(y, w, w)
		k.add(w, pulled(i), pulled(i))
		k.load(w, from)
	}
	k.step(n, "loop", s)

	for i, of := range []func(int) reg.VecPhysical{sum, pulled, squares} {
		for j := range g {
			k.load(of(j), k.v(j))
		}
		k.reduce(k.add)
		Store(xmm(0), ReturnIndex(i))
	}
	k.end()
}

// power raises w, which is y at first, to half, whose bits below the highest it reads from bit down, and multiplies it by
// the root of y where odd is set; t is a temporary. Labels end in id.
func (k kernel) power(id string, y, w, t reg.VecPhysical, bit, half, odd reg.Register) {
	Label("power" + id)
	TESTQ(bit, bit)
	JZ(LabelRef("sqrt" + id))
	k.mul(w, w, w)
	TESTQ(bit, half)
	JZ(LabelRef("square" + id))
	k.mul(y, w, w)
	Label("square" + id)
	SHRQ(U8(1), bit)
	JMP(LabelRef("power" + id))
	Label("sqrt" + id)
	TESTQ(odd, odd)
	JZ(LabelRef("even" + id))
	k.sqrt(y, t)
	k.mul(t, w, w)
	Label("even" + id)
}

// zeroUnlessAbove clears w where y is not above least, which a NaN is not, and y there too; t is a temporary.
func (k kernel) zeroUnlessAbove(least, y, w, t reg.VecPhysical) {
	const above = 14
	if k.bytes == 64 {
		k.cmp(U8(above), least, y, reg.K1)
		k.clear(t)
		k.addIntMasked(t, w, reg.K1, w)
		k.addIntMasked(t, y, reg.K1, y)
		return
	}
	k.cmp(U8(above), least, y, t)
	VANDPS(t, w, w)
	VANDPS(t, y, y)
}
