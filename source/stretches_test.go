package source

import (
	"testing"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// A range that is read in stretches has one offset in as many, from its beginning to its end, however it is cut into responses.
func TestStretches(t *testing.T) {
	for _, c := range []struct{ start, end, oneIn int64 }{{0, 100_000, 10}, {12_345, 250_000, 3}, {7, 64 * 16 * 100, 100}, {5, 900, 7}} {
		s := stretchesOf(c.start, c.end, c.oneIn)
		var want []int64
		for o := c.start; o < c.end; o++ {
			if s.next(o) == o {
				want = append(want, o)
			}
		}
		share := float64(len(want)) * float64(c.oneIn) / float64(c.end-c.start)
		if WorthSampling(c.end-c.start, c.oneIn) != (c.end-c.start >= 1024*c.oneIn) || (WorthSampling(c.end-c.start, c.oneIn) && (share < .97 || share > 1.03)) {
			t.Errorf("%+v: %d offsets, %.3f of the share", c, len(want), share)
		}
		for _, response := range []int64{1, 5, 70, 4000} {
			var got []int64
			for at := s.next(c.start); at < c.end; at = s.next(at) {
				p := &portion{}
				for ; len(p.records) < int(response) && at < c.end; at++ {
					p.records = append(p.records, recordbatch.Record{Offset: at})
				}
				s.thin(p)
				for _, r := range p.records {
					got = append(got, r.Offset)
				}
			}
			if len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
				t.Errorf("%+v: %d offsets in responses of %d, want %d", c, len(got), response, len(want))
			}
		}
	}
}

// Where a stretch begins keeps time with no cycle: of each hour of a day, each minute of an hour, … about as much is read.
func TestStretchesKeepNoTime(t *testing.T) {
	const end = 640_000
	s := stretchesOf(0, end, 10) // one stretch of 1000 in 10 000
	for _, cycle := range []int64{20_000, 10_000, 5000, 30_000, 64_000, 80_000} {
		first, all := 0, 0
		for o := int64(0); o < end; o++ {
			if s.next(o) == o {
				if all++; o%cycle < cycle/2 {
					first++
				}
			}
		}
		if share := float64(first) / float64(all); share < .42 || share > .58 {
			t.Errorf("a cycle of %d: %.2f of what is read is of its first half", cycle, share)
		}
	}
}

// A batch that cannot be read is told of if any of its offsets would have been read.
func TestStretchesKeepRejected(t *testing.T) {
	s := stretchesOf(0, 10_000, 10) // stretches of 16 in 160
	begin, end := s.of(0)
	for _, c := range []struct {
		offset, last int64
		kept         bool
	}{{0, begin - 1, begin == 0}, {0, begin, true}, {begin, begin, true}, {end - 1, end + 3, true}, {end, end + 1, false}} {
		p := &portion{rejected: []Rejected{{RecordError: &RecordError{Offset: c.offset}, Last: c.last}}}
		if s.thin(p); (len(p.rejected) > 0) != c.kept {
			t.Errorf("%+v", c)
		}
	}
}
