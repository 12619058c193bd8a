package sink

import (
	"sync"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

const (
	// sampleBytes is how much of a batch is compressed to measure the ratio. Each topic is measured again after
	// sampleEvery batches: a hundredth of the work, so that incompressible data cost next to nothing.
	sampleBytes = 32 << 10
	sampleEvery = 64

	// worthRatio is the ratio that lz4 must reach in a sample. lz4 compresses 500 MB/s and more, about the rate at
	// which the transform makes such messages. Below half, the time is won back on the way to three replicas.
	worthRatio = 0.5

	// betterRatio is the ratio of zstd's size to lz4's in a sample below which zstd is used. It takes twice the time. Of
	// digits, which have no repetitions for lz4 to find, it leaves 0.6, and of small Arrow messages 0.7.
	betterRatio = 0.65

	// matchRatio is the ratio of zstd's size to that of long matches alone in a sample below which short matches are worth
	// twice the time. Of rows of numbers as text they leave 0.9 or more.
	matchRatio = 0.8
)

// packer compresses the batches of one producer: with lz4 for topics where a sample shrinks to half or less, or with zstd where that is much smaller
// still. Small Arrow messages, which all repeat the schema, take lz4, JSON takes zstd, and rows of numbers in Arrow rarely shrink enough. Where short
// repetitions save little, zstd looks for long ones alone, in half of the time. A message that is larger than its topic takes is compressed with zstd.
// A batch that compression does not make smaller is written as it is.
type packer struct {
	on   bool // otherwise nothing is compressed
	with *recordbatch.Compressor

	mu     sync.Mutex
	topics map[string]*sampled
}

// sampled is what was measured for a topic.
type sampled struct {
	codec recordbatch.Codec
	left  int // batches until the next sample
}

// pack compresses the batch at b[at:] in place; limit is the largest batch that its topic takes.
func (p *packer) pack(b []byte, at int, topic string, limit int) []byte {
	packed, err := p.with.Compress(b, at, p.codec(b[at:], topic, limit))
	if err != nil { // writing to memory does not fail; the batch stays as it is
		return b
	}
	return packed
}

func (p *packer) codec(batch []byte, topic string, limit int) recordbatch.Codec {
	switch {
	case !p.on:
		return recordbatch.None
	case len(batch) > limit:
		return recordbatch.Zstd
	}
	return p.sample(batch, topic)
}

// sample measures one batch of a topic out of sampleEvery, and returns the codec to use.
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
	middle := max(0, len(batch)-sampleBytes) / 2
	s.codec, s.left = p.best(batch[middle:min(len(batch), middle+sampleBytes)]), sampleEvery
	return s.codec
}

// best returns the codec for batches like a sample.
func (p *packer) best(part []byte) recordbatch.Codec {
	fast, err := p.with.Encode(nil, part, recordbatch.LZ4)
	if err != nil {
		return recordbatch.None
	}
	small, err := p.with.Encode(nil, part, recordbatch.Zstd)
	switch lz4, zstd := float64(len(fast)), float64(len(small)); {
	case err == nil && zstd <= betterRatio*lz4 && zstd <= worthRatio*float64(len(part)):
		return p.zstd(part, zstd)
	case lz4 <= worthRatio*float64(len(part)):
		return recordbatch.LZ4
	}
	return recordbatch.None
}

// zstd returns how zstd compresses batches like a sample, of which it makes size bytes if it looks for all matches.
func (p *packer) zstd(part []byte, size float64) recordbatch.Codec {
	quick, err := p.with.Encode(nil, part, recordbatch.ZstdQuick)
	if err == nil && size > matchRatio*float64(len(quick)) {
		return recordbatch.ZstdQuick
	}
	return recordbatch.Zstd
}

// encoding returns how a batch for a topic is encoded, and for how many bytes it needs room; limit is the largest batch
// that the topic takes, most an upper bound of this one's size. A message that is larger than limit is compressed
// while it is encoded, so that it is never in memory in one piece.
func (p *packer) encoding(recs []recordbatch.Record, topic string, limit, most int) (encode encoding, room int) {
	if p.plain(recs, topic, limit) {
		return recordbatch.AppendCut, recordbatch.CutSize(recs)
	}
	large := p.streams(recs, limit)
	if large {
		most = limit
	}
	return func(b []byte, cuts []recordbatch.Cut, recs []recordbatch.Record, producer recordbatch.Producer) ([]byte, []recordbatch.Cut) {
		if large {
			if packed, ok := p.with.Pack(b, recs, producer); ok {
				return packed, cuts
			}
		}
		at := len(b)
		return p.pack(recordbatch.Append(b, recs, producer), at, topic, limit), cuts
	}, most
}

// plain reports whether a batch is neither compressed nor a sample.
func (p *packer) plain(recs []recordbatch.Record, topic string, limit int) bool {
	if !p.on {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.topics[topic]
	if !ok || s.left <= 0 || s.codec != recordbatch.None || recordbatch.Size(recs) > limit {
		return false
	}
	s.left--
	return true
}

// streams reports whether recs is a single message that is too large for its topic unless it is compressed.
func (p *packer) streams(recs []recordbatch.Record, limit int) bool {
	return p.on && len(recs) == 1 && recordbatch.Size(recs) > limit
}

// size returns the size of one record as a batch of its own, compressed if it would be written so.
func (p *packer) size(record []recordbatch.Record, limit int) int {
	if p.streams(record, limit) {
		return p.with.PackedSize(record)
	}
	return recordbatch.Size(record)
}
