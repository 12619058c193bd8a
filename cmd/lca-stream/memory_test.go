package main

import (
	"errors"
	"log/slog"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

func TestAvailableMemory(t *testing.T) {
	unknown := func() (uint64, error) { return 0, errors.New("not here") }
	for _, c := range []struct {
		name               string
		container, machine memlimit.Provider
		want               uint64
	}{
		{"a container", memlimit.Limit(512 << 20), memlimit.Limit(24 << 30), 512 << 20},
		{"a container without a limit", unknown, memlimit.Limit(24 << 30), 12 << 30},
		{"a limit that is none", memlimit.Limit(1 << 62), memlimit.Limit(24 << 30), 12 << 30},
		{"neither is known", unknown, unknown, 1 << 30},
	} {
		if got := available(c.container, c.machine); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The runtime's limit follows memory.limit, unless the environment has the last word.
func TestMemoryLimitOfTheRuntime(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	log := slog.New(slog.DiscardHandler)
	for limit, want := range map[int]int64{1000 << 20: 900 << 20, 512 << 20: 512<<20 - 512<<20/10, 256 << 20: 208 << 20, 64 << 20: 32 << 20} {
		if got := memoryLimit(config.Memory{Limit: limit}, log); got != int64(limit) {
			t.Errorf("limit %d, want %d", got, limit)
		}
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("of %d MiB the runtime has %d, want %d", limit>>20, got, want)
		}
	}
	debug.SetMemoryLimit(77 << 20)
	t.Setenv("GOMEMLIMIT", "77MiB")
	memoryLimit(config.Memory{Limit: 1 << 30}, log)
	if got := debug.SetMemoryLimit(-1); got != 77<<20 {
		t.Errorf("with GOMEMLIMIT the runtime has %d", got)
	}
}
