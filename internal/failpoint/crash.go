//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// ExitCode says that the program has ended at the place it was told to.
const ExitCode = 9

var passed atomic.Int64

// Here ends the process if this is the place and the time.
func Here(name string) {
	place, count, _ := strings.Cut(os.Getenv("LCA_STREAM_FAILPOINT"), ":")
	if place != name {
		return
	}
	if n, err := strconv.ParseInt(count, 10, 64); err != nil || passed.Add(1) == n {
		os.Exit(ExitCode)
	}
}
