package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Go's garbage collector waits until there is as much garbage as live memory. For a heap of 100 MiB that is another
// 100 MiB, most of it for nothing, because a batch leaves only a few MiB behind. So the larger the live heap, the
// smaller the share of it that may be garbage.
const (
	// garbageMost is the largest amount of garbage, as long as that is at least garbageLeast percent of the live
	// heap: less garbage would cost more processor time than the memory is worth.
	garbageMost  = 24 << 20
	garbageLeast = 40
	garbageUsual = 100 // percent: Go's own
)

// garbagePercent returns the collector's percentage for a live heap of that many bytes.
func garbagePercent(live uint64) int {
	return int(min(garbageUsual, max(garbageLeast, garbageUsual*garbageMost/max(live, 1))))
}

// paceCollector adapts the collector's percentage to the live heap, unless the environment sets GOGC. It runs after
// each collection, by means of an object that does not survive it.
func paceCollector() {
	if os.Getenv("GOGC") == "" {
		(&pacer{percent: garbageUsual}).afterNext()
	}
}

type pacer struct{ percent int }

func (p *pacer) afterNext() {
	sentinel := new([16]byte) // larger than what is allocated together with other objects
	runtime.AddCleanup(sentinel, func(p *pacer) { p.collected(); p.afterNext() }, p)
}

func (p *pacer) collected() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	const step = 4 // percent: each change stops the world for a moment
	if next := garbagePercent(live[0].Value.Uint64()); next > p.percent+step || next < p.percent-step || next == garbageUsual && p.percent != next {
		debug.SetGCPercent(next)
		p.percent = next
	}
}
