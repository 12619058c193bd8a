//go:build !linux

package system

import (
	"errors"
)

// reserve refuses every name: here there is no kind of name that the system frees when the process is killed.
func reserve(string) (release func(), err error) {
	return nil, errors.New("this system has no names that end with a process")
}
