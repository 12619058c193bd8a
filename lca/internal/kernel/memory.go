package kernel

import "unsafe"

// cacheLine is the size of a line of the cache, in bytes.
const cacheLine = 64

func sizeOf[T Float]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// bytesOf returns the memory of s as bytes.
func bytesOf[T Float](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*sizeOf[T]())
}

// grow returns a slice of length n with unspecified contents: s itself where its capacity suffices, otherwise a new
// one that starts on a cache line.
func grow[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	var t T
	slack := cacheLine / int(unsafe.Sizeof(t))
	s = make([]T, n+slack)
	skip := 0
	if over := uintptr(unsafe.Pointer(unsafe.SliceData(s))) % cacheLine; over != 0 {
		skip = int((cacheLine - over) / unsafe.Sizeof(t))
	}
	return s[skip : skip+n : skip+n]
}

// stride returns the distance between rows of n elements, at least n: an odd number of cache lines, because rows that
// lie a multiple of 4 KiB apart would compete for the same few lines of the L1 cache.
func stride[T Float](n int) int {
	line := cacheLine / sizeOf[T]()
	n = ceil(n, line)
	if n/line%2 == 0 {
		n += line
	}
	return n
}
