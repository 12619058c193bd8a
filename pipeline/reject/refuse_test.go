package reject

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source"
)

// What rewind takes back is what add has done since keep, also around the end of the ring.
func TestRejectsRewind(t *testing.T) {
	var r Rejects
	for i := range 7 {
		r.Add(5, i%3 == 0)
	}
	r.Keep()
	ring, next, count := slices.Clone(r.ring), r.next, r.count
	for i := range 13 {
		r.Add(5, i%2 == 0)
	}
	r.Rewind()
	if !slices.Equal(r.ring, ring) || r.next != next || r.count != count {
		t.Errorf("%+v, want %v, %d, %d", r, ring, next, count)
	}
}

// What is left of a dead letter fits into the least limit that a start accepts, whatever the message was.
func TestCutDeadLetterFits(t *testing.T) {
	longest := 0
	for _, code := range RecordCodes {
		longest = max(longest, len(code))
	}
	bad := &source.RecordError{
		Partition: source.Partition{Topic: strings.Repeat("t", 249), ID: math.MaxInt32}, Offset: math.MaxInt64 - 1, Offsets: 1,
		Code: strings.Repeat("c", longest), Err: errors.New(strings.Repeat("é", 5000)), Version: math.MaxUint64,
	}
	m := &source.Message{
		Partition: bad.Partition, Offset: bad.Offset, Key: make([]byte, 5000), Value: make([]byte, 5000), Err: bad, Time: time.UnixMilli(math.MaxInt64 / 1_000_000),
		Headers: []source.Header{{Key: "large", Value: make([]byte, 5000)}},
	}
	d := DeadLetter{Topic: "dead", Group: strings.Repeat("g", 255)}
	dead := d.message(m, bad)
	var sizes []int
	for ok := true; ok; dead, ok = d.Cut(dead, m) {
		if version := source.LastHeader(dead.Headers, HeaderVersion); version != "18446744073709551615" {
			t.Errorf("after %d cuts it was scored by %q", len(sizes), version)
		}
		sizes = append(sizes, recordbatch.Size([]recordbatch.Record{{Key: dead.Key, Value: dead.Value, Headers: dead.Headers, Timestamp: dead.Time.UnixMilli()}}))
	}
	if n := len(sizes); n != 4 || sizes[n-1] > DeadLetterBytes || sizes[n-1] < DeadLetterBytes/2 {
		t.Errorf("it is cut to %v bytes, want at most %d, and not much less", sizes, DeadLetterBytes)
	}
}
