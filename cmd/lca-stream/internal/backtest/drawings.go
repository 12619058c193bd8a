package backtest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// What a page draws of an episode: stretches of its series, as many rows each.
const (
	mostDrawn    = 20 // episodes
	drawnColumns = 3  // of each, those that it names first
	drawnBefore  = 40 // stretches
	drawnDuring  = 80 // at most
	drawnAfter   = 20
)

// drawing has the values of an episode's first columns before, during and after it.
type drawing struct {
	told    *episode.Record
	columns []string
	each    int64 // rows of a stretch
	all     []stretch
	now     stretch
	begun   bool // a stretch of the episode is there
	after   int  // stretches
	done    bool
}

// stretch is the least and the greatest value of each column in some rows.
type stretch struct {
	row, rows int64
	during    bool
	low, high []float64 // NaN: there is none
}

// drawingsOf are those of the episodes with the highest peaks, in their order.
func (b *backtest) drawingsOf(all []*episode.Record) []*drawing {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *episode.Record) int { return cmp.Compare(b.Peak.Score, a.Peak.Score) })
	all = all[:min(len(all), mostDrawn)]
	slices.SortStableFunc(all, func(a, b *episode.Record) int { return cmp.Compare(a.From.Offset, b.From.Offset) })
	drawings := make([]*drawing, len(all))
	for i, r := range all {
		d := &drawing{told: r, each: (max(r.Rows, 1) + drawnDuring - 1) / drawnDuring}
		for _, c := range r.Causes[:min(len(r.Causes), drawnColumns)] {
			d.columns = append(d.columns, b.named(c.Feature))
		}
		drawings[i] = d
	}
	return drawings
}

// named is the feature of a cause, whose name may be cut.
func (b *backtest) named(short string) string {
	head, cut := strings.CutSuffix(short, "…")
	for _, name := range b.lanes.features {
		if name == short || cut && strings.HasPrefix(name, head) {
			return name
		}
	}
	return short
}

// errDrawn ends the reading when nothing more is to be drawn.
var errDrawn = errors.New("all is drawn")

// draw reads the files again, as far as drawings need.
func (b *backtest) draw(ctx context.Context, all []*drawing) error {
	values := map[string]*drawn{}
	list := &drawn{features: minibatch.Features{Names: b.lanes.features}}
	for _, d := range all {
		for _, name := range d.columns {
			values[name] = &drawn{features: minibatch.Features{Names: []string{name}}}
			if len(minibatch.ColumnsOf(b.lanes.features)) < len(b.lanes.features) {
				values[name] = list // which is read whole
			}
		}
	}
	if len(values) == 0 {
		return nil
	}
	whose := cmp.Or(b.columns.model, b.columns.series)
	names := []string{whose}
	for name := range values {
		names = append(names, name)
	}
	limits := b.limits()
	limits.Need = app.Needs(names)
	in, err := source.OpenFiles(b.flags.inputs, limits)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	in.Reuse()
	row := int64(0)
	err = app.EachMessage(ctx, in, func(m *source.Message) error {
		if m.Err != nil {
			return m.Err
		}
		n := m.Record.NumRows()
		defer func() { row += n }()
		open := slices.DeleteFunc(slices.Clone(all), func(d *drawing) bool {
			reach := 2 * (drawnBefore + 1) * d.each * int64(max(1, len(b.budgets.all)))
			return d.done || len(d.columns) == 0 || row+n < d.told.From.Offset-reach
		})
		if len(open) == 0 && !slices.ContainsFunc(all, func(d *drawing) bool { return !d.done && len(d.columns) > 0 }) {
			return errDrawn
		}
		return b.drawRows(open, m.Record, row, whose, values)
	})
	if errors.Is(err, errDrawn) {
		err = nil
	}
	for _, d := range all {
		d.end()
	}
	return err
}

// drawn is what is read of columns that are drawn.
type drawn struct {
	features minibatch.Features
	rows     minibatch.Rows
}

// at is the value of a feature; false: the row has none.
func (v *drawn) at(name string, row int) (float64, bool) {
	if v.rows.Invalid[row] != minibatch.ReasonNone {
		return 0, false
	}
	return v.rows.X[row*len(v.features.Names)+slices.Index(v.features.Names, name)], true
}

// drawRows takes the rows of a record, of which the first has that number.
func (b *backtest) drawRows(open []*drawing, rec arrow.Record, first int64, whose string, values map[string]*drawn) error {
	if len(open) == 0 || rec.NumRows() == 0 {
		return nil
	}
	var series modelkey.Values
	if whose != "" {
		var err error
		if series, err = (modelkey.By{Place: modelkey.Column, Name: whose}).Column(rec); err != nil {
			return err
		}
		defer series.Release()
	}
	read := map[*drawn]bool{}
	for _, d := range open {
		for _, name := range d.columns {
			if v := values[name]; !read[v] {
				read[v] = true
				if err := v.features.Gather(&v.rows, rec); err != nil {
					return err
				}
			}
		}
	}
	for i := range int(rec.NumRows()) {
		value, ok := "", false
		if whose != "" {
			value, ok = series.Whole(i)
		}
		for _, d := range open {
			if whose == "" || ok && d.told.Series != nil && *d.told.Series == value || !ok && d.told.Series == nil {
				d.row(first+int64(i), i, values)
			}
		}
	}
	return nil
}

// row takes the next row of the episode's series, whose values are those with number i.
func (d *drawing) row(row int64, i int, values map[string]*drawn) {
	during := row >= d.told.From.Offset && row <= d.told.To.Offset
	if d.now.rows == d.each || d.now.during != during {
		d.end()
	}
	if d.done {
		return
	}
	if d.now.rows == 0 {
		d.now = stretch{row: row, during: during}
	}
	d.now.rows++
	for k, name := range d.columns {
		if d.now.rows == 1 {
			d.now.low, d.now.high = append(d.now.low, math.NaN()), append(d.now.high, math.NaN())
		}
		if v, ok := values[name].at(name, i); ok {
			if !(d.now.low[k] <= v) {
				d.now.low[k] = v
			}
			if !(d.now.high[k] >= v) {
				d.now.high[k] = v
			}
		}
	}
}

// end ends a stretch.
func (d *drawing) end() {
	if d.now.rows == 0 || d.done {
		return
	}
	d.all = append(d.all, d.now)
	switch {
	case d.now.during:
		d.begun = true
	case d.begun:
		d.after++
	case len(d.all) > drawnBefore:
		d.all = slices.Delete(d.all, 0, 1)
	}
	d.now, d.done = stretch{}, d.after == drawnAfter
}
