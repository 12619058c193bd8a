package episode

import (
	"sort"
	"time"
)

// Rates is the budget of a partition's rows, as far as these tell how often they come. Each partition has the same share of a budget in time, and so
// none needs to know of the others.
type Rates struct {
	Budget Budget
	Shares int // partitions that share it
	Clock  RowClock

	marks []Mark
}

// Mark is what holds from a message on.
type Mark struct {
	Offset  int64
	Rate    float64       // budget of false episodes per row, as the rows before it tell; 0: they do not
	Elapsed time.Duration // by the clock, with its own rows
}

// Timeless reports whether the budget is in time and none has passed by the rows so far, which are some thousands: then no level is known, and no
// episode opens.
func (r *Rates) Timeless() bool {
	return r.Budget.Per > 0 && r.Clock.Elapsed == 0 && r.Clock.All >= mostBetween
}

// Begin forgets the messages so far: only those to come are asked for.
func (r *Rates) Begin() { r.marks = r.marks[:0] }

// Message takes the next message with rows; a nil stamp is none.
func (r *Rates) Message(offset int64, stamp *time.Time, rows int) {
	rate := r.Budget.Rate(float64(r.Clock.Rows), r.Clock.In)
	if r.Budget.Per > 0 {
		rate /= float64(max(1, r.Shares))
	}
	at := time.Time{}
	if stamp != nil {
		at = *stamp
	}
	for range rows {
		r.Clock.Step(at)
	}
	r.marks = append(r.marks, Mark{offset, rate, r.Clock.Elapsed})
}

// At is what holds at a message that was taken since Begin.
func (r *Rates) At(offset int64) Mark {
	i := sort.Search(len(r.marks), func(i int) bool { return r.marks[i].Offset >= offset })
	if i == len(r.marks) || r.marks[i].Offset != offset {
		return Mark{Offset: offset}
	}
	return r.marks[i]
}
