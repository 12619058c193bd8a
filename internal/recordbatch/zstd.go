package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
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

// sequenceCoder writes the sequences of a block (RFC 8878, section 3.1.1.3.2): of each the lengths and the offset as codes, which are coded
// by how frequent they are (finite state entropy), and the bits that tell apart what has one code.
type sequenceCoder struct {
	repeated                  uint32 // the offset of the sequence before, as the reader knows it
	codes                     []sequenceCodes
	literals, offset, matches stateTable
}

type sequenceCodes struct{ literals, offset, match uint8 }

// lengthCode is the code of some lengths: they begin at base, and extra bits tell them apart.
type lengthCode struct {
	base  uint32
	extra uint8
}

// literalLengths and matchLengths are the codes of lengths; those of matches are less the shortest one.
var (
	literalLengths = lengthCodes([]uint8{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	matchLengths   = lengthCodes([]uint8{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
)

const leastMatch = 3 // of the format

func lengthCodes(extra []uint8) (codes []lengthCode) {
	base := uint32(0)
	for _, bits := range extra {
		codes = append(codes, lengthCode{base, bits})
		base += 1 << bits
	}
	return codes
}

// shortLengths are the codes of lengths below 128.
func shortLengths(codes []lengthCode) (short [128]uint8) {
	code := 0
	for n := range short {
		if code+1 < len(codes) && uint32(n) >= codes[code+1].base {
			code++
		}
		short[n] = uint8(code)
	}
	return short
}

var shortLiterals, shortMatches = shortLengths(literalLengths), shortLengths(matchLengths)

// Lengths of 128 and more, less the shortest match, have as many codes as they have numbers of bits.
func literalCode(n uint32) uint8 {
	if n < 128 {
		return shortLiterals[n]
	}
	return uint8(bits.Len32(n) + 18)
}

func matchCode(n uint32) uint8 {
	if n < 128 {
		return shortMatches[n]
	}
	return uint8(bits.Len32(n) + 35)
}

func (c *sequenceCoder) append(dst []byte, sequences []zstdSequence) []byte {
	switch n := len(sequences); {
	case n == 0:
		return append(dst, 0)
	case n < 128:
		dst = append(dst, byte(n))
	case n < 0x7f00:
		dst = append(dst, byte(n>>8)+128, byte(n))
	default:
		dst = binary.LittleEndian.AppendUint16(append(dst, 255), uint16(n-0x7f00))
	}
	c.encode(sequences)
	modes := len(dst)
	dst = append(dst, 0)
	for i, t := range []*stateTable{&c.literals, &c.offset, &c.matches} {
		var mode byte
		dst, mode = t.build(dst, len(sequences))
		dst[modes] |= mode << (6 - 2*i)
	}
	return c.stream(dst, sequences)
}

// encode makes the codes, and counts them. In the place of an offset sequences have what stands for it from now on.
func (c *sequenceCoder) encode(sequences []zstdSequence) {
	c.codes = c.codes[:0]
	c.literals.reset()
	c.offset.reset()
	c.matches.reset()
	for i := range sequences {
		s := &sequences[i]
		s.match -= leastMatch
		if s.offset == c.repeated && s.literals > 0 {
			s.offset = 1
		} else {
			c.repeated = s.offset
			s.offset += 3
		}
		code := sequenceCodes{literalCode(s.literals), uint8(bits.Len32(s.offset) - 1), matchCode(s.match)}
		c.literals.count[code.literals]++
		c.offset.count[code.offset]++
		c.matches.count[code.match]++
		c.codes = append(c.codes, code)
	}
}

// stream appends the codes and their extra bits from the last to the first: readers begin at the end.
func (c *sequenceCoder) stream(dst []byte, sequences []zstdSequence) []byte {
	w := bitWriter{bytes: dst}
	var literals, offset, match uint32 // states
	for i := len(sequences) - 1; i >= 0; i-- {
		s, code := &sequences[i], &c.codes[i]
		if i == len(sequences)-1 {
			literals, offset, match = c.literals.first(code.literals), c.offset.first(code.offset), c.matches.first(code.match)
		} else {
			offset = c.offset.next(&w, offset, code.offset)
			match = c.matches.next(&w, match, code.match)
			literals = c.literals.next(&w, literals, code.literals)
		}
		w.flush()
		of := literalLengths[code.literals]
		w.add(s.literals-of.base, of.extra)
		of = matchLengths[code.match]
		w.add(s.match-of.base, of.extra)
		w.add(s.offset-1<<code.offset, code.offset)
		w.flush()
	}
	c.matches.end(&w, match)
	c.offset.end(&w, offset)
	c.literals.end(&w, literals)
	w.add(1, 1) // where the bits end
	return w.close()
}

// bitWriter appends bits, the lowest first.
type bitWriter struct {
	bytes []byte
	bits  uint64
	n     uint8 // bits that are not in bytes
}

// add takes the lowest n bits of some of which no other is set, at most 57 between two flushes.
func (w *bitWriter) add(bits uint32, n uint8) {
	w.bits |= uint64(bits) << (w.n & 63)
	w.n += n
}

// flush leaves fewer than eight bits.
func (w *bitWriter) flush() {
	w.bytes = binary.LittleEndian.AppendUint64(w.bytes, w.bits)
	whole := w.n / 8
	w.bytes = w.bytes[:len(w.bytes)-8+int(whole)]
	w.bits >>= 8 * whole
	w.n &= 7
}

// close writes what is left, and zeros up to the next byte.
func (w *bitWriter) close() []byte {
	w.flush()
	if w.n > 0 {
		w.bytes = append(w.bytes, byte(w.bits))
	}
	return w.bytes
}

// stateTable codes the codes of sequences by how frequent they are in a block: finite state entropy, a state machine of which frequent
// codes have many states, so that going to one of these takes few bits (RFC 8878, section 4.1).
type stateTable struct {
	count  [mostCodes]uint32
	shares [mostCodes]uint32 // states of each code, 2^log in all
	log    uint8
	steps  [mostCodes]stateStep
	states [1 << mostStates]uint16 // from 2^log on: those of the first code, in order, then those of the next
	codes  [1 << mostStates]uint8  // the code of each state, less 2^log
}

// stateStep is how a code changes the state.
type stateStep struct {
	bits uint32 // added to a state it has the number of bits to write above the lowest 16
	from int32  // added to what is left of the state it is a place in states
}

const (
	mostCodes   = 53 // of any kind
	leastStates = 5  // bits
	mostStates  = 8  // bits: no kind has fewer
	oneCode     = 1  // mode of a table of one code, which takes no bits
	withShares  = 2  // … of a table that stands before the codes
)

func (t *stateTable) reset() { t.count = [mostCodes]uint32{} }

// build makes a table for n counted codes, and appends it to dst.
func (t *stateTable) build(dst []byte, n int) (longer []byte, mode byte) {
	kinds, last := 0, 0
	for code, count := range t.count {
		if count > 0 {
			kinds, last = kinds+1, code
		}
	}
	if kinds == 1 {
		t.log, t.steps[last], t.states[0] = 0, stateStep{}, 0
		return append(dst, byte(last)), oneCode
	}
	t.log = uint8(min(max(bits.Len(uint(n-1)), leastStates), mostStates))
	t.share(uint64(n))
	t.spread()
	t.number()
	return t.appendShares(dst), withShares
}

// share gives each of n codes its part of the states, and each kind at least one.
func (t *stateTable) share(n uint64) {
	all := int32(1) << t.log
	left, largest := all, 0
	for code, count := range t.count {
		t.shares[code] = 0
		if count > 0 {
			t.shares[code] = max(uint32(uint64(count)<<t.log/n), 1)
		}
		left -= int32(t.shares[code])
		if t.shares[code] > t.shares[largest] {
			largest = code
		}
	}
	for ; left < 0; left++ { // there were many of less than one
		for code, share := range t.shares {
			if share > t.shares[largest] {
				largest = code
			}
		}
		t.shares[largest]--
	}
	t.shares[largest] += uint32(left)
}

func (t *stateTable) spread() {
	size := uint32(1) << t.log
	step, at := size>>1+size>>3+3, uint32(0)
	for code, share := range t.shares {
		for range share {
			t.codes[at] = uint8(code)
			at = (at + step) & (size - 1)
		}
	}
}

// number finds the steps.
func (t *stateTable) number() {
	var place [mostCodes]uint32
	before := uint32(0)
	for code, share := range t.shares {
		place[code] = before
		if share > 0 {
			most := uint32(t.log) - uint32(max(bits.Len32(share-1)-1, 0)) // bits to write, or one less
			t.steps[code] = stateStep{most<<16 - share<<most, int32(before) - int32(share)}
		}
		before += share
	}
	size := 1 << t.log
	for i, code := range t.codes[:size] {
		t.states[place[code]] = uint16(size + i)
		place[code]++
	}
}

// first is a state of a code before which nothing is written.
func (t *stateTable) first(code uint8) uint32 {
	if t.log == 0 {
		return 0
	}
	step := t.steps[code]
	n := (step.bits + 1<<15) >> 16
	return uint32(t.states[int32((n<<16-step.bits)>>n)+step.from])
}

// next writes what a reader needs to come from the next state to this one, and returns the next.
func (t *stateTable) next(w *bitWriter, state uint32, code uint8) uint32 {
	if t.log == 0 {
		return 0
	}
	step := t.steps[code]
	n := (state + step.bits) >> 16
	w.add(state&(1<<n-1), uint8(n))
	return uint32(t.states[int32(state>>n)+step.from])
}

// end writes the state that a reader begins with.
func (t *stateTable) end(w *bitWriter, state uint32) { w.add(state&(1<<t.log-1), t.log) }

// appendShares appends the table: the share of each code in as many bits as what is left may need, and after a code without states how
// many more there are.
func (t *stateTable) appendShares(dst []byte) []byte {
	w := bitWriter{bytes: dst}
	w.add(uint32(t.log-leastStates), 4)
	left, threshold, wide := uint32(1)<<t.log+1, uint32(1)<<t.log, t.log+1
	for code := 0; left > 1; {
		share := t.shares[code]
		code++
		short := 2*threshold - 1 - left // values below it take a bit less
		left -= share
		value := share + 1
		if value >= threshold {
			value += short
		}
		n := wide
		if value < short {
			n--
		}
		w.add(value, n)
		for left < threshold {
			wide, threshold = wide-1, threshold>>1
		}
		w.flush()
		if share > 0 {
			continue
		}
		none := 0
		for t.shares[code] == 0 {
			none, code = none+1, code+1
		}
		for ; none >= 3; none -= 3 {
			w.add(3, 2)
			w.flush()
		}
		w.add(uint32(none), 2)
		w.flush()
	}
	return w.close()
}

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
