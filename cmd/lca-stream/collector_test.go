package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 10 << 20: 100, 24 << 20: 100, 40 << 20: 60, 60 << 20: 40, 4 << 30: 40} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live>>20, got, want)
		}
	}
}

// The collector's percentage follows what is live, up and down, unless the environment has the last word.
func TestCollectorIsPaced(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(garbageUsual)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percent := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	until := func(want uint64) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); percent() != want; runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%d %%, want %d", percent(), want)
			}
			runtime.Gosched()
		}
	}
	t.Setenv("GOGC", "77")
	paceCollector()
	live := make([]byte, 256<<20)
	runtime.GC()
	runtime.GC()
	if got := percent(); got != garbageUsual {
		t.Errorf("with GOGC it is %d %%", got)
	}
	t.Setenv("GOGC", "")
	paceCollector()
	until(garbageLeast)
	runtime.KeepAlive(live) // and no longer
	until(garbageUsual)
}
