package backtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/explain"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// lookedRows is the number of rows, from each part of the first file, by which columns are chosen.
const lookedRows = 10_000

// choice is what was chosen by the first rows, because it was not told.
type choice struct {
	said      []named  // what and why
	columns   []named  // of the files, and why the values of each are no measurements; "": they may be
	explained string   // why each value has a model of its own
	states    []string // columns that may say how the machine runs
}

// choose looks at the first rows, and chooses what the command line and the configuration leave open.
func (b *backtest) choose() error {
	limits, path := b.limits(), b.flags.inputs[0]
	limits.Changed, limits.Head, limits.MaxRows = nil, lookedRows, lookedRows
	f, err := format.OpenFile(path, limits)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	rec, err := looked(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if rec == nil {
		return b.settings(nil) // another file may have rows
	}
	defer rec.Release()
	return b.chooseBy(rec)
}

// looked is rows from the beginning, the middle and the end of a file, as far as these are found without reading all of it; nil: it has none.
func looked(f *format.File) (arrow.Record, error) {
	n := f.Batches()
	if n == 0 {
		return nil, nil
	}
	var columns [][]arrow.Array
	rows := int64(0)
	for k, i := range slices.Compact([]int{0, n / 2, n - 1}) {
		rec, err := f.Read(i)
		if err != nil {
			return nil, err
		}
		defer rec.Release()
		if k == 0 {
			columns = make([][]arrow.Array, rec.NumCols())
		}
		for j, col := range rec.Columns() {
			columns[j] = append(columns[j], col)
		}
		rows += rec.NumRows()
	}
	all := make([]arrow.Array, len(columns))
	for j, parts := range columns {
		var err error
		if all[j], err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
			return nil, err
		}
		defer all[j].Release()
	}
	return array.NewRecord(f.Schema(), all, rows), nil
}

var errNoRows = errors.New("the files have no rows")

func (b *backtest) chooseBy(rec arrow.Record) error {
	s := minibatch.Survey{}
	if err := s.Add(rec, 0, ""); err != nil {
		return err
	}
	judged := s.Judge()
	for _, j := range judged {
		one := named{Name: j.Column.Name}
		if !j.Feature {
			one.Text = j.Reason
		}
		b.choice.columns = append(b.choice.columns, one)
		if !j.Feature && mayBeState(j.Column) {
			b.choice.states = append(b.choice.states, j.Column.Name)
		}
	}
	var order rowOrder
	if f := b.flags; f.time == "" && !f.timeTold {
		f.time, order = b.timeOf(rec, judged)
	} else if f.time != "" {
		order = orderOf(rec, f.time)
	}
	order = b.clockOf(rec, judged, order)
	if f := b.flags; f.key == "" && !f.keyTold && (f.config == "" || b.config.Model.By.Place == modelkey.Key || b.series.Place == modelkey.Key) {
		tall, _ := s.Tall()
		f.key = b.keyOf(rec, judged, tall, order)
	}
	if f := b.flags; f.key == "" && !f.timeTold && f.time != "" && b.columns.clock == "" && order.dates() && 2*order.back > len(order.times) {
		b.choice.said = slices.DeleteFunc(b.choice.said, func(one named) bool { return one.Name == "time" })
		b.say("time", "no column says when a row was: %s has the dates of days with many rows", brief(f.time))
		f.time = ""
	}
	return b.settings(rec)
}

// mostStates is the largest number of values of a column that may be a machine's state.
const mostStates = 12

// mayBeState reports whether a column that is not learnt has a few values, each for many rows.
func mayBeState(c *minibatch.Column) bool {
	return c.Distinct >= 2 && c.Distinct <= mostStates && c.Rows >= 100*c.Distinct && c.Nulls == 0
}

// settings are what init would write for these rows, where neither a configuration nor --set says it.
func (b *backtest) settings(rec arrow.Record) error {
	f := b.flags
	if f.config != "" {
		return nil
	}
	if !f.set("lca.preset") {
		if err := b.load("lca.preset", lca.PresetDensity.String()); err != nil {
			return err
		}
	}
	if f.key == "" || f.set("model.by") || f.set("transform.series") {
		return nil
	}
	column := "column:" + f.key
	series, err := config.ParseSeries(column)
	if err != nil {
		return nil //nolint:nilerr // a name that no configuration holds: the rows are one series
	}
	if why := b.explained(rec, series.By()); why != "" {
		b.choice.explained = why
		b.say("models", "each value of %s has one of its own: %s", brief(f.key), why)
		return b.load("model.by", column)
	}
	b.say("series", "the rows of each value of %s are one", brief(f.key))
	return b.load("transform.series", column)
}

// load has a setting as if --set named it: others may have another default then.
func (b *backtest) load(path, value string) error {
	c, err := b.flags.load(path + "=" + value)
	if err != nil {
		return err
	}
	c.Source.Features = b.config.Source.Features
	b.config, b.series = c, system.SeriesOf(c)
	return nil
}

// explained says what the values of a column explain of the rows that were looked at, if each should have a model; "": it should not.
func (b *backtest) explained(rec arrow.Record, by modelkey.By) string {
	if rec == nil {
		return ""
	}
	c := columns{time: b.flags.time, key: b.flags.key, labels: b.flags.labels}
	part := c.without(rec)
	defer part.Release()
	features, _, err := minibatch.Choose(part, b.config.Source.Features)
	if err != nil {
		return "" // said when they are chosen
	}
	keys := explain.Of(by, &features)
	_ = keys.Message(&source.Message{Record: rec})
	return keys.Why()
}

func (b *backtest) say(name, format string, a ...any) {
	b.choice.said = append(b.choice.said, named{name, fmt.Sprintf(format, a...)})
}

// rowOrder is what the times of the first rows tell.
type rowOrder struct {
	times []moment
	back  int // rows whose time is not after that of the row before
}

func orderOf(rec arrow.Record, column string) (o rowOrder) {
	at := rec.Schema().FieldIndices(column)
	if len(at) != 1 {
		return o // said by find
	}
	times, err := momentsOf(rec.Column(at[0]), column)
	if err != nil {
		return o // said by of
	}
	return rowOrder{times, back(times, nil)}
}

// back counts the rows whose time is not after that of the row before; with keys, of the row before of the same key.
func back(times []moment, key func(i int) string) (n int) {
	last := map[string]int64{}
	for i, at := range times {
		if !at.known {
			continue
		}
		of := ""
		if key != nil {
			of = key(i)
		}
		if before, ok := last[of]; ok && at.micros <= before {
			n++
		}
		last[of] = at.micros
	}
	return n
}

// The years of times that are numbers: others are no times since 1970.
var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// timeOf is the column with the time of each row, the one that goes back least often; "": there is none.
func (b *backtest) timeOf(rec arrow.Record, judged []minibatch.Judgement) (name string, order rowOrder) {
	for i, j := range judged {
		field := rec.Schema().Field(i)
		text := field.Type.ID() == arrow.STRING || field.Type.ID() == arrow.LARGE_STRING
		if j.Feature || field.Name == b.flags.labels || len(rec.Schema().FieldIndices(field.Name)) != 1 || !text && !strings.HasPrefix(j.Reason, "a time") {
			continue
		}
		o := orderOf(rec, field.Name)
		known, first, last := 0, int64(0), int64(0)
		for _, at := range o.times {
			if at.known {
				if known++; known == 1 {
					first, last = at.micros, at.micros
				}
				first, last = min(first, at.micros), max(last, at.micros)
			}
		}
		if 2*known <= len(o.times) || first == last || first < earliest || last > latest {
			continue
		}
		if name == "" || o.back < order.back {
			name, order = field.Name, o
		}
	}
	if name == "" {
		b.say("time", "no column says when a row was: --time names one")
		return "", rowOrder{}
	}
	b.say("time", "%s, as its values are times (--time names another)", brief(name))
	return name, order
}

// dates reports whether times are of midnight alone.
func (o *rowOrder) dates() bool {
	const day = int64(24 * time.Hour / time.Microsecond)
	return !slices.ContainsFunc(o.times, func(at moment) bool { return at.known && at.micros%day != 0 })
}

// clockOf finds the column with the times of day, where that of the time has dates alone, and returns the order by both.
func (b *backtest) clockOf(rec arrow.Record, judged []minibatch.Judgement, order rowOrder) rowOrder {
	if order.times == nil || !order.dates() {
		return order
	}
	for i, j := range judged {
		if col := rec.Column(i); !j.Feature && (col.DataType().ID() == arrow.STRING || col.DataType().ID() == arrow.LARGE_STRING) && len(rec.Schema().FieldIndices(j.Column.Name)) == 1 {
			times := slices.Clone(order.times)
			if 2*addClock(times, col) > len(times) {
				b.columns.clock = j.Column.Name
				b.say("time of day", "%s, as its values are such", brief(j.Column.Name))
				return rowOrder{times, back(times, nil)}
			}
		}
	}
	return order
}
