package online

// lockout is the watchdog of a learner that refuses most of what comes: whatever its gate is set to, a metric that does not know
// most rows is of no use, and because it learns none of them it would never know them.
//
// It counts as many rows as the pool holds, or twice those that a change must last for if that is more. When more than half of them were
// refused, the rows that follow are collected, anomalous or not, as many as a warm-up's. The learner then restarts from
// them with an alarm. Until then the metric stays, and it is right after all if it knows the rows that follow. With Drift off the metric stays for
// good, as the caller wants it however long a change lasts, and there is an alarm alone.
//
// Fewer refused rows may be right: outliers are not to be learnt. But if they are more than one in fifty, where the gate expects one
// in two thousand, all the time for refusedRows, this is an alarm, once until they have become half as many.
type lockout struct {
	rows, refused uint64
	tripped       bool
	lasting       uint64 // rows for which many have been refused
}

const (
	refusedMany = 0.02
	refusedRows = 9000
)

// watch counts a step, and judges each time that there are at least rows of them. It reports whether many have now been refused for long, or most
// by a learner that does not restart.
func (k *lockout) watch(s *Step, rows int, restarts bool) (alarm bool) {
	k.rows += uint64(s.Rows)
	k.refused += uint64(s.Gated + s.Quarantined)
	if k.rows >= uint64(rows) {
		most := 2*k.refused > k.rows
		k.tripped = restarts && (k.tripped || most)
		switch share := float64(k.refused) / float64(k.rows); {
		case share > refusedMany:
			before := k.lasting
			if k.lasting += k.rows; most && !restarts {
				k.lasting = max(k.lasting, refusedRows)
			}
			if before < refusedRows && k.lasting >= refusedRows {
				s.RefusedShare, alarm = share, true
			}
		case share < refusedMany/2 || k.lasting < refusedRows:
			k.lasting = 0
		}
		k.rows, k.refused = 0, 0
	}
	return alarm
}

func (k *lockout) write(w *writer) {
	w.u64(k.rows)
	w.u64(k.refused)
	w.flag(k.tripped)
	w.u64(k.lasting)
}

func (k *lockout) read(r *reader) {
	*k = lockout{rows: r.u64(), refused: r.u64(), tripped: r.flag(), lasting: r.u64()}
}
