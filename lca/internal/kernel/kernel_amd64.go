//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

//go:generate go run -C _asm . -out kernel_amd64.s -stubs stubs_amd64.go -wrappers wrappers_amd64.go -pkg kernel

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
