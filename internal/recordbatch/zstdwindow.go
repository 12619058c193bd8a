package recordbatch

import (
	"bytes"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// A zstd frame names the window that its decompressor has to remember, up to 128 MiB at the highest level.
// Java's producers stream, so they write the window of their level without knowing the size, and the
// content may be much smaller. Memory is for the content alone: where that is at most n bytes, no match
// reaches further back than n, and a window of n does as well as a larger one. So a wider one is written
// over, in a copy. Where the content is larger, a match or a block that does not fit into the window may be
// what shows it.

// windowOf returns the descriptor of the smallest window of at least n bytes, and its bytes.
func windowOf(n int) (descriptor byte, size int) {
	n = max(n, zstd.MinWindowSize)
	exponent := bits.Len(uint(n)) - 1
	base := 1 << exponent
	eighths := (n - base + base/8 - 1) / (base / 8)
	if eighths == 8 {
		exponent, base, eighths = exponent+1, 2*base, 0
	}
	return byte((exponent-10)<<3 | eighths), base + eighths*base/8
}

// narrowed returns src with the windows of all its frames at most size bytes, which is what descriptor says, and whether one was wider.
// What does not parse it leaves for the decompressor to refuse.
func narrowed(src []byte, descriptor byte, size int) (_ []byte, copied bool, _ error) {
	for at := 0; at < len(src); {
		var h zstd.Header
		if err := h.Decode(src[at:]); err != nil {
			return src, copied, nil
		}
		if h.WindowSize > uint64(size) && !h.SingleSegment {
			if !copied {
				src, copied = bytes.Clone(src), true
			}
			src[at+len("\x28\xb5\x2f\xfd")+1] = descriptor // behind the magic number and the frame's descriptor
		}
		n := frameSize(src[at:], &h)
		if n <= 0 {
			return nil, copied, io.ErrUnexpectedEOF
		}
		at += n
	}
	return src, copied, nil
}

// frameSize is how many bytes a frame takes; 0 where it does not end.
func frameSize(src []byte, h *zstd.Header) int {
	if h.Skippable {
		return h.HeaderSize + int(h.SkippableSize)
	}
	const rle = 1 // of the block types the one that takes a single byte, however long it says it is
	for at := h.HeaderSize; at+3 <= len(src); {
		block := int(src[at]) | int(src[at+1])<<8 | int(src[at+2])<<16
		size := block >> 3
		if block>>1&3 == rle {
			size = 1
		}
		at += 3 + size
		if block&1 == 0 {
			continue
		}
		if h.HasCheckSum {
			at += 4
		}
		return at
	}
	return 0
}
