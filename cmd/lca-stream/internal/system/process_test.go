package system

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// Work that does not end when it is asked to is given up after a time, whatever it does.
func TestWorkThatDoesNotEnd(t *testing.T) {
	var log bytes.Buffer
	s := &Process{System: &System{Topics: &Topics{Config: config.Default(), Stats: stats.NewStats(), Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	ctx, cancel := context.WithCancel(t.Context())
	endless := make(chan struct{})
	defer close(endless)
	err := s.alive(ctx, "learn", time.Millisecond, func(context.Context) error {
		cancel()
		<-endless
		return nil
	})
	if err != nil || !strings.Contains(log.String(), "takes longer and is given up") {
		t.Errorf("%v; log:\n%s", err, log.String())
	}
}

// What is left at the end is said for each partition that has any, in order, and not for all of a thousand.
func TestLeftOf(t *testing.T) {
	lag := map[source.Partition]int64{{Topic: "t", ID: 10}: 3, {Topic: "t", ID: 2}: 5, {Topic: "t", ID: 1}: 0}
	if n, by := leftOf(lag); n != 8 || by != "2=5, 10=3" {
		t.Errorf("%d, %q", n, by)
	}
	for i := range int32(1000) {
		lag[source.Partition{Topic: "t", ID: i}] = 1
	}
	if n, by := leftOf(lag); n != 1000 || !strings.HasSuffix(by, ", and 960 more partitions") {
		t.Errorf("%d, %q", n, by)
	}
}
