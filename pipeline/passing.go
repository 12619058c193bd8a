package pipeline

import "time"

// passing is what was said of the rows that the learner set aside as a change, and gave up because it did not last: most faults are such rows.
type passing struct {
	rows uint64 // of Learn.released
	at   time.Time
}

const passingEvery = time.Minute // between two lines

// sayPassing logs what was given up, once all is over that was set aside. With drift off it is given up at once, and may go on.
func (l *Learn) sayPassing() {
	rows := l.released - l.said.rows
	if l.oneOfMany || !l.Learner.Drift || rows == 0 || l.learner.Quarantined() > 0 || l.Now().Sub(l.said.at) < passingEvery {
		return
	}
	l.Log.Info("a change did not last: its rows were not learnt", "model_id", l.ModelID, "set_aside", rows, "rows", l.learner.Info().Rows)
	l.said = passing{l.released, l.Now()}
}
