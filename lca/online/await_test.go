package online

import (
	"context"
	"errors"
	"testing"
)

// Await waits for a comparison exactly where Learn or a checkpoint would, and no longer than its context.
func TestAwait(t *testing.T) {
	c := DefaultConfig(2)
	c.Neighbours = 400
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, rows := range []int{0, 1000} {
		if err := l.Await(ended, rows); err != nil {
			t.Errorf("%d rows without a comparison: %v", rows, err)
		}
	}
	running := &comparison{done: make(chan struct{})}
	l.choice = choice{began: 400, comparison: running} // it takes effect after 200 rows more
	l.since = 450
	for _, a := range []struct {
		rows  int
		waits bool
	}{{0, true}, {1, false}, {149, false}, {150, true}, {1000, true}} {
		if err := l.Await(ended, a.rows); errors.Is(err, context.Canceled) != a.waits {
			t.Errorf("%d rows: %v", a.rows, err)
		}
	}
	close(running.done)
	for _, rows := range []int{0, 150} {
		if err := l.Await(t.Context(), rows); err != nil {
			t.Errorf("%d rows after the comparison: %v", rows, err)
		}
	}
	l.choice = choice{began: 400, comparison: &comparison{}} // of a checkpoint
	if err := l.Await(ended, 0); err != nil {
		t.Errorf("a comparison that was restored: %v", err)
	}
}
