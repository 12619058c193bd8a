//go:build !purego

package kernel

import "math/bits"

// pickMarked is pick for the numbers that have a bit in marks.
func pickMarked[T Float](index []int32, value, s []T, first int32, marks []uint16) (count int) {
	for block, mark := range marks {
		for ; mark != 0; mark &= mark - 1 {
			j := block*lanes + bits.TrailingZeros16(mark)
			index[count], value[count] = first+int32(j), s[j]
			count++
		}
	}
	return count
}
