package pipeline

import (
	"time"

	"github.com/lca-stream/lca-stream/lca/online"
)

// passing says which rows the learner set aside as a change, and gave up because it did not last: most faults are such rows.
type passing struct {
	rows uint64
	said time.Time
}

const passingEvery = time.Minute // between two lines

// sayPassing logs what a step has given up, once all is over that was set aside.
func (l *Learn) sayPassing(s online.Step) {
	p := &l.passing
	p.rows += uint64(s.Released)
	if l.oneOfMany || p.rows == 0 || l.learner.Quarantined() > 0 || l.Now().Sub(p.said) < passingEvery {
		return
	}
	l.Log.Info("a change did not last: its rows were not learnt", "model_id", l.ModelID, "set_aside", p.rows, "rows", l.learner.Info().Rows)
	*p = passing{said: l.Now()}
}
