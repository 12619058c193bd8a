package recordbatch

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/klauspost/compress/huff0"
)

// ZstdQuick is Zstd in half of the time and little more room, for rows as text: headers, keys and what else repeats in eight bytes or more is
// found, digits are not searched, and each byte that is left is coded by how frequent it is (Huffman). Readers see zstd.
const ZstdQuick = codecZstd | quickly

// quickly is not written: it is above the bits of a batch's attributes that name its codec.
const quickly codec = 1 << 8

// The parts of a zstd frame (RFC 8878, section 3.1.1).
const (
	zstdMagic     = 0xFD2FB528
	zstdSized     = 2 << 6         // descriptor of a frame whose content size has 4 bytes, with a window
	zstdBlock     = 128 << 10      // the largest block, and the window
	zstdOfBlock   = (17 - 10) << 3 // descriptor of a window of 2^17 bytes
	zstdRaw       = 0 << 1         // type of a block
	zstdRepeated  = 1 << 1         // … of one byte again and again
	zstdPacked    = 2 << 1         // … with literals and sequences
	literalsRaw   = 0 | 3<<2       // type of literals as they are, with a size of 20 bits
	literalsTree  = 2 | 3<<2       // … with a Huffman tree, in four streams
	literalsWidth = 18             // bits of each of their sizes
)

// quickZstd is memory for ZstdQuick.
type quickZstd struct {
	huffman   huff0.Scratch
	last      [1 << quickBits]uint32 // by the hash of eight bytes: the place behind their first byte, where they were met last
	literals  []byte                 // of a block, without what is repeated
	sequences []zstdSequence         // of a block
	coder     sequenceCoder
}

// zstdSequence is some literals, and behind them bytes that are repeated.
type zstdSequence struct {
	literals, match, offset uint32 // how many bytes each, and how far back the match begins
}

const (
	quickBits  = 12
	quickMatch = 8 // bytes of a match at least
)

// append appends src as a frame.
func (z *quickZstd) append(dst, src []byte) []byte {
	clear(z.last[:])
	z.coder.repeated = 1 // as readers begin
	le := binary.LittleEndian
	dst = append(le.AppendUint32(dst, zstdMagic), zstdSized, zstdOfBlock)
	dst = le.AppendUint32(dst, uint32(len(src)))
	for from, last := 0, false; !last; {
		to := min(from+zstdBlock, len(src))
		last = to == len(src)
		dst = z.appendBlock(dst, src, from, to, last)
		from = to
	}
	return dst
}

// appendBlock appends src[from:to] as a block, or as it is where that is not larger.
func (z *quickZstd) appendBlock(dst, src []byte, from, to int, last bool) []byte {
	z.find(src, from, to)
	at, repeated := len(dst), z.coder.repeated
	dst, one := z.appendLiterals(appendBlockHeader(dst, zstdPacked, 0, last))
	if one && len(z.sequences) == 0 {
		return append(appendBlockHeader(dst[:at], zstdRepeated, to-from, last), src[from])
	}
	dst = z.coder.append(dst, z.sequences)
	size := len(dst) - at - blockHeader
	if size >= to-from { // also of a few bytes, and of noise
		z.coder.repeated = repeated
		return append(appendBlockHeader(dst[:at], zstdRaw, to-from, last), src[from:to]...)
	}
	appendBlockHeader(dst[:at], zstdPacked, size, last)
	return dst
}

// find divides a block into sequences and literals. A match may begin in an earlier block.
func (z *quickZstd) find(src []byte, from, to int) {
	z.literals, z.sequences = z.literals[:0], z.sequences[:0]
	le := binary.LittleEndian
	done := from // what is before it is divided
	for s := from; s+quickMatch <= to; {
		eight := le.Uint64(src[s:])
		if n := leadingDigits(eight); n > 0 {
			s += n
			continue
		}
		known := &z.last[eight*0x9E3779B185EBCA87>>(64-quickBits)]
		at := int(*known) - 1
		*known = uint32(s + 1)
		if at < 0 || s-at > zstdBlock || le.Uint64(src[at:]) != eight {
			s += 1 + (s-done)>>7 // what has no repetitions is passed faster and faster
			continue
		}
		end := s + quickMatch + common(src[at+quickMatch:], src[s+quickMatch:to])
		offset := s - at
		for s > done && s > offset && src[s-1] == src[s-1-offset] {
			s--
		}
		z.literals = append(z.literals, src[done:s]...)
		z.sequences = append(z.sequences, zstdSequence{uint32(s - done), uint32(end - s), uint32(offset)})
		s, done = end, end
	}
	z.literals = append(z.literals, src[done:to]...)
}

// leadingDigits is how many of eight bytes, from the lowest on, are digits before the first that is none. Text that begins with a digit hardly
// repeats; where it does, the match behind it is extended to it.
func leadingDigits(eight uint64) int {
	const zeros, most, high = 0x3030303030303030, 0x7676767676767676, 0x8080808080808080
	eight ^= zeros // 0 to 9 for digits
	return bits.TrailingZeros64((eight&^high+most|eight)&high) / 8
}

// common is how many bytes two texts have in common at their beginnings.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for ; i+8 <= n; i += 8 {
		if differ := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); differ != 0 {
			return i + bits.TrailingZeros64(differ)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// appendLiterals appends the section of literals, and reports whether all are one byte, which may be none.
func (z *quickZstd) appendLiterals(dst []byte) (longer []byte, one bool) {
	n := len(z.literals)
	z.huffman.Reuse = huff0.ReusePolicyNone
	packed, _, err := huff0.Compress4X(z.literals, &z.huffman)
	if err != nil || len(packed) >= n {
		size := literalsRaw | uint32(n)<<4
		return append(append(dst, byte(size), byte(size>>8), byte(size>>16)), z.literals...), n > 0 && errors.Is(err, huff0.ErrUseRLE)
	}
	sizes := literalsTree | uint64(n)<<4 | uint64(len(packed))<<(4+literalsWidth)
	dst = append(dst, byte(sizes), byte(sizes>>8), byte(sizes>>16), byte(sizes>>24), byte(sizes>>32))
	return append(dst, packed...), false
}

const blockHeader = 3

func appendBlockHeader(dst []byte, kind, size int, last bool) []byte {
	h := kind | size<<3
	if last {
		h |= 1
	}
	return append(dst, byte(h), byte(h>>8), byte(h>>16))
}
