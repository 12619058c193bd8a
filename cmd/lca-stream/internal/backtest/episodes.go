package backtest

import (
	"encoding/json"
	"io"
	"sort"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

// episodes are those of a backtest, each with its last record.
type episodes struct {
	budget string
	of     episode.Budget
	rows   episode.RowClock
	marks  []mark // when the rate has changed
	by     map[string]*episode.Record
	last   []*episode.Record
}

// mark is from which row on a rate holds.
type mark struct {
	row  int64
	rate float64
}

// rowBudget is what a budget in time is where rows have none.
const rowBudget = "1/2000 rows"

// begin takes the budget. That of a configuration which does not say one is in time.
func (e *episodes) begin(b episode.Budget, timed bool) (err error) {
	if b.Per > 0 && !timed {
		if b.String() != config.Default().Alarms.Budget.String() {
			return app.UsageError("alarms.budget is %s: say with --time which column has the time of each row, or set a budget in rows, such as %s", b, rowBudget)
		}
		if b, err = episode.ParseBudget(rowBudget); err != nil {
			return err
		}
	}
	e.of, e.budget, e.by = b, b.String(), map[string]*episode.Record{}
	e.marks = []mark{{0, b.Rate(0, 0)}}
	return nil
}

// clock moves the clock on by rows.
func (e *episodes) clock(c *cells, n int) {
	if last := len(e.marks) - 1; last > 0 { // only rows to come are asked for
		e.marks = append(e.marks[:0], e.marks[last])
	}
	for i := range n {
		at := time.Time{}
		if m := c.at(i); m.known {
			at = time.UnixMicro(m.micros)
		}
		if e.rows.Step(at) {
			e.marks = append(e.marks, mark{c.first + int64(i), e.of.Rate(float64(e.rows.Rows), e.rows.In)})
		}
	}
}

// rate is the budget per row, at a row.
func (e *episodes) rate(row int64) float64 {
	return e.marks[max(0, sort.Search(len(e.marks), func(i int) bool { return e.marks[i].row > row })-1)].rate
}

// placeOf is the place of a row: its number in the files.
func placeOf(o origin) episode.Place {
	p := episode.Place{Offset: o.row, Row: int(o.row)}
	if !o.at.IsZero() {
		at := o.at.UTC()
		p.Time = &at
	}
	return p
}

// say takes a record.
func (e *episodes) say(r episode.Record) {
	one := e.by[r.ID]
	if one == nil {
		one = new(episode.Record)
		e.by[r.ID] = one
		e.last = append(e.last, one)
	}
	*one = r
}

// write writes the last record of each.
func (e *episodes) write(w io.Writer) error {
	all := e.last
	if all == nil {
		all = []*episode.Record{} // [], and not null
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(all)
}
