package format

import "github.com/lca-stream/lca-stream/source/format/ipcguard"

// bodies is memory for messages. New memory costs as much as reading into it, because it is cleared, and because it is in no cache.
type bodies struct {
	again bool // batches take turns in the same memory
	last  []byte
}

// take returns memory for a message. Dictionaries keep theirs.
func (b *bodies) take(kind ipcguard.MessageKind, n int64) []byte {
	if !b.again || kind != ipcguard.BatchMessage {
		return make([]byte, n)
	}
	if int64(cap(b.last)) < n {
		b.last = make([]byte, n)
	}
	return b.last[:n:n]
}
