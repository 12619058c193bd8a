//go:build unix

package demo

import (
	"syscall"
	"time"
)

// processor is the processor time that this process has taken; 0: the system does not say.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
