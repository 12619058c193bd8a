package modelkey

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"

	"github.com/lca-stream/lca-stream/minibatch"
)

// SeriesID is the identity of the series of a value, as a learner knows it. It is kept in checkpoints and in snapshots, so it must never change. A long value has that of
// its SHA-256, which is what records about its series say.
func SeriesID(partition int32, value string, ok bool) uint64 {
	if len(value) > MostBytes {
		sum := sha256.Sum256([]byte(value))
		value = hex.EncodeToString(sum[:])
	}
	h := fnv.New64a()
	p := uint32(partition)
	known := byte(0)
	if ok {
		known = 1
	}
	_, _ = h.Write([]byte{byte(p), byte(p >> 8), byte(p >> 16), byte(p >> 24), known})
	_, _ = h.Write([]byte(value))
	return h.Sum64()
}

// Series is the identity of the series of a value in a partition; nil: of rows without one.
func (b By) Series(partition int32, value []byte) uint64 {
	if !b.Keyed() {
		return minibatch.SeriesOf(partition)
	}
	return SeriesID(partition, string(value), value != nil)
}
