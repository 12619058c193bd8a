// The generator of the assembly in ../amd64/kernel_amd64.s and of the Go around it: ../amd64/stubs_amd64.go declares it, and
// ../wrappers_amd64.go holds the functions that call it. It is a module of its own, so that users of the library
// never download avo. Run "go generate" in the parent directory; a test compares the result.
//
// Each function computes exactly what the Go function named in its comment computes: the same chains of
// multiply-adds in the same order, only more of them at a time.
package main

import (
	"flag"
	"log"
	"os"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	if err := os.Chdir(".."); err != nil { // so that the headers of the outputs name files relative to that directory
		log.Fatal(err)
	}
	wrappers := flag.String("wrappers", "wrappers_amd64.go", "output of the Go functions around the assembly")
	ConstraintExpr("!purego")
	for _, t := range types() {
		c := constants(t)
		for _, s := range sets() {
			k := kernel{t, s, c}
			for _, rows := range s.rows {
				k.tile(rows, false)
			}
			for _, rows := range s.halves {
				k.tile(rows, true)
			}
			k.rowMax()
			k.findGE()
			if k.name == "AVX512" {
				k.pick()
			} else {
				k.markGE()
			}
			k.spmv()
			k.scatterAdd()
			k.axpy()
			k.meanResidual()
			k.clamp()
			k.expRow(false)
			if k.name == "AVX512" {
				k.expRow(true)
			}
			k.studentRow()
			k.scale()
			k.fold("addTo", VADDPD)
			k.fold("subFrom", VSUBPD)
			k.norms()
			k.centrePanel()
			if k.bits == 64 {
				k.rot()
				k.symv()
				k.centre("centre", false)
				k.centre("centreFromF32", true)
				for _, rows := range s.rows {
					k.tileF32(rows)
				}
				k.centreF32()
				k.subScale()
				k.addDifferences("addDiff", false)
				k.addDifferences("addSquares", true)
				k.fade()
				k.maxAbs()
			}
			if k.name == "AVX2" { // the table of AVX-512 uses these too
				if k.bits == 32 {
					k.finite()
				}
				k.transpose()
				k.distance()
				k.sqDist()
			}
		}
	}
	Generate()
	if err := writeWrappers(*wrappers); err != nil {
		log.Fatal(err)
	}
}

// numbers is a type, float32 or float64, with its instructions.
type numbers struct {
	bits, size                                                                                                    int
	load, broadcast, fma, fma213, add, sub, mul, div, sqrt, max, min, cmp, shift, addInt, fmaMasked, addIntMasked func(...Op)
}

// set is an instruction set.
type set struct {
	name   string
	bytes  int   // size of a vector
	rows   []int // heights of the tiles, tallest first
	halves []int // heights of the tiles for half a panel, where that is one vector; tallest first
}

// kernel generates the functions of one set for one type.
type kernel struct {
	numbers
	set
	c *table
}

// tallest is the height of the tile that uses all registers of AVX-512.
const tallest = 14

func sets() []set {
	return []set{
		{"AVX512", 64, []int{tallest, 8, 4, 2, 1}, []int{28, 16, 8, 4, 2, 1}},
		{"AVX2", 32, []int{6, 4, 2, 1}, nil},
	}
}

func types() []numbers {
	wrap2 := func(f func(a, b Op)) func(...Op) { return func(o ...Op) { f(o[0], o[1]) } }
	wrap4 := func(f func(a, b, m, c Op)) func(...Op) { return func(o ...Op) { f(o[0], o[1], o[2], o[3]) } }
	return []numbers{
		{32, 4, wrap2(func(a, b Op) { VMOVUPS(a, b) }), wrap2(func(a, b Op) { VBROADCASTSS(a, b) }),
			VFMADD231PS, VFMADD213PS, VADDPS, VSUBPS, VMULPS, VDIVPS, VSQRTPS, VMAXPS, VMINPS, VCMPPS, VPSLLD, VPADDD, VFMADD231PS, wrap4(VPADDD_Z)},
		{64, 8, wrap2(func(a, b Op) { VMOVUPD(a, b) }), wrap2(func(a, b Op) { VBROADCASTSD(a, b) }),
			VFMADD231PD, VFMADD213PD, VADDPD, VSUBPD, VMULPD, VDIVPD, VSQRTPD, VMAXPD, VMINPD, VCMPPD, VPSLLQ, VPADDQ, VFMADD231PD, wrap4(VPADDQ_Z)},
	}
}

// v returns vector register i of the set's width.
func (k kernel) v(i int) reg.VecPhysical {
	if k.bytes == 64 {
		return zmm(i)
	}
	return ymm(i)
}

func zmm(i int) reg.VecPhysical {
	return []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}[i]
}

func ymm(i int) reg.VecPhysical {
	return []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}[i]
}

func xmm(i int) reg.VecPhysical {
	return []reg.VecPhysical{reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7}[i]
}
