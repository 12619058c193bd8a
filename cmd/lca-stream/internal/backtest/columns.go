package backtest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source/format"
)

// columns are the columns that say something of a row and are never learnt; "": there is none.
type columns struct {
	time, key, labels string
	clock             string // with the times of day, where time has dates alone
	model             string // whose values have models of their own
	series            string // whose values are series
}

func (c *columns) names() []string {
	return slices.DeleteFunc([]string{c.time, c.clock, c.key, c.labels, c.model, c.series}, func(name string) bool { return name == "" })
}

// find refuses columns that are not there.
func (c *columns) find(schema *arrow.Schema) error {
	for _, named := range []struct{ flag, name string }{{"--time", c.time}, {"--time", c.clock}, {"--key", c.key}, {"--labels", c.labels}, {"model.by", c.model}, {"transform.series", c.series}} {
		if n := len(schema.FieldIndices(named.name)); named.name != "" && n != 1 {
			return fmt.Errorf("%s: there are %d columns %q", named.flag, n, named.name)
		}
	}
	if c.time == "" {
		return nil
	}
	_, err := momentsOf(array.MakeArrayOfNull(memory.DefaultAllocator, schema.Field(schema.FieldIndices(c.time)[0]).Type, 0), c.time)
	return err
}

// without is a record without these columns.
func (c *columns) without(rec arrow.Record) arrow.Record {
	var fields []arrow.Field
	var kept []arrow.Array
	for i, f := range rec.Schema().Fields() {
		if !slices.Contains(c.names(), f.Name) {
			fields, kept = append(fields, f), append(kept, rec.Column(i))
		}
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), kept, rec.NumRows())
}

// cells are the values of these columns in some rows.
type cells struct {
	first  int64 // row
	times  []moment
	labels func(i int) (label, error) // nil: there is no column
	key    modelkey.Values
	model  modelkey.Values
}

// of reads a record, whose first row has that number.
func (c *columns) of(rec arrow.Record, first int64) (*cells, error) {
	v := &cells{first: first}
	column := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
	var err error
	if c.time != "" {
		if v.times, err = momentsOf(column(c.time), c.time); err != nil {
			return nil, fmt.Errorf("from row %d on: %w", first, err)
		}
	}
	if c.clock != "" {
		addClock(v.times, column(c.clock))
	}
	if c.labels != "" {
		if v.labels, err = labelsIn(column(c.labels), c.labels); err != nil {
			return nil, err
		}
	}
	if c.key != "" {
		if v.key, err = (modelkey.By{Place: modelkey.Column, Name: c.key}).Column(rec); err != nil {
			return nil, err
		}
	}
	if c.model != "" {
		if v.model, err = (modelkey.By{Place: modelkey.Column, Name: c.model}).Column(rec); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *cells) release() {
	v.key.Release()
	v.model.Release()
}

// at is the time of a row.
func (v *cells) at(i int) moment {
	if v.times == nil {
		return moment{}
	}
	return v.times[i]
}

// origin is what the message of a row would say of it.
type origin struct {
	row int64 // of the files
	key []byte
	at  time.Time // zero: it is not known
}

// origin is that of a row.
func (v *cells) origin(i int) (o origin) {
	o.row = v.first + int64(i)
	if v.key.Len() > 0 {
		if value, ok := v.key.At(i); ok {
			o.key = []byte(value)
		}
	}
	if at := v.at(i); at.known {
		o.at = time.UnixMicro(at.micros)
	}
	return o
}

// moment is the time of a row.
type moment struct {
	micros int64 // since 1970
	known  bool
}

// momentsOf reads the times of a column.
func momentsOf(col arrow.Array, name string) ([]moment, error) {
	of, err := momentOf(col)
	if err != nil {
		return nil, fmt.Errorf("--time: column %q %w", name, err)
	}
	all := make([]moment, col.Len())
	for i := range all {
		if col.IsNull(i) {
			continue
		}
		if all[i].micros, all[i].known = of(i); !all[i].known {
			return nil, fmt.Errorf("--time: column %q has %q, which is no time", name, col.ValueStr(i))
		}
	}
	return all, nil
}

// ofDay reads a time of day.
func ofDay(text string) (micros int64, ok bool) {
	for _, layout := range []string{time.TimeOnly, "15:04", "15.04.05", "3:04:05 PM", "3:04 PM", "3 PM"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Sub(at.Truncate(24 * time.Hour)).Microseconds(), true
		}
	}
	return 0, false
}

// addClock adds times of day to dates. A row without one has no time. It returns how many have one.
func addClock(times []moment, col arrow.Array) (n int) {
	for i := range times {
		micros, ok := int64(0), false
		if !col.IsNull(i) {
			micros, ok = ofDay(col.ValueStr(i))
		}
		times[i].micros += micros
		if times[i].known = times[i].known && ok; times[i].known {
			n++
		}
	}
	return n
}

// micros are those of a time that they can count; others, such as what stands for "never", are none.
func micros(at time.Time) (int64, bool) {
	const most = math.MaxInt64/1_000_000 - 1
	return at.UnixMicro(), at.Unix() > -most && at.Unix() < most
}

// momentOf returns what reads the time of a row that is not null.
func momentOf(col arrow.Array) (func(i int) (int64, bool), error) {
	switch col := col.(type) {
	case *array.Null:
		return func(int) (int64, bool) { return 0, false }, nil
	case *array.Timestamp:
		unit := col.DataType().(*arrow.TimestampType).Unit
		return func(i int) (int64, bool) { return micros(col.Value(i).ToTime(unit)) }, nil
	case *array.Date32:
		return func(i int) (int64, bool) { return micros(col.Value(i).ToTime()) }, nil
	case *array.Date64:
		return func(i int) (int64, bool) { return micros(col.Value(i).ToTime()) }, nil
	case *array.String:
		return func(i int) (int64, bool) { return microsOf(col.Value(i)) }, nil
	case *array.LargeString:
		return func(i int) (int64, bool) { return microsOf(col.Value(i)) }, nil
	case *array.Int64:
		return func(i int) (int64, bool) { return format.Epoch(float64(col.Value(i))) }, nil
	case *array.Int32:
		return func(i int) (int64, bool) { return format.Epoch(float64(col.Value(i))) }, nil
	case *array.Uint64:
		return func(i int) (int64, bool) { return format.Epoch(float64(col.Value(i))) }, nil
	case *array.Uint32:
		return func(i int) (int64, bool) { return format.Epoch(float64(col.Value(i))) }, nil
	case *array.Float64:
		return func(i int) (int64, bool) { return format.Epoch(col.Value(i)) }, nil
	}
	return nil, fmt.Errorf("is %s; want a time, a date, text or numbers", col.DataType())
}

func microsOf(text string) (int64, bool) {
	at, ok := format.ParseTime(text)
	return at.UnixMicro(), ok
}
