package source

import (
	"fmt"
	"time"
)

// throttledError is a broker's answer to a client over its quota: it holds only how long to wait. The broker mutes
// the connection for as long; waiting here keeps a request from losing its time to that.
type throttledError struct{ delay time.Duration }

func (e *throttledError) Error() string {
	return fmt.Sprintf("over the broker's quota, to wait %s", e.delay)
}
