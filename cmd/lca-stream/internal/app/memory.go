package app

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// outside is the memory of a process that the Go runtime does not manage: the pages of its binary that are in use,
// measured as 32 to 34 MiB, and the stack of its first thread.
const outside = 48 << 20

// LimitOf returns the memory that the process may use: memory.limit, or the limit of its container, or half of the machine's memory.
func LimitOf(c config.Memory) uint64 {
	if c.Limit > 0 {
		return uint64(c.Limit)
	}
	return available(memlimit.FromCgroup, memlimit.FromSystem)
}

// MemoryLimit returns what LimitOf does. Unless the environment sets GOMEMLIMIT, the Go runtime gets what is left after outside or a
// tenth, whichever is more, but at least half. Then it collects more often when the heap comes near that.
func MemoryLimit(c config.Memory, log *slog.Logger) int64 {
	limit := LimitOf(c)
	runtime := max(limit/2, limit-max(limit/10, min(outside, limit)))
	_, err := memlimit.SetGoMemLimitWithOpts(memlimit.WithProvider(memlimit.Limit(runtime)), memlimit.WithRatio(1))
	if err != nil {
		log.Warn("the Go runtime has no memory limit; set GOMEMLIMIT", "error", err)
	}
	log.Debug("memory", "limit_bytes", limit, "runtime_bytes", runtime)
	return int64(limit)
}

// available returns the container's limit, if that is below the machine's memory, or else half of the latter.
func available(container, machine memlimit.Provider) uint64 {
	const unknown = 2 << 30 // for a system that does not tell
	all, err := machine()
	if err != nil || all == 0 {
		all = unknown
	}
	if limit, err := container(); err == nil && limit > 0 && limit < all {
		return limit
	}
	return all / 2
}

// Go's garbage collector waits until there is as much garbage as live memory. For a heap of 100 MiB that is another
// 100 MiB, most of it for nothing, because a batch leaves only a few MiB behind. So the larger the live heap, the
// smaller the share of it that may be garbage.
const (
	// garbageMost is the largest amount of garbage, as long as that is at least GarbageLeast percent of the live
	// heap: less garbage would cost more processor time than the memory is worth.
	garbageMost  = 24 << 20
	GarbageLeast = 40
	garbageUsual = 100 // percent: Go's own
)

// garbagePercent returns the collector's percentage for a live heap of that many bytes.
func garbagePercent(live uint64) int {
	return int(min(garbageUsual, max(GarbageLeast, garbageUsual*garbageMost/max(live, 1))))
}

// PaceCollector adapts the collector's percentage to the live heap, unless the environment sets GOGC. It runs after
// each collection, by means of an object that does not survive it.
func PaceCollector() {
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
