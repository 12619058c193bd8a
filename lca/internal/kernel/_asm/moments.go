package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// subScale generates the scaled differences of a row from a mean, for running moments.
func (k kernel) subScale() {
	k.textUntyped("subScale", "func(dst, x, o *float%[1]d, s float%[1]d, n int)", "subScale for n numbers, a positive multiple of 16.")
	dst, x, o, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("o"), GP64()), Load(Param("n"), GP64())
	s, _ := Param("s").Resolve()
	g := k.group()
	k.broadcast(s.Addr, k.v(g))
	Label("loop")
	for i := range g {
		k.load(Mem{Base: x, Disp: i * k.bytes}, k.v(i))
		k.sub(Mem{Base: o, Disp: i * k.bytes}, k.v(i), k.v(i))
		k.mul(k.v(i), k.v(g), k.v(i))
		k.load(k.v(i), Mem{Base: dst, Disp: i * k.bytes})
	}
	k.step(n, "loop", dst, x, o)
	k.end()
}

// addDifferences generates a sum of differences, or of their squares, which are rounded before they are added.
func (k kernel) addDifferences(name string, squared bool) {
	k.textUntyped(name, "func(sum, x, o *float%[1]d, n int)", name+" for n numbers, a positive multiple of 16.")
	sum, x, o, n := Load(Param("sum"), GP64()), Load(Param("x"), GP64()), Load(Param("o"), GP64()), Load(Param("n"), GP64())
	Label("loop")
	for i := range k.group() {
		k.load(Mem{Base: x, Disp: i * k.bytes}, k.v(i))
		k.sub(Mem{Base: o, Disp: i * k.bytes}, k.v(i), k.v(i))
		if squared {
			k.mul(k.v(i), k.v(i), k.v(i))
		}
		k.add(Mem{Base: sum, Disp: i * k.bytes}, k.v(i), k.v(i))
		k.load(k.v(i), Mem{Base: sum, Disp: i * k.bytes})
	}
	k.step(n, "loop", sum, x, o)
	k.end()
}

// fade generates a sum of two products, each rounded.
func (k kernel) fade() {
	k.textUntyped("fade", "func(dst, x *float%[1]d, keep, s float%[1]d, n int)", "fade for n numbers, a positive multiple of 16.")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	keep, _ := Param("keep").Resolve()
	s, _ := Param("s").Resolve()
	g := k.group()
	k.broadcast(keep.Addr, k.v(2*g))
	k.broadcast(s.Addr, k.v(2*g+1))
	Label("loop")
	for i := range g {
		at := Mem{Base: dst, Disp: i * k.bytes}
		k.mul(at, k.v(2*g), k.v(i))
		k.mul(Mem{Base: x, Disp: i * k.bytes}, k.v(2*g+1), k.v(g+i))
		k.add(k.v(g+i), k.v(i), k.v(i))
		k.load(k.v(i), at)
	}
	k.step(n, "loop", dst, x)
	k.end()
}

// addPair generates the moments of pairs of rows.
func (k kernel) addPair() {
	k.textUntyped("addPair", "func(sum, square, product, apart, x, y, o, limit *float%[1]d, most, w float%[1]d, n int)", "addPair for n numbers, a positive multiple of 16.")
	p := map[string]reg.GPVirtual{}
	for _, name := range []string{"sum", "square", "product", "apart", "x", "y", "o", "limit"} {
		p[name] = Load(Param(name), GP64()).(reg.GPVirtual)
	}
	n := Load(Param("n"), GP64())
	most, weight, half, zero := k.v(10), k.v(11), k.v(12), k.v(13)
	from, _ := Param("most").Resolve()
	k.broadcast(from.Addr, most)
	from, _ = Param("w").Resolve()
	k.broadcast(from.Addr, weight)
	k.broadcast(k.c.at["plusHalf"], half)
	k.clear(zero)
	Label("loop")
	for i := range k.group() {
		at := func(name string) Mem { return Mem{Base: p[name], Disp: i * k.bytes} }
		x, y, t, u := k.v(0), k.v(1), k.v(2), k.v(3)
		move := func(name string, to reg.VecPhysical) { // moment += w·(to − moment)
			k.load(at(name), k.v(4))
			k.sub(k.v(4), to, to)
			k.mul(weight, to, to)
			k.add(k.v(4), to, to)
			k.load(to, at(name))
		}
		k.load(at("o"), t)
		k.load(at("x"), x)
		k.sub(t, x, x)
		k.load(at("y"), y)
		k.sub(t, y, y)
		k.sub(y, x, t) // half the squared difference, at most `most` times the limit where that is above zero
		k.mul(t, half, u)
		k.mul(t, u, t)
		k.load(at("limit"), u)
		k.boundAbove(u, most, zero, t)
		move("apart", t)
		k.add(y, x, t)
		k.mul(half, t, t)
		move("sum", t)
		k.mul(x, x, t)
		k.mul(y, y, u)
		k.add(u, t, t)
		k.mul(half, t, t)
		move("square", t)
		k.mul(y, x, t)
		move("product", t)
	}
	k.step(n, "loop", p["sum"], p["square"], p["product"], p["apart"], p["x"], p["y"], p["o"], p["limit"])
	k.end()
}

// boundAbove is v = min(v, most·limit) where the limit is above zero. It uses vectors 4 and 5.
func (k kernel) boundAbove(limit, most, zero, v reg.VecPhysical) {
	const greater = 30 // ordered: false for NaN
	bound, is := k.v(4), k.v(5)
	k.mul(most, limit, bound)
	k.min(v, bound, bound)
	if k.bytes == 64 {
		VCMPPD(U8(greater), zero, limit, reg.K1)
		VMOVUPD(bound, reg.K1, v)
		return
	}
	VCMPPD(U8(greater), zero, limit, is)
	VBLENDVPD(is, bound, v, v)
}
