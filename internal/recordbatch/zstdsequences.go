package recordbatch

import (
	"encoding/binary"
	"math/bits"
)

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

// append appends the section of sequences.
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
