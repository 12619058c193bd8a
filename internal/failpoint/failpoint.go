// Package failpoint marks the places of the program at which a crash would hurt most, so that a test
// can make it crash there: a process that is killed at random is hardly ever killed inside a window of
// a millisecond.
//
//	failpoint.Here("produce.after")
//
// does nothing unless the program is linked with
//
//	-ldflags '-X github.com/lca-stream/lca-stream/internal/failpoint.armed=yes'
//
// and told by LCA_STREAM_FAILPOINT=produce.after:3 to end there, the third time it comes by, without another word:
// no deferred function runs and no buffer is flushed, as with kill -9. The test that visits all of them
// is TestChaosFailpoints in internal/e2e. The linker does it, and no build tag: with one each package that
// comes before a place was compiled twice.
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
