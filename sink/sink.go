// Package sink is where bytes go. Put makes messages and the offsets they stand for visible
// together, or neither (invariants 1 and 2 of ARCHITECTURE.md).
package sink

import (
	"errors"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// Message is one record to be written. A nil Value is a tombstone.
type Message struct {
	Topic     string
	Partition int32
	Key       []byte
	Value     []byte
	Headers   []source.Header
	Time      time.Time // zero: the time of Put
}

// ErrFenced means that another process owns the work: stop, do not retry.
var ErrFenced = errors.New("sink: fenced: another instance owns this work")
