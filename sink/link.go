package sink

import "github.com/lca-stream/lca-stream/internal/recordbatch"

// Link is what all producers of a process share: the way to the brokers, and the encoders of compression.
type Link struct {
	compressor recordbatch.Compressor
}

// NewLink returns a Link for the producers of one process.
func NewLink() *Link { return &Link{} }
