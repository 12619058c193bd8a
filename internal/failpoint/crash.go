//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// ExitCode is the exit code of a program that ended at a failpoint.
const ExitCode = 9

var passed atomic.Int64

// Here ends the process if LCA_STREAM_FAILPOINT names this place and this visit.
func Here(name string) {
	place, count, _ := strings.Cut(os.Getenv("LCA_STREAM_FAILPOINT"), ":")
	if place != name {
		return
	}
	if n, err := strconv.ParseInt(count, 10, 64); err != nil || passed.Add(1) == n {
		os.Exit(ExitCode)
	}
}
