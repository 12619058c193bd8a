package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The collector waits until there is as much garbage as there is live memory: for a heap of 100 MiB that is
// another 100 MiB, most of which buys nothing, because what a batch leaves behind is a few. So the more there
// is live, the smaller the part of it that may be garbage.
const (
	// garbageMost is how much there may be while it is at least garbageLeast percent of what is live; less would
	// cost more processor time than the memory is worth.
	garbageMost  = 48 << 20
	garbageLeast = 40
	garbageUsual = 100 // percent: Go's own
)

// garbagePercent is what there may be of garbage with so many live bytes.
func garbagePercent(live uint64) int {
	return int(min(garbageUsual, max(garbageLeast, garbageUsual*garbageMost/max(live, 1))))
}

// paceCollector has the collector's percentage follow what is live, unless the environment says GOGC. It looks
// after each collection, by means of an object that does not live until the next.
func paceCollector() {
	if os.Getenv("GOGC") == "" {
		(&pacer{percent: garbageUsual}).afterNext()
	}
}

type pacer struct{ percent int }

func (p *pacer) afterNext() {
	sentinel := new([16]byte) // larger than what is allocated together with others
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
