package snapshot

import (
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// TestUnknownParts: a part that a later release adds to a snapshot is passed over, and what only looks like one is not.
func TestUnknownParts(t *testing.T) {
	messages, _ := mustMessages(t, example(3, 1, 2, 100), 4, nil)
	var a Assembler
	add(t, &a, time.Time{}, messages...)
	key := []byte("default/1/histogram/0")
	headers := []source.Header{{Key: headerModelID, Value: []byte("default")}, {Key: headerPart, Value: []byte("histogram")}}
	if err := a.Add(key, []byte("later"), headers, time.Time{}); err != nil {
		t.Errorf("a part of a later release: %v", err)
	}
	if err := a.Add(key, nil, nil, time.Time{}); err != nil {
		t.Errorf("its tombstone: %v", err)
	}
	if err := a.Add(key, []byte("another program's"), nil, time.Time{}); err == nil || !strings.Contains(err.Error(), "shared with something else") {
		t.Errorf("another program's record: %v", err)
	}
	checkNewest(t, &a, "default", 100)
}
