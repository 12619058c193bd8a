package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// ExitCode is the exit code of a program that ended at a failpoint.
const ExitCode = 9

// armed is set by the linker, in programs that are there to crash. In all others it is empty, and the environment is not looked at.
var armed string

var passed atomic.Int64

// Here ends the process if the program is armed and LCA_STREAM_FAILPOINT names this place and this visit.
func Here(name string) {
	if armed != "" {
		crash(name)
	}
}

func crash(name string) {
	place, count, _ := strings.Cut(os.Getenv("LCA_STREAM_FAILPOINT"), ":")
	if place != name {
		return
	}
	if n, err := strconv.ParseInt(count, 10, 64); err != nil || passed.Add(1) == n {
		os.Exit(ExitCode)
	}
}
