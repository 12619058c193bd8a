package app

import (
	"bytes"
	"fmt"
	"log/slog"
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
	var out bytes.Buffer
	p, info := &Program{Stderr: &out}, config.Logger{Level: config.LevelInfo}
	for want, log := range map[string]*slog.Logger{`"stop_in":"15s"`: p.Logger(info), "stop_in=15s": p.TextLogger(info)} {
		out.Reset()
		if log.Warn("gone", "stop_in", 15*time.Second); !strings.Contains(out.String(), want) {
			t.Errorf("%s, want %s", &out, want)
		}
	}
}
