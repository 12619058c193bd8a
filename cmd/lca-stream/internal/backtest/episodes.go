package backtest

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

// episodes are those of a backtest, each with its last record.
type episodes struct {
	rates episode.Rates
	by    map[string]*episode.Record
	last  []*episode.Record

	first  time.Time // of the first row that has one
	latest time.Time // of the rows so far
	early  int64     // rows with a time before it
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
	e.rates, e.by = episode.Rates{Budget: b}, map[string]*episode.Record{}
	return nil
}

// clock moves the clock on by rows.
func (e *episodes) clock(c *cells, n int) {
	e.rates.Begin() // only rows to come are asked for
	for i := range n {
		var at *time.Time
		if m := c.at(i); m.known {
			stamp := time.UnixMicro(m.micros)
			if at = &stamp; stamp.Before(e.latest) {
				e.early++
			} else {
				e.latest = stamp
			}
			if e.first.IsZero() {
				e.first = stamp
			}
		}
		e.rates.Message(c.first+int64(i), at, 1)
	}
}

// fault is why hardly any episode can open, although rows have times; "": nothing is wrong with these.
func (e *episodes) fault(rows int64) string {
	switch {
	case e.rates.Budget.Per == 0:
	case e.early > rows/2:
		return fmt.Sprintf("%d of %d rows have times before those of earlier rows: sort the files by --time", e.early, rows)
	case e.rates.Clock.Elapsed == 0:
		return "by --time no time passes between rows: set alarms.budget to a number in rows, such as " + rowBudget
	case e.latest.Sub(e.first) > mostIdle*e.rates.Clock.Elapsed:
		return fmt.Sprintf("by --time the rows came in bursts: of %s they are %s long. Set alarms.budget to a number in rows, such as %s", lasting(e.latest.Sub(e.first)), lasting(e.rates.Clock.Elapsed), rowBudget)
	}
	return ""
}

// mostIdle is the largest ratio of the time from the first row to the last and the time that the rows take up.
const mostIdle = 100

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
