package source

import (
	"context"
	"fmt"
	"time"
)

// throttledError is a broker's answer to a client that is over its quota: nothing, and how long to
// wait. The broker holds the connection back as long itself; to wait here leaves a request its time.
type throttledError struct{ delay time.Duration }

func (e *throttledError) Error() string {
	return fmt.Sprintf("over the broker's quota, to wait %s", e.delay)
}

// wait returns nil after the delay, or why ctx ended.
func (e *throttledError) wait(ctx context.Context) error {
	timer := time.NewTimer(e.delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
