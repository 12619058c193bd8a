package online

import "testing"

// some are all of the cases, or with -short the first n of them.
func some[T any](n int, cases ...T) []T {
	if testing.Short() {
		return cases[:n]
	}
	return cases
}
