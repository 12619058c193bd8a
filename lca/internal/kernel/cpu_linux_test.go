package kernel

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// measure runs f b.N times and reports its flops per second of *processor* time of this thread, for the fastest and
// the median run. Wall time means little on a shared machine.
func measure(b *testing.B, flops float64, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	f()
	times := make([]float64, b.N)
	b.ResetTimer()
	for i := range times {
		before := cpuTime()
		f()
		times[i] = (cpuTime() - before).Seconds()
	}
	b.StopTimer()
	slices.Sort(times)
	b.ReportMetric(times[0]*1e3, "min-ms")
	b.ReportMetric(times[len(times)/2]*1e3, "median-ms")
	b.ReportMetric(flops/times[0]/1e9, "max-GF/s")
}

func cpuTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
