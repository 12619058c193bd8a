package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/source"
)

// Durations have their unit, in either format.
func TestLoggedDurationsHaveUnits(t *testing.T) {
	for format, want := range map[config.Choice]string{config.LogJSON: `"stop_in":"15s"`, config.LogText: "stop_in=15s"} {
		var out bytes.Buffer
		p := &program{stderr: &out}
		p.logger(config.Logger{Level: config.LevelInfo, Format: format}).Warn("gone", "stop_in", 15*time.Second)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", format, &out)
		}
	}
}

// A delay of the configuration is obeyed; without one the transactions of all partitions share one bound.
func TestDelayOfTransactions(t *testing.T) {
	s := &whitening{Process: &Process{system: &system{Topics: &Topics{config: config.Default()}}, rate: source.NewRate(mostTransactions)}}
	if wait, rate := s.gathering(); wait != 0 || rate != s.rate {
		t.Errorf("by default they wait for %v, with the bound %p of %p", wait, rate, s.rate)
	}
	s.config.Transform.MaxDelay = 100 * time.Millisecond
	if wait, rate := s.gathering(); wait != 100*time.Millisecond || rate != nil {
		t.Errorf("with max_delay: 100ms they wait for %v, with a bound: %v", wait, rate != nil)
	}
}
