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
