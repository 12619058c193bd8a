package main

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// memoryLimit is what the process may take: memory.limit, or that of its container, or half of the machine's
// memory. The Go runtime is told nine tenths of it, so that it collects more often when the heap comes near,
// unless the environment says GOMEMLIMIT. What is not Go's heap, such as the binary, has the rest.
func memoryLimit(c config.Memory, log *slog.Logger) int64 {
	limit := uint64(c.Limit)
	if limit == 0 {
		limit = available(memlimit.FromCgroup, memlimit.FromSystem)
	}
	const share = 0.9
	_, err := memlimit.SetGoMemLimitWithOpts(memlimit.WithProvider(memlimit.Limit(limit)), memlimit.WithRatio(share))
	if err != nil {
		log.Warn("the Go runtime has no memory limit; set GOMEMLIMIT", "error", err)
	}
	log.Debug("memory", "limit_bytes", limit)
	return int64(limit)
}

// available is the container's limit, where it has one below the machine's memory, or half of that.
func available(container, machine memlimit.Provider) uint64 {
	const unknown = 2 << 30 // of a system that does not say
	all, err := machine()
	if err != nil || all == 0 {
		all = unknown
	}
	if limit, err := container(); err == nil && limit > 0 && limit < all {
		return limit
	}
	return all / 2
}
