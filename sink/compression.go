package sink

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// Compression says how batches are compressed. A batch that would not get smaller stays as it is,
// whatever is said here.
type Compression uint8

// The zero value compresses nothing.
const (
	CompressNone Compression = iota
	CompressGzip
	CompressSnappy
	CompressLZ4
	CompressZstd
	// CompressAuto takes lz4 where it halves what a topic gets, which is so for small messages, because
	// each has the same schema, and hardly for rows of numbers; and zstd for a message that is larger
	// than its topic takes.
	CompressAuto
)

var compressions = []string{"none", "gzip", "snappy", "lz4", "zstd", "auto"}

// ParseCompression takes the names of the configuration.
func ParseCompression(s string) (Compression, error) {
	if i := slices.Index(compressions, s); i >= 0 {
		return Compression(i), nil
	}
	return 0, fmt.Errorf("sink: unknown compression %q: want one of %v", s, compressions)
}

const (
	// sampleBytes is how much of a batch is compressed to see what comes of it, and sampleEvery after how
	// many batches of a topic that is done again: a hundredth of the work, so that data that cannot be
	// compressed cost nothing to speak of.
	sampleBytes = 32 << 10
	sampleEvery = 64

	// worthRatio is what lz4 must make of a sample. It runs at 500 MB/s and more, about the rate at which the
	// transform makes such messages: below half, the time is won back on the way to three replicas.
	worthRatio = 0.5
)

// packer compresses what one producer writes.
type packer struct {
	by   Compression
	with *recordbatch.Compressor

	mu     sync.Mutex
	topics map[string]*sampled
}

// sampled is what auto knows of a topic.
type sampled struct {
	codec recordbatch.Codec
	left  int // batches until the next sample
}

// pack compresses the batch at b[at:], where it stands; limit is what its topic takes.
func (p *packer) pack(b []byte, at int, topic string, limit int) []byte {
	packed, err := p.with.Compress(b, at, p.codec(b[at:], topic, limit))
	if err != nil { // writing to memory does not fail; the batch is as it was
		return b
	}
	return packed
}

func (p *packer) codec(batch []byte, topic string, limit int) recordbatch.Codec {
	switch {
	case p.by != CompressAuto:
		return recordbatch.Codec(p.by)
	case len(batch) > limit:
		return recordbatch.Zstd
	}
	return p.sample(batch, topic)
}

// sample looks into every so many batches of a topic.
func (p *packer) sample(batch []byte, topic string) recordbatch.Codec {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.topics[topic]
	if !ok {
		s = &sampled{}
		p.topics[topic] = s
	}
	if s.left--; s.left >= 0 {
		return s.codec
	}
	s.codec, s.left = recordbatch.None, sampleEvery
	middle := max(0, len(batch)-sampleBytes) / 2
	part := batch[middle:min(len(batch), middle+sampleBytes)]
	if packed, err := p.with.Encode(nil, part, recordbatch.LZ4); err == nil && float64(len(packed)) <= worthRatio*float64(len(part)) {
		s.codec = recordbatch.LZ4
	}
	return s.codec
}

// encoding is how batches for a topic are written; limit is what it takes. A message that is larger than that is
// compressed while it is written, so that it is never in memory in one piece.
func (p *packer) encoding(topic string, limit int) encoding {
	return func(b []byte, recs []recordbatch.Record, producer recordbatch.Producer) []byte {
		if p.streams(recs, limit) {
			if packed, ok := p.with.Pack(b, recs, producer, p.large()); ok {
				return packed
			}
		}
		at := len(b)
		return p.pack(recordbatch.Append(b, recs, producer), at, topic, limit)
	}
}

// streams says whether this is one message that its topic does not take as it is.
func (p *packer) streams(recs []recordbatch.Record, limit int) bool {
	return p.by != CompressNone && len(recs) == 1 && recordbatch.Size(recs) > limit
}

// large is the codec of a message that is larger than its topic takes.
func (p *packer) large() recordbatch.Codec {
	if p.by == CompressAuto {
		return recordbatch.Zstd
	}
	return recordbatch.Codec(p.by)
}

// size is what one record takes as a batch of its own, compressed if that is what becomes of it.
func (p *packer) size(record []recordbatch.Record, limit int) int {
	if p.streams(record, limit) {
		return p.with.PackedSize(record, p.large())
	}
	return recordbatch.Size(record)
}
