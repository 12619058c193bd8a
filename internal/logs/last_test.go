package logs_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
)

// The last trouble is remembered however little is logged, and advice is none.
func TestLast(t *testing.T) {
	var last logs.Last
	log := slog.New(last.Handler(logs.Limit(slog.DiscardHandler, time.Hour))).With("stage", "learn")
	log.Info("well", "error", errors.New("not logged as one"))
	log.Warn("a topic is at risk", "topic", "events")
	if got := last.Trouble(); got != nil {
		t.Fatalf("%+v before any trouble", got)
	}
	for _, c := range []struct {
		say  func()
		want string
	}{
		{func() { log.Warn("retrying", "what", "fetch events/3", "error", errors.New("source: refused")) }, "retrying: fetch events/3: refused"},
		{func() { log.WithGroup("g").Error("stopped", "error", "text") }, "stopped: text"},
		{func() { log.Error("bare") }, "bare"},
		{func() { log.Warn("retrying", "what", "fetch events/4", "error", errors.New("source: refused")) }, "retrying: fetch events/4: refused"},
	} {
		before := time.Now()
		c.say()
		if got := last.Trouble(); got == nil || got.Text != c.want || got.Time.Before(before) {
			t.Errorf("%+v, want %q", got, c.want)
		}
	}
}
