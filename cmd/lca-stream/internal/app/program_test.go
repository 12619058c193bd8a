package app

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Exit code 3 says what to do about it, whichever way the other process has taken over.
func TestFencedSaysWhatToDo(t *testing.T) {
	for _, cause := range []error{sink.ErrFenced, source.ErrInstanceFenced} {
		var out bytes.Buffer
		(&Program{Stderr: &out}).Complain(withCode(fmt.Errorf("EndTxn(abort): %w", cause)))
		if !strings.Contains(out.String(), "Another process took over this work: stop one, or give another snapshot.model_id to one.") {
			t.Errorf("%v: %s", cause, &out)
		}
	}
}

// Durations have their unit, in either format.
func TestLoggedDurationsHaveUnits(t *testing.T) {
	for format, want := range map[config.Choice]string{config.LogJSON: `"stop_in":"15s"`, config.LogText: "stop_in=15s"} {
		var out bytes.Buffer
		p := &Program{Stderr: &out}
		p.Logger(config.Logger{Level: config.LevelInfo, Format: format}).Warn("gone", "stop_in", 15*time.Second)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", format, &out)
		}
	}
}
