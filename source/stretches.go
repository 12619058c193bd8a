package source

import (
	"math/bits"
	"slices"
)

// A range with an end can be read in part: one stretch of each period, which is OneIn times as long. Brokers are not asked for
// what lies between. Where a stretch begins within its period follows a sequence that is spread evenly and repeats nothing, so
// that neither a cycle of the data nor the marks of transactions can keep time with it. It depends on the range alone.

const (
	stretchesPerRange = 64 // of a partition
	leastStretch      = 16 // offsets: fewer save no bytes, because requests bring more
)

// WorthSampling reports whether a range of offsets is long enough to be read in stretches (KafkaConfig.OneIn).
func WorthSampling(offsets, oneIn int64) bool {
	return oneIn > 1 && offsets/oneIn >= stretchesPerRange*leastStretch
}

// stretches are those of one partition.
type stretches struct {
	first          int64 // offset of the range
	length, period int64 // period 0: everything is read
}

func stretchesOf(start, end, oneIn int64) stretches {
	if oneIn <= 1 || end <= start {
		return stretches{}
	}
	length := max((end-start)/oneIn/stretchesPerRange, leastStretch)
	return stretches{first: start, length: length, period: length * oneIn}
}

// of returns the bounds of the stretch in the period of an offset.
func (s stretches) of(offset int64) (begin, end int64) {
	n := max(offset-s.first, 0) / s.period
	golden := uint64(0x9E3779B97F4A7C15) * uint64(n+1) // n over the golden ratio, of which the fraction counts
	within, _ := bits.Mul64(golden, uint64(s.period-s.length+1))
	begin = s.first + n*s.period + int64(within)
	return begin, begin + s.length
}

// next returns the first offset from one on that is read.
func (s stretches) next(offset int64) int64 {
	if s.period == 0 {
		return offset
	}
	begin, end := s.of(offset)
	if offset >= end {
		begin, _ = s.of(s.first + (max(offset-s.first, 0)/s.period+1)*s.period)
	}
	return max(begin, offset)
}

// thin drops what lies between the stretches. A batch that cannot be read counts if any of its offsets does.
func (s stretches) thin(p *portion) {
	if s.period == 0 {
		return
	}
	p.records = slices.DeleteFunc(p.records, func(r Record) bool { return s.next(r.Offset) != r.Offset })
	p.rejected = slices.DeleteFunc(p.rejected, func(r Rejected) bool { return s.next(r.Offset) > r.Last })
	p.done()
}
