package pipeline

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// clockRecords is of how many records with rows the last are remembered. A time has come when most of them have reached it: one or two
// that are stamped ahead of the others move nothing.
const clockRecords = 5

// idleClock is the time of a partition at an offset, in milliseconds: the latest that most of five records in a row had reached.
type idleClock struct {
	now   int64               // math.MinInt64: not known
	least int64               // a time that it is not before; math.MinInt64: none is known
	last  [clockRecords]int64 // timestamps, the newest first
	n     int                 // of them
	full  bool                // most have come
}

func newIdleClock(least int64) idleClock { return idleClock{now: least, least: least} }

// pass goes on by a record. Before three records have come nothing is known for sure: the time is the earliest of them, or the one
// that it is not before.
func (c *idleClock) pass(stamp int64) {
	copy(c.last[1:], c.last[:])
	c.last[0] = stamp
	c.n = min(c.n+1, clockRecords)
	sorted := c.last
	slices.Sort(sorted[:c.n])
	const most = clockRecords/2 + 1
	switch {
	case c.n < most && c.least == math.MinInt64:
		c.now = sorted[0]
	case c.n == most && !c.full:
		c.now, c.full = max(c.least, sorted[0]), true
	case c.n >= most:
		c.now = max(c.now, sorted[c.n-most])
	}
}

// savedClock is the clock at the offset that is committed with it, as a record of the checkpoint topic. The rows before it are not read again.
type savedClock struct {
	Version int     `json:"v"`
	Offset  int64   `json:"offset"`
	Now     int64   `json:"now"`
	Least   int64   `json:"least"`
	Last    []int64 `json:"last"`
}

func (t *KeyedStates) clockKey() string { return fmt.Sprintf("%s/%d/clock", t.ModelID, t.Partition) }

func (t *KeyedStates) clockMessage(at int64, c *idleClock) sink.Message {
	value, err := json.Marshal(savedClock{1, at, c.now, c.least, c.last[:c.n]})
	if err != nil {
		panic(err) // numbers can always be encoded
	}
	return sink.Message{Topic: t.Topic, Partition: t.Partition, Key: []byte(t.clockKey()), Value: value}
}

// takeClock notes the newest clock.
func (t *KeyedStates) takeClock(r *source.Record) bool {
	if string(r.Key) != t.clockKey() {
		return false
	}
	var s savedClock
	if t.clock = nil; r.Value != nil && json.Unmarshal(r.Value, &s) == nil && s.Version == 1 && len(s.Last) <= clockRecords {
		t.clock = &s
	}
	return true
}

// clock returns the clock at an offset.
func (s *savedClock) clock() idleClock {
	c := idleClock{now: s.Now, least: s.Least, n: len(s.Last), full: len(s.Last) > clockRecords/2}
	copy(c.last[:], s.Last)
	return c
}
