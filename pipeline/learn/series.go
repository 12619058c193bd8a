package learn

import (
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// turns finds out which series the rows of a message are of. They are those of the transform: the values of one partition, and the rows that have none.
type turns struct {
	by        modelkey.By
	partition int32
	whole     uint64          // of all rows of the message, unless a column has the values
	values    modelkey.Values // of the column
	ids       []uint64        // of the rows that were taken

	messages int  // that were read
	found    bool // a row had a value
	said     bool // none has
}

// begin is called with each message.
func (t *turns) begin(by modelkey.By, m *source.Message) {
	t.by, t.partition = by, m.Partition.ID
	t.messages++
	switch by.Place {
	case modelkey.None:
		t.whole = minibatch.SeriesOf(m.Partition.ID)
	case modelkey.Column:
		t.values, _ = by.Column(m.Record) // what cannot be read is no value
	default:
		value := by.Whole(m)
		t.found = t.found || value != nil
		t.whole = modelkey.SeriesID(m.Partition.ID, string(value), value != nil)
	}
}

func (t *turns) end() { t.values.Release() }

// of is the identity of the series of a row of the message.
func (t *turns) of(row int) uint64 {
	if t.by.Place != modelkey.Column {
		return t.whole
	}
	value, ok := t.values.Whole(row)
	t.found = t.found || ok
	return modelkey.SeriesID(t.partition, value, ok)
}

// saySeries warns once that no row has a value of transform.series, which may be misspelt. ends says that no more messages come.
func (l *Learn) saySeries(ends bool) {
	t := &l.turns
	if l.oneOfMany || !l.Series.Keyed() || t.found || t.said || t.messages == 0 || t.messages < neverThere && !ends {
		return
	}
	t.said = true
	l.Log.Warn("no row has a value of transform.series: all rows of a partition are one series", "series", l.Series.String(), "messages", t.messages,
		"remedy", "correct transform.series")
}

// SeriesState returns a copy of the learner's series of a value in a partition, nil for rows without one; a zero Series where it has none.
func (l *Learn) SeriesState(partition int32, value []byte) *recent.Series {
	return l.learner.SeriesState(l.Series.Series(partition, value))
}

// fills reports whether the transform fills what is missing. Such rows have a score, and so they are rows of their series.
func (c *LearnConfig) fills() bool { return c.OnInvalid == reject.ImputeRow }

// readable finds out whether the transform sets a message aside: because its features cannot be read, or for one of its rows. Then none of its rows is
// learnt or moves its series on, as none is scored. Dead letters that are corrected come to the source again.
func readable(on reject.OnInvalid, f *minibatch.Features, rows *minibatch.Rows, m *source.Message) (bad *source.RecordError) {
	err := reject.GatherEach(f, rows, m.Record, func(first int) error {
		if on != reject.RejectRow || bad != nil {
			return nil
		}
		for i, reason := range rows.Invalid {
			if reason != minibatch.ReasonNone {
				bad = reject.InvalidRow(m, first+i, reason)
				break
			}
		}
		return nil
	})
	if err != nil {
		return encode.Refused(m, err)
	}
	return bad
}

// seriesRows sets x, ids and turns to the rows of a slice of a message, which begins at row first, that are learnt or fill a series.
func (l *Learn) seriesRows(id minibatch.RowIDs, offset int64, before, first int) {
	l.x, l.ids, l.turns.ids = l.x[:0], l.ids[:0], l.turns.ids[:0]
	for i, reason := range l.rows.Invalid {
		if reason != minibatch.ReasonNone && l.rows.Missing(i) == 0 {
			continue
		}
		l.x = append(l.x, l.rows.X[i*l.rows.Dim:(i+1)*l.rows.Dim]...)
		l.ids, l.turns.ids = append(l.ids, id.ID(offset, before+first+i)), append(l.turns.ids, l.turns.of(first+i))
	}
}
