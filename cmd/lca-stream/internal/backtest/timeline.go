package backtest

import "math"

// mostBins bounds the stretches of a timeline.
const mostBins = 640

// timeline has the least p of each stretch of rows. All stretches have the same number of rows, which doubles as the file goes on.
type timeline struct {
	Bins []bin
	each int64 // rows of one
}

// bin is a stretch of rows.
type bin struct {
	Row    int64   // the first
	At     *int64  // ms since 1970
	P      float64 // of the rarest row; 1: there is none with a score
	Faulty bool    // some row is labelled
}

// add takes the next row.
func (t *timeline) add(row int64, at moment, p float64, faulty bool) {
	t.each = max(t.each, 1)
	if row/t.each >= mostBins {
		half := t.Bins[:0]
		for i, b := range t.Bins {
			if i%2 == 0 {
				half = append(half, b)
				continue
			}
			last := &half[len(half)-1]
			last.P, last.Faulty = min(last.P, b.P), last.Faulty || b.Faulty
		}
		t.Bins, t.each = half, 2*t.each
	}
	if row%t.each == 0 {
		b := bin{Row: row, P: 1}
		if at.known {
			ms := at.micros / 1000
			b.At = &ms
		}
		t.Bins = append(t.Bins, b)
	}
	last := &t.Bins[len(t.Bins)-1]
	last.P, last.Faulty = min(last.P, p), last.Faulty || faulty
}

// calibrated are the probabilities that a page looks at.
var calibrated = [...]float64{0.1, 0.01, 0.001, 0.0001}

// calibration counts rows by their p: below which it is as seldom as it says, if the scores are right.
type calibration struct {
	rows, apart    int64 // with a score; of them in no episode, and with labels in no fault
	below, without [len(calibrated)]int64
}

func (c *calibration) add(p float64, unusual bool) {
	if math.IsNaN(p) {
		return
	}
	c.rows++
	if !unusual {
		c.apart++
	}
	for k, most := range calibrated {
		if p < most {
			c.below[k]++
			if !unusual {
				c.without[k]++
			}
		}
	}
}
