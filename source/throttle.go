package source

import (
	"fmt"
	"time"
)

// throttledError is a broker's answer to a client that is over its quota: nothing, and how long to
// wait. The broker holds the connection back as long itself; to wait here leaves a request its time.
type throttledError struct{ delay time.Duration }

func (e *throttledError) Error() string {
	return fmt.Sprintf("over the broker's quota, to wait %s", e.delay)
}
