package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

var (
	errRuns   = errors.New("its runs of values do not agree with its header")
	errDeltas = errors.New("its differences do not agree with its header")
)

// runs measures levels up to one.
func (g *pageGuard) runs(b []byte, most byte) error {
	if most == 0 {
		return nil
	}
	return g.widthRuns(b, uint64(bits.Len8(most)))
}

// widthRuns measures values that are stored as runs of one value, and as packed groups of eight.
func (g *pageGuard) widthRuns(b []byte, width uint64) error {
	const padding = 1 << 10 // of the last group
	most, count := uint64(g.values())+padding, uint64(0)
	for len(b) > 0 {
		u, n := binary.Uvarint(b)
		if n <= 0 || width > 32 {
			return errRuns
		}
		b = b[n:]
		run, size := u>>1, (width+7)/8
		if u&1 == 1 {
			run, size = u>>1*8, u>>1*width
		}
		if count += run; count > most || u>>1 > most {
			return fmt.Errorf("%w: a page of %d values has runs of %d or more", errRuns, g.values(), count)
		}
		b = b[min(size, uint64(len(b))):]
	}
	return nil
}

// deltas walks over integers that are stored as differences: at most so many. With each it decodes them. It returns what follows.
//
//	header   block size, miniblocks of a block, number of integers; the first integer (varints, the last one zigzag)
//	block    least difference (zigzag varint), a width for each miniblock, and the miniblocks
func deltas(b []byte, most int64, each func(int64)) (rest []byte, err error) {
	number := func() uint64 {
		u, n := binary.Uvarint(b)
		if n <= 0 {
			err = errDeltas
			return 0
		}
		b = b[n:]
		return u
	}
	zigzag := func() int64 { u := number(); return int64(u>>1) ^ -int64(u&1) }
	block, minis, total, value := number(), number(), number(), zigzag()
	if err != nil || total > uint64(most) || minis == 0 || block > 1<<20 || block/minis%8 != 0 || block/minis == 0 {
		return nil, errDeltas
	}
	if total > 0 && each != nil {
		each(value)
	}
	for left := int64(total) - 1; left > 0; {
		least := zigzag()
		if err != nil || uint64(len(b)) < minis {
			return nil, errDeltas
		}
		widths := b[:minis]
		b = b[minis:]
		for _, width := range widths {
			if left <= 0 {
				break
			}
			size := int(block / minis * uint64(width) / 8)
			if width > 64 {
				return nil, errDeltas
			}
			mini := b[:min(size, len(b))] // the last one may be cut
			b = b[len(mini):]
			n := min(left, int64(block/minis))
			left -= n
			for i := 0; i < int(n) && each != nil; i++ {
				value += least + int64(packed(mini, i*int(width), int(width)))
				each(value)
			}
		}
	}
	return b, nil
}

// packed is the number of a width at a bit; bits that are missing are 0.
func packed(b []byte, at, width int) (v uint64) {
	for i := 0; i < width; {
		k := (at + i) / 8
		if k >= len(b) {
			break
		}
		skip := (at + i) % 8
		v |= uint64(b[k]>>skip) << i
		i += 8 - skip
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v
}
