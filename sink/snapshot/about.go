package snapshot

import (
	"fmt"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// About returns what a chunk says of its snapshot: all but the numbers of its parts, which are missing.
func About(chunk []byte) (*Snapshot, error) {
	schema, records, _, err := readStream(chunk, ipcguard.MessageLimits())
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	for _, rec := range records {
		rec.Release()
	}
	return new(memo).metadata(pairsIn(schema.Metadata()))
}
