package watch

import "github.com/lca-stream/lca-stream/lca/internal/state"

// Refusals is the watchdog of a learner that refuses most of what comes: whatever its gate is set to, a metric that does not know
// most rows is of no use, and because it learns none of them it would never know them.
//
// It counts as many rows as the pool holds, or twice those that a change must last for if that is more. When more than half of them were
// refused, the rows that follow are collected, anomalous or not, as many as a warm-up's. The learner then restarts from
// them with an alarm. Until then the metric stays, and it is right after all if it knows the rows that follow. With Drift off the metric stays for
// good, as the caller wants it however long a change lasts, and there is an alarm alone.
//
// Fewer refused rows may be right: outliers are not to be learnt. But if they are more than one in fifty, where the gate expects one
// in two thousand, all the time for refusedRows, this is an alarm, once until they have become half as many.
type Refusals struct {
	rows, refused uint64
	Tripped       bool
	lasting       uint64 // rows for which many have been refused
}

const (
	refusedMany = 0.02
	refusedRows = 9000
)

// Count counts rows and those of them that were refused, and judges each time that there are at least least. It reports whether many have now been refused
// for long, or most by a learner that does not restart, and which share of the last ones.
func (k *Refusals) Count(rows, refused, least int, restarts bool) (share float64, alarm bool) {
	k.rows += uint64(rows)
	k.refused += uint64(refused)
	if k.rows >= uint64(least) {
		most := 2*k.refused > k.rows
		k.Tripped = restarts && (k.Tripped || most)
		switch share = float64(k.refused) / float64(k.rows); {
		case share > refusedMany:
			before := k.lasting
			if k.lasting += k.rows; most && !restarts {
				k.lasting = max(k.lasting, refusedRows)
			}
			if before < refusedRows && k.lasting >= refusedRows {
				alarm = true
			}
		case share < refusedMany/2 || k.lasting < refusedRows:
			k.lasting = 0
		}
		k.rows, k.refused = 0, 0
	}
	return share, alarm
}

// Tell says that what was refused has been told: no alarm follows for as long as it lasts.
func (k *Refusals) Tell() { k.lasting = refusedRows }

// Fields passes the counts to a state or from one.
func (k *Refusals) Fields(f *state.Fields) {
	f.U64(&k.rows, &k.refused)
	f.Flag(&k.Tripped)
	f.U64(&k.lasting)
}
