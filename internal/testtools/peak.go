package testtools

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// PeakMiB is the largest resident size that a running process has had, on Linux. The Maxrss of a process that has ended is no
// measure of it: it counts the program that started it, too, because the kernel keeps that maximum across exec.
func PeakMiB(t testing.TB, pid int) int {
	t.Helper()
	mebibytes, err := peak(pid)
	if err != nil {
		t.Fatal(err)
	}
	return mebibytes
}

// WatchPeak looks at a process until it ends, and returns a function that waits for that and says what PeakMiB was.
func WatchPeak(pid int) (mebibytes func() int) {
	result := make(chan int)
	go func() {
		most := 0
		for {
			now, err := peak(pid)
			if err != nil {
				result <- most
				return
			}
			most = max(most, now)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() int { return <-result }
}

var resident = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

func peak(pid int) (mebibytes int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	m := resident.FindSubmatch(status)
	if m == nil { // it has ended
		return 0, fmt.Errorf("no VmHWM in %s", status)
	}
	kib, err := strconv.Atoi(string(m[1]))
	return kib >> 10, err
}
