package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline"
)

// Work that does not end when it is asked to is given up after shutdown_timeout, whatever it does.
func TestWorkThatDoesNotEnd(t *testing.T) {
	var log bytes.Buffer
	s := &Process{system: &system{Topics: &Topics{config: config.Default(), stats: pipeline.NewStats(), log: slog.New(slog.NewTextHandler(&log, nil))}}}
	s.config.ShutdownTimeout = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	endless := make(chan struct{})
	defer close(endless)
	err := s.alive(ctx, "learn", func(context.Context) error {
		cancel()
		<-endless
		return nil
	})
	if err != nil || !strings.Contains(log.String(), "takes longer than shutdown_timeout and is given up") {
		t.Errorf("%v; log:\n%s", err, log.String())
	}
}
