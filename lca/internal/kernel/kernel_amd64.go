//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

//go:generate go run -C _asm . -out kernel_amd64.s -stubs stubs_amd64.go -pkg kernel

// native lists the assembly that this processor and operating system can run, the fastest first.
func native() (list []*implementation) {
	x := cpu.X86
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
		list = append(list, avx512())
	}
	if x.HasAVX2 && x.HasFMA {
		list = append(list, avx2())
	}
	return list
}

func avx512() *implementation {
	return &implementation{
		name: "avx512", asking: asking32AVX512, rotate: turnRowsAVX512, symmetric: bothWaysAVX512, shift: shiftAVX512, widen: widenAVX512, singles: shiftRoundAVX512, rounded: roundedAVX512, finite: finiteAVX2, scaled: fartherAVX512, addFrom: addOffsetAVX512, largest: greatestAVX512,
		f32: functions[float32]{tile32AVX512, max32AVX512, find32AVX512, choose32AVX512, sum32AVX512, spread32AVX512, addRow32AVX512, finishRow32AVX512, exp32AVX512, expAdded32AVX512, scale32AVX512, add32AVX512, sub32AVX512, norm32AVX512, turn32, bound32AVX512, apart32, pair32},
		f64: functions[float64]{tile64AVX512, max64AVX512, find64AVX512, choose64AVX512, sum64AVX512, spread64AVX512, addRow64AVX512, finishRow64AVX512, exp64AVX512, expAdded64AVX512, scale64AVX512, add64AVX512, sub64AVX512, norm64AVX512, turn64, bound64AVX512, apart64, pair64},
	}
}

func avx2() *implementation {
	return &implementation{
		name: "avx2", asking: asking32AVX2, rotate: turnRowsAVX2, symmetric: bothWaysAVX2, shift: shiftAVX2, widen: widenAVX2, singles: shiftRoundAVX2, rounded: roundedAVX2, finite: finiteAVX2, scaled: fartherAVX2, addFrom: addOffsetAVX2, largest: greatestAVX2,
		f32: functions[float32]{tile32AVX2, max32AVX2, find32AVX2, choose32AVX2, sum32AVX2, spread32AVX2, addRow32AVX2, finishRow32AVX2, exp32AVX2, expAdded32AVX2, scale32AVX2, add32AVX2, sub32AVX2, norm32AVX2, turn32, bound32AVX2, apart32, pair32},
		f64: functions[float64]{tile64AVX2, max64AVX2, find64AVX2, choose64AVX2, sum64AVX2, spread64AVX2, addRow64AVX2, finishRow64AVX2, exp64AVX2, expAdded64AVX2, scale64AVX2, add64AVX2, sub64AVX2, norm64AVX2, turn64, bound64AVX2, apart64, pair64},
	}
}
