//go:build !amd64 || purego

package kernel

// native lists the assembly of this architecture: none, the generic code runs.
func native() []*implementation { return nil }
