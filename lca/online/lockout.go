package online

// lockout is the watchdog of a learner that refuses most of what comes: whatever its gate and its drift are set to,
// a metric that does not know most rows is of no use, and because it learns none of them it would never know them.
//
// It counts as many rows as the pool holds, or twice those that a change must last for if that is more. When more than half of them were
// refused, the rows that follow are collected, anomalous or not, as many as a warm-up's. The learner then restarts from
// them with an alarm. Until then the metric stays.
type lockout struct {
	rows, refused uint64
	tripped       bool
}

// watch counts a step, and judges each time that there are at least rows of them.
func (k *lockout) watch(s *Step, rows int) {
	k.rows += uint64(s.Rows)
	k.refused += uint64(s.Gated + s.Quarantined)
	if k.rows >= uint64(rows) {
		k.tripped = k.tripped || 2*k.refused > k.rows
		k.rows, k.refused = 0, 0
	}
}

func (k *lockout) write(w *writer) {
	w.u64(k.rows)
	w.u64(k.refused)
	w.flag(k.tripped)
}

func (k *lockout) read(r *reader) { *k = lockout{r.u64(), r.u64(), r.flag()} }
