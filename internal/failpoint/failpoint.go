//go:build !failpoints

package failpoint

// Here is a place to crash at.
func Here(string) {}
