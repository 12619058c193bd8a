package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
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
