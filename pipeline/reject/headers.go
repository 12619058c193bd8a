package reject

import (
	"strings"

	"github.com/lca-stream/lca-stream/source"
)

// Headers of checkpoints and snapshots, by which an index needs no value.
const (
	HeaderLearnt    = "lca-learnt-offset"
	HeaderPublished = "lca-published"
	HeaderDim       = "lca-d"
	HeaderVersion   = "lca-model-version"
	HeaderLastRow   = "lca-last-row"
	HeaderWaits     = "lca-waits"
	HeaderRetired   = "lca-retired"
	HeaderGroup     = "lca-group"
	HeaderBy        = "lca-model-by"
)

// Headers that say what a record was made of.
const (
	HeaderSourceTopic      = "lca-source-topic"
	HeaderSourcePartition  = "lca-source-partition"
	HeaderSourceOffset     = "lca-source-offset"
	HeaderSourceLastOffset = "lca-source-last-offset" // of a batch
)

// ContentType is the header with the type of a value; reserved begins the names of all headers that are ours, and carried those that an lca-stream before us has set.
const (
	ContentType = "content-type"
	reserved    = "lca-"
	carried     = "lca-upstream-"
)

// Carry appends the input's own headers to dst. Where the input is the output of another lca-stream its headers
// have our names, and a reader that looks for one would find two: so theirs are renamed. What was renamed before
// is left out, because headers would grow with each stage of a chain. The type is that of the value, which
// may change.
func Carry(dst, headers []source.Header, withType bool) []source.Header {
	for _, h := range headers {
		switch {
		case h.Key == ContentType && !withType:
		case !strings.HasPrefix(h.Key, reserved):
			dst = append(dst, h)
		case !strings.HasPrefix(h.Key, carried):
			dst = append(dst, source.Header{Key: carried + h.Key[len(reserved):], Value: h.Value})
		}
	}
	return dst
}

// Text is a header of text.
func Text(key, value string) source.Header { return source.Header{Key: key, Value: []byte(value)} }
