package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// expRow generates the softmax's exponentials and their two sums.
//
//	registers 0 … g−1  Σ w,  g = vectors in sixteen lanes; reduce needs registers 0 and 1
//	next g             Σ w·t
//	then the exponential's, and as many constants as there is room for
//
// The second form also does axpy for the row before, whose loads and stores use ports that exp leaves free.
// Both prefetch what follows these logits, usually the next row.
func (k kernel) expRow(adds bool) {
	if adds {
		k.text("expAdd", "func(s, before, sums *float%[1]d, n int, max, factor float%[1]d) (sum, dot float%[1]d)", "expAdd for n logits, a positive multiple of 16.")
	} else {
		k.text("expRow", "func(s *float%[1]d, n int, max float%[1]d) (sum, dot float%[1]d)", "expRow for n logits, a positive multiple of 16.")
	}
	s, n := Load(Param("s"), GP64()), Load(Param("n"), GP64())
	g := k.group()
	sum := func(i int) reg.VecPhysical { return k.v(i) }
	first := max(g, 2)
	dot := func(i int) reg.VecPhysical { return k.v(first + i) }
	e := k.newExp(first + g)
	for i := range g {
		k.clear(sum(i))
		k.clear(dot(i))
	}
	limit, _ := Param("max").Resolve()
	k.broadcast(limit.Addr, e.max)
	also, pointers := func(int) {}, []reg.Register{s}
	if adds {
		also, pointers = k.axpyStep(s)
	}
	behind := GP64()
	MOVQ(n, behind)
	SHLQ(U8(map[int]int{4: 2, 8: 3}[k.size]), behind)

	Label("loop")
	for i := range g {
		PREFETCHT0(Mem{Base: s, Index: behind, Scale: 1, Disp: i * k.bytes})
		at := Mem{Base: s, Disp: i * k.bytes}
		w := e.weight(at)
		k.add(w, sum(i), sum(i))
		if k.bytes == 64 { // t may be −Inf or NaN
			k.fmaMasked(w, e.t, reg.K1, dot(i))
		} else {
			k.fma(w, e.t, dot(i))
		}
		k.load(w, at)
		also(i)
	}
	k.step(n, "loop", pointers...)

	k.reduce(k.add)
	Store(xmm(0), ReturnIndex(0))
	for i := range g {
		k.load(dot(i), k.v(i))
	}
	k.reduce(k.add)
	Store(xmm(0), ReturnIndex(1))
	k.end()
}

// axpyStep prepares axpy in the two highest registers, and returns the code of a step and the pointers to advance.
func (k kernel) axpyStep(s reg.Register) (step func(i int), pointers []reg.Register) {
	sums, before := Load(Param("sums"), GP64()), Load(Param("before"), GP64())
	factor, _ := Param("factor").Resolve()
	k.broadcast(factor.Addr, k.v(31))
	return func(i int) {
		to := Mem{Base: sums, Disp: i * k.bytes}
		k.load(to, k.v(30))
		k.fma(Mem{Base: before, Disp: i * k.bytes}, k.v(31), k.v(30))
		k.load(k.v(30), to)
	}, []reg.Register{s, sums, before}
}

func (k kernel) clear(v reg.VecPhysical) {
	if k.bytes == 64 {
		VPXORQ(v, v, v)
	} else {
		VPXOR(v, v, v)
	}
}

// exponential says which registers exp uses.
type exponential struct {
	kernel
	max, t, n, r, p reg.VecPhysical
	held            map[string]reg.VecPhysical // constants that have a register
}

func (k kernel) newExp(first int) *exponential {
	e := &exponential{kernel: k, held: map[string]reg.VecPhysical{}}
	next := func() reg.VecPhysical { first++; return k.v(first - 1) }
	e.max, e.t, e.n, e.r, e.p = next(), next(), next(), next(), next()
	last := 16
	if k.bytes == 64 {
		last = 32
	}
	names := []string{"magic", "log2e", "high", "rest", "cut"}
	if k.bytes < 64 { // AVX-512 uses a mask in its place
		names = append(names, "low")
	}
	for _, name := range append(names, k.c.terms...) {
		if first < last-1 { // one register is left for the other constants
			e.held[name] = next()
			k.broadcast(k.c.at[name], e.held[name])
		}
	}
	e.held["spare"] = k.v(last - 1)
	return e
}

// constant returns a register that holds the constant, and loads it if it has none of its own.
func (e *exponential) constant(name string) reg.VecPhysical {
	if v, ok := e.held[name]; ok {
		return v
	}
	e.broadcast(e.c.at[name], e.held["spare"])
	return e.held["spare"]
}

// weight computes exp32 or exp64 of the logits at an address, less the maximum; it leaves the argument in e.t.
// Arguments below the cut, and NaN, are replaced by low first or, with AVX-512, left out by the mask in K1.
func (e *exponential) weight(at Mem) reg.VecPhysical {
	const less, atLeast = 1, 13 // both false for NaN
	e.load(at, e.t)
	e.sub(e.max, e.t, e.t)
	if e.bytes == 64 {
		e.cmp(U8(atLeast), e.constant("cut"), e.t, reg.K1)
	} else {
		e.kernel.numbers.max(e.constant("low"), e.t, e.t) // t > low ? t : low
	}
	e.load(e.constant("magic"), e.n)
	e.fma(e.constant("log2e"), e.t, e.n)
	e.sub(e.constant("magic"), e.n, e.p)
	e.load(e.t, e.r)
	e.fma(e.constant("high"), e.p, e.r)
	e.fma(e.constant("rest"), e.p, e.r)
	e.load(e.constant(e.c.terms[0]), e.p)
	for _, name := range e.c.terms[1:] {
		e.fma213(e.constant(name), e.r, e.p)
	}
	if e.size == 4 {
		e.shift(U8(23), e.n, e.n)
	} else {
		e.shift(U8(52), e.n, e.n)
	}
	switch {
	case e.bytes == 64:
		e.addIntMasked(e.n, e.p, reg.K1, e.p)
		return e.p
	case e.size == 4:
		e.addInt(e.n, e.p, e.p)
		e.cmp(U8(less), e.constant("cut"), e.t, e.r)
		VANDNPS(e.p, e.r, e.p)
	default:
		e.addInt(e.n, e.p, e.p)
		e.cmp(U8(less), e.constant("cut"), e.t, e.r)
		VANDNPD(e.p, e.r, e.p)
	}
	return e.p
}

// reduce folds the sixteen lanes in vectors 0 … g−1 by the tree 8, 4, 2, 1 into lane 0 of register
// 0. The low registers are used because VEX instructions reach no others.
func (k kernel) reduce(op func(...Op)) {
	a, b := 0, 1
	switch {
	case k.group() == 1: // one register of sixteen
		VEXTRACTF32X8(U8(1), zmm(a), ymm(b))
		op(ymm(b), ymm(a), ymm(a))
	case k.group() == 4: // four registers of four: l and l+8 are two registers apart
		op(ymm(2), ymm(0), ymm(0))
		op(ymm(3), ymm(1), ymm(1))
		op(ymm(1), ymm(0), ymm(0))
	default: // two registers of eight
		op(k.v(b), k.v(a), k.v(a))
	}
	// Now eight (float32), eight or four (float64) lanes in register 0.
	if k.size == 8 && k.bytes == 64 {
		VEXTRACTF64X4(U8(1), zmm(a), ymm(b))
		op(ymm(b), ymm(a), ymm(a))
	}
	VEXTRACTF128(U8(1), ymm(a), xmm(b))
	op(xmm(b), xmm(a), xmm(a))
	if k.size == 4 {
		VPERMILPS(U8(0x0e), xmm(a), xmm(b))
		op(xmm(b), xmm(a), xmm(a))
		VPERMILPS(U8(0x01), xmm(a), xmm(b))
	} else {
		VPERMILPD(U8(1), xmm(a), xmm(b))
	}
	op(xmm(b), xmm(a), xmm(a))
}

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
