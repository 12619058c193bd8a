package main

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// outside is the memory of a process that the Go runtime does not manage: the pages of its binary that are in use,
// measured as 32 to 34 MiB, and the stack of its first thread.
const outside = 48 << 20

// limitOf returns the memory that the process may use: memory.limit, or the limit of its container, or half of the machine's memory.
func limitOf(c config.Memory) uint64 {
	if c.Limit > 0 {
		return uint64(c.Limit)
	}
	return available(memlimit.FromCgroup, memlimit.FromSystem)
}

// memoryLimit returns what limitOf does. Unless the environment sets GOMEMLIMIT, the Go runtime gets what is left after outside or a
// tenth, whichever is more, but at least half. Then it collects more often when the heap comes near that.
func memoryLimit(c config.Memory, log *slog.Logger) int64 {
	limit := limitOf(c)
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
