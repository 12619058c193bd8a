package snapshot

import (
	"runtime"
	"testing"
	"time"
)

// Reading a model of many chunks takes little more memory than the chunks and the model: what grew chunk by chunk would be copied several times.
func TestNewestReadsIntoMemoryOfItsSize(t *testing.T) {
	messages, _ := mustMessages(t, example(300, 40, 6000, 1), 1, nil)
	size := 0
	for _, m := range messages {
		size += len(m.Value)
	}
	var a Assembler
	add(t, &a, time.Time{}, messages...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, ok := a.Newest("default"); !ok {
		t.Fatal("no snapshot")
	}
	runtime.ReadMemStats(&after)
	if most := uint64(size) * 19 / 10; len(messages) < 12 || after.TotalAlloc-before.TotalAlloc > most {
		t.Errorf("%d messages of %d bytes were read into %d", len(messages), size, after.TotalAlloc-before.TotalAlloc)
	}
}
