package transform

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// With model.by: column:NAME each row of a message has a model of its own. Rows of one model are whitened together, and brought back to
// their places. The models of a message must have the same features, because its rows have one list of coordinates.

// columnRows is the message whose rows are being whitened.
type columnRows struct {
	values []messageValues // of the messages of the batch

	message int                 // its number
	bad     *source.RecordError // why the message is set aside; nil: it is not
	noKeys  int                 // rows without a value
	first   *models.LoadedModel // the model that decides about the features; nil: no row has one so far
	whole   encode.Whitened     // its rows
	withP   bool                // all models say how rare a score is
	strange []stats.Strange     // rows that may be among the strangest
	read    minibatch.Rows
	groups  []rowGroup
	groupOf []int // of each row; −1: it has no model
}

// messageValues are the values of the rows of a message.
type messageValues struct {
	modelkey.Values
	bad *source.RecordError // why there are none
}

// rowGroup is the rows of one model.
type rowGroup struct {
	model *models.LoadedModel
	rows  []int // of those that are whitened together
}

// noValue is the entry of rows without a value.
var noValue = new(models.ModelEntry)

// doColumns whitens a batch by the rows' own models.
func (t *KeyedTransform) doColumns(ctx context.Context, all []source.Message) error {
	t.readValues(all)
	defer t.releaseValues()
	for at := (rowPlace{}); at.message < len(all); {
		next, err := t.whitenRows(ctx, all, at)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// rowPlace is a row of a batch.
type rowPlace struct{ message, row int }

func (t *KeyedTransform) readValues(all []source.Message) {
	c := &t.rows
	c.values = c.values[:0]
	for i := range all {
		var v messageValues
		if m := &all[i]; hasRows(m) {
			var err error
			if v.Values, err = t.Models.By.Column(m.Record); err != nil {
				v.bad = encode.Refused(m, err)
			}
		}
		c.values = append(c.values, v)
	}
}

func (t *KeyedTransform) releaseValues() {
	for i := range t.rows.values {
		t.rows.values[i].Release()
	}
	clear(t.rows.values)
}

// openRows finds the models of rows, from one on, and returns the row behind the last one that there is room for.
func (t *KeyedTransform) openRows(ctx context.Context, all []source.Message, at rowPlace) (rowPlace, error) {
	t.beginWindow()
	w, most := &t.window, reject.SliceOf(max(1, len(t.usual())))
	same, known := "", false // the value of the row before
	for ; at.message < len(all); at.message, at.row = at.message+1, 0 {
		v := &t.rows.values[at.message]
		for ; at.row < v.Len(); at.row++ {
			if len(w.entries) == most {
				return at, t.fetchWindow(ctx)
			}
			value, ok := v.At(at.row)
			e := noValue
			switch {
			case ok && known && value == same:
				e = w.entries[len(w.entries)-1]
			case ok:
				if e = t.index.FindText(value); e != nil && !t.want(e, value) {
					return at, t.fetchWindow(ctx)
				}
			}
			w.entries = append(w.entries, e)
			same, known = value, ok
		}
	}
	return at, t.fetchWindow(ctx)
}

// whitenRows whitens as many rows as there is room for their models, from one on, and returns the row behind the last one.
func (t *KeyedTransform) whitenRows(ctx context.Context, all []source.Message, from rowPlace) (to rowPlace, err error) {
	defer t.closeWindow()
	if to, err = t.openRows(ctx, all, from); err != nil {
		return from, err
	}
	err = t.inTurn(ctx, func() error { return t.whitenOpen(ctx, all, from, to) })
	return to, err
}

func (t *KeyedTransform) whitenOpen(ctx context.Context, all []source.Message, from, to rowPlace) error {
	entries := t.window.entries
	for at := from; at != to; at = (rowPlace{at.message + 1, 0}) {
		m, last := &all[at.message], t.rows.values[at.message].Len()
		ends := at.message < to.message
		if !ends {
			last = to.row
		}
		if at.row == 0 {
			if t.beginRows(at.message); !ends {
				t.series.keep()
			}
		}
		if err := t.addRows(ctx, m, at.row, entries[:last-at.row]); err != nil {
			return err
		}
		entries = entries[last-at.row:]
		if !ends {
			break
		}
		if err := t.endRows(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (t *KeyedTransform) beginRows(message int) {
	c := &t.rows
	c.message = message
	c.bad, c.noKeys, c.first, c.whole, c.withP, c.strange = c.values[message].bad, 0, nil, encode.Whitened{}, true, c.strange[:0]
}

// addRows whitens rows of a message, from one on.
func (t *KeyedTransform) addRows(ctx context.Context, m *source.Message, first int, entries []*models.ModelEntry) error {
	c := &t.rows
	if c.bad != nil || len(entries) == 0 {
		return nil
	}
	if c.bad = t.divide(m, first, entries); c.bad != nil || len(c.groups) == 0 {
		return nil
	}
	if c.bad = t.readRows(m, first, len(entries)); c.bad != nil {
		return nil
	}
	for i := range c.groups {
		if err := t.whitenGroup(ctx, m, first, &c.groups[i]); err != nil {
			return err
		}
	}
	return nil
}

// divide groups rows by their models.
func (t *KeyedTransform) divide(m *source.Message, first int, entries []*models.ModelEntry) *source.RecordError {
	c := &t.rows
	c.groups, c.groupOf = c.groups[:0], c.groupOf[:0]
	t.index.Windows++ // marks the entries that have a group
	for i, e := range entries {
		group := -1
		switch {
		case e == noValue:
			c.noKeys++
			if bad := t.noKey(m, first+i, 1); bad != nil {
				return bad
			}
		case e == nil || e.Using == nil:
		case e.Marked == t.index.Windows:
			group = e.Group
		default:
			if bad := t.fits(m, e.Using); bad != nil {
				return bad
			}
			e.Using.Last = m.Time
			group = len(c.groups)
			e.Marked, e.Group = t.index.Windows, group
			c.addGroup(e.Using)
		}
		c.groupOf = append(c.groupOf, group)
		if group >= 0 {
			g := &c.groups[group]
			g.rows = append(g.rows, i)
		}
	}
	return nil
}

func (c *columnRows) addGroup(m *models.LoadedModel) {
	n := len(c.groups)
	c.groups = slices.Grow(c.groups, 1)[:n+1]
	c.groups[n].model, c.groups[n].rows = m, c.groups[n].rows[:0]
}

// fits reports whether a row's model may be one of the message's.
func (t *KeyedTransform) fits(m *source.Message, model *models.LoadedModel) *source.RecordError {
	c := &t.rows
	if c.first == nil {
		if bad := t.tooMuch(m, model.Features); bad != nil {
			return bad
		}
		c.first = model
		c.begin(t, int(m.Record.NumRows()), model)
		return nil
	}
	if sameNames(c.first.Features, model.Features) {
		return nil
	}
	return reject.Bad(m, reject.CodeModelsDiffer, fmt.Errorf("model %q has %s, %q has %d, and those of one message must be the same: set source.features, or send rows of different models in messages of their own",
		c.first.ModelID, plural.Count(len(c.first.Features), "feature"), model.ModelID, len(model.Features)))
}

// begin makes room for the rows of a message. All of them are null at first.
func (c *columnRows) begin(t *KeyedTransform, n int, model *models.LoadedModel) {
	w, d := &c.whole, t.made
	*w = encode.Whitened{K: model.Model.Dim, Features: model.Features, Models: make([]encode.Origin, n), Invalid: make([]minibatch.Reason, n)}
	w.Y = d.numbers.take(n * w.K)
	if t.Output.Scores() {
		w.Score = d.numbers.take(n)
	}
	if t.Output.P {
		w.P = d.numbers.take(n)
	}
	if t.Output.Recent {
		w.Recent, w.RecentP = d.numbers.take(n), d.numbers.take(n)
		w.NoRecent = make([]bool, n)
		for i := range w.NoRecent {
			w.NoRecent[i] = true
		}
	}
	if t.imputes() {
		w.Imputed = d.filled.take(n)
	}
	if each := min(t.Output.Why, w.K); each > 0 {
		w.Why = d.gains.take(n * each)
	}
	clear(w.Y) // null rows are written as zeros, and what others hold must not be
	clear(w.Score)
	clear(w.P)
	clear(w.Recent)
	clear(w.RecentP)
	clear(w.Imputed)
	clear(w.Why)
	for i := range w.Invalid {
		w.Invalid[i] = minibatch.ReasonNull
	}
}

// readRows reads the features of some rows of a message, and applies source.on_invalid to those that have a model.
func (t *KeyedTransform) readRows(m *source.Message, first, n int) *source.RecordError {
	c, e := &t.rows, t.engine
	if !sameNames(e.Features.Names, c.first.Features) {
		e.expects(c.first.Features)
	}
	part := m.Record
	if n < int(m.Record.NumRows()) {
		part = m.Record.NewSlice(int64(first), int64(first+n))
		defer part.Release()
	}
	c.read.KeepMissing = t.imputes()
	if err := e.Features.Gather(&c.read, part); err != nil {
		return encode.Refused(m, err)
	}
	for i, reason := range c.read.Invalid {
		switch {
		case c.groupOf[i] < 0:
		case reason == minibatch.ReasonNone || t.imputes() && c.read.Missing(i) > 0:
			t.counts.rows++
		default:
			if bad := t.invalidRow(m, first+i, reason); bad != nil {
				return bad
			}
		}
	}
	return nil
}

func (t *KeyedTransform) whitenGroup(ctx context.Context, m *source.Message, first int, g *rowGroup) error {
	c, q := &t.rows, &t.queue
	t.use(g.model, m.Partition)
	d := c.read.Dim
	q.room(len(g.rows) * d)
	for _, i := range g.rows {
		q.gathered = append(q.gathered, c.read.X[i*d:(i+1)*d]...)
		q.invalid = append(q.invalid, c.read.Invalid[i])
		if t.imputes() {
			q.missing = append(q.missing, 0)
			if missing := c.read.Missing(i); missing > 0 {
				q.missing[len(q.missing)-1], q.invalid[len(q.invalid)-1] = int16(missing), minibatch.ReasonNone
			}
		}
	}
	q.rows = len(g.rows)
	if t.Output.Recent && g.model.Model.Recent != nil {
		value, _ := c.values[c.message].At(first + g.rows[0])
		q.series = t.series.touch([]byte(value), m.Offset, first+g.rows[0], t.of)
		q.ofRows, q.ofFirst, q.ofMessage = g.rows, first, m
	}
	w, err := t.whiten(ctx)
	q.series, q.ofRows, q.ofMessage = nil, nil, nil
	if err != nil {
		return err
	}
	c.place(t, &w, first, g)
	t.tellRows(m, &w, first, g)
	q.empty()
	return nil
}

// place brings what the rows of a group have become to their places.
func (c *columnRows) place(t *KeyedTransform, w *encode.Whitened, first int, g *rowGroup) {
	all, k := &c.whole, w.K
	c.withP = c.withP && (w.P != nil || all.P == nil)
	each := len(w.Why) / len(g.rows)
	for j, i := range g.rows {
		row := first + i
		all.Invalid[row] = w.Invalid[j]
		all.Models[row] = encode.Origin{ID: g.model.ModelID, Version: g.model.Version}
		if w.Episode != nil && w.Episode[j] != "" {
			if all.Episode == nil {
				all.Episode = make([]string, len(all.Invalid))
			}
			all.Episode[row] = w.Episode[j]
		}
		if w.Recent != nil && (w.Invalid[j] == minibatch.ReasonNone || w.NoRecent != nil && !w.NoRecent[j]) {
			all.Recent[row], all.RecentP[row], all.NoRecent[row] = w.Recent[j], w.RecentP[j], false
		}
		if w.Invalid[j] != minibatch.ReasonNone {
			continue
		}
		copy(all.Y[row*k:(row+1)*k], w.Y[j*k:(j+1)*k])
		if w.Score != nil {
			all.Score[row] = w.Score[j]
		}
		if w.P != nil {
			all.P[row] = w.P[j]
		}
		if w.Imputed != nil {
			all.Imputed[row] = w.Imputed[j]
		}
		copy(all.Why[row*each:(row+1)*each], w.Why[j*each:(j+1)*each])
	}
}

// tellRows notes the rows that may be among the strangest.
func (t *KeyedTransform) tellRows(m *source.Message, w *encode.Whitened, first int, g *rowGroup) {
	q, each := &t.queue, min(namedFeatures, w.K)
	for i := range q.rare {
		r := &q.rare[i]
		t.rows.strange = append(t.rows.strange, t.strange(m, first+g.rows[r.row], r, q.gains[i*each:(i+1)*each], w.Features))
	}
}

// endRows writes the output of a message.
func (t *KeyedTransform) endRows(ctx context.Context, m *source.Message) error {
	c := &t.rows
	t.series.end(c.bad != nil)
	t.model, t.labels = nil, labels{partition: m.Partition, fixed: t.base(m.Partition.ID)}
	if !hasRows(m) {
		if err := t.add(ctx, m); err != nil {
			return err
		}
		return t.flush(ctx)
	}
	value, rest, bad := t.encodeRows(ctx, m)
	if bad != nil {
		if ctx.Err() != nil { // a schema was waited for
			return ctx.Err()
		}
		return t.refuse(m, bad)
	}
	t.rejects.Add(t.Transform.window(), false)
	if value == nil {
		return nil
	}
	t.made.add(t.wrap(m, value, rest), m)
	slices.SortStableFunc(c.strange, func(a, b stats.Strange) int { return cmp.Compare(a.Row, b.Row) })
	for _, s := range c.strange {
		if t.counts.strange.Takes(s.P, s.Score) {
			t.counts.strange = t.counts.strange.With(s)
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
		t.counts.rejected(reject.ReasonNoModel, uint64(m.Record.NumRows()))
		return nil, nil, nil
	}
	f, err := minibatch.ResolveRecordWithout(m.Record, t.Columns, t.Models.By.ColumnName())
	if err != nil {
		return nil, nil, encode.Refused(m, err)
	}
	if bad := t.tooMuch(m, f.Names); bad != nil {
		return nil, nil, bad
	}
	if value, rest, bad = t.encode(ctx, m, &encode.Whitened{K: len(f.Names)}); bad == nil && int64(c.noKeys) < m.Record.NumRows() {
		t.counts.passedWithoutModel(m)
	}
	return value, rest, bad
}
