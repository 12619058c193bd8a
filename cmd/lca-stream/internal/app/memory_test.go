package app

import (
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
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
	PaceCollector()
	live := make([]byte, 256<<20)
	runtime.GC()
	runtime.GC()
	if got := percent(); got != garbageUsual {
		t.Errorf("with GOGC it is %d %%", got)
	}
	t.Setenv("GOGC", "")
	PaceCollector()
	until(GarbageLeast)
	runtime.KeepAlive(live) // and no longer
	until(garbageUsual)
}

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
		if got := MemoryLimit(config.Memory{Limit: limit}, log); got != int64(limit) {
			t.Errorf("limit %d, want %d", got, limit)
		}
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("of %d MiB the runtime has %d, want %d", limit>>20, got, want)
		}
	}
	debug.SetMemoryLimit(77 << 20)
	t.Setenv("GOMEMLIMIT", "77MiB")
	MemoryLimit(config.Memory{Limit: 1 << 30}, log)
	if got := debug.SetMemoryLimit(-1); got != 77<<20 {
		t.Errorf("with GOMEMLIMIT the runtime has %d", got)
	}
}
