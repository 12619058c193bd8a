package pipeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// tellRows notes the rows that are told of in addition to the output.
func (t *KeyedTransform) tellRows(m *source.Message, w *Whitened, first int, g *rowGroup) {
	q, each := &t.queue, min(namedFeatures, w.K)
	for i := range q.rare {
		r := &q.rare[i]
		e := columnEvent{row: first + g.rows[r.row], shown: r.shown}
		e.rare = t.strange(m, e.row, r, q.gains[i*each:(i+1)*each], w.Features)
		if r.alarm {
			alarm := t.Alarms.anomaly(&e.rare)
			e.alarm = &alarm
		}
		t.rows.events = append(t.rows.events, e)
	}
}

// endRows writes the output of a message.
func (t *KeyedTransform) endRows(ctx context.Context, m *source.Message) error {
	c := &t.rows
	t.model, t.labels = nil, labels{partition: m.Partition, fixed: t.base(m.Partition.ID)}
	if !hasRows(m) {
		if err := t.add(ctx, m); err != nil {
			return err
		}
		return t.flush(ctx)
	}
	value, rest, bad := t.encodeRows(ctx, m)
	if bad == nil {
		bad = c.alarmsFit(m)
	}
	if bad != nil {
		if ctx.Err() != nil { // a schema was waited for
			return ctx.Err()
		}
		return t.refuse(m, bad)
	}
	t.rejects.add(t.Transform.window(), false)
	if value == nil {
		return nil
	}
	t.made.add(t.wrap(m, value, rest), m)
	slices.SortStableFunc(c.events, func(a, b columnEvent) int { return cmp.Compare(a.row, b.row) })
	for i := range c.events {
		e := &c.events[i]
		if e.alarm != nil {
			t.made.add(*e.alarm, m)
		}
		if e.shown && t.counts.strange.takes(e.rare.P, e.rare.Score) {
			t.counts.strange = t.counts.strange.with(e.rare)
		}
	}
	return nil
}

// encodeRows makes the output of a message; nil: it has none.
func (t *KeyedTransform) encodeRows(ctx context.Context, m *source.Message) (value []byte, rest [][]byte, bad *source.RecordError) {
	c := &t.rows
	switch {
	case c.bad != nil:
		return nil, nil, c.bad
	case c.first != nil:
		if !c.withP {
			c.whole.P = nil // a model of an older format
		}
		return t.encode(ctx, m, &c.whole)
	case t.UntilModel == Drop && c.noKeys == 0:
		t.counts.rejected(reasonNoModel, uint64(m.Record.NumRows()))
		return nil, nil, nil
	}
	f, err := minibatch.ResolveRecordWithout(m.Record, t.Columns, t.Models.By.ColumnName())
	if err != nil {
		return nil, nil, refused(m, err)
	}
	if bad := t.tooMuch(m, f.Names); bad != nil {
		return nil, nil, bad
	}
	if value, rest, bad = t.encode(ctx, m, &Whitened{K: len(f.Names)}); bad == nil && int64(c.noKeys) < m.Record.NumRows() {
		t.counts.passedWithoutModel(m)
	}
	return value, rest, bad
}

// alarmsFit refuses a message whose alarms are too much.
func (c *columnRows) alarmsFit(m *source.Message) *source.RecordError {
	size := 0
	for i := range c.events {
		if a := c.events[i].alarm; a != nil {
			size += a.Size()
		}
	}
	return tooManyAlarms(m, size)
}
