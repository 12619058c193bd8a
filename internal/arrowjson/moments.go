package arrowjson

import (
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/jsontext"
)

// The forms of ISO 8601. Fractions of a second have as many digits as they need.
const (
	dateForm    = `"2006-01-02"`
	timeForm    = `"15:04:05.999999999"`
	localForm   = `"2006-01-02T15:04:05.999999999"`
	instantForm = `"2006-01-02T15:04:05.999999999Z07:00"`
)

// moment returns what appends dates, times and spans of time; nil: the column has none.
func moment(column arrow.Array) appender {
	switch a := column.(type) {
	case *array.Date32:
		return func(dst []byte, i int) []byte { return a.Value(i).ToTime().AppendFormat(dst, dateForm) }
	case *array.Date64:
		return func(dst []byte, i int) []byte { return a.Value(i).ToTime().AppendFormat(dst, dateForm) }
	case *array.Time32:
		unit := a.DataType().(*arrow.Time32Type).Unit
		return func(dst []byte, i int) []byte { return clock(dst, int64(a.Value(i)), unit) }
	case *array.Time64:
		unit := a.DataType().(*arrow.Time64Type).Unit
		return func(dst []byte, i int) []byte { return clock(dst, int64(a.Value(i)), unit) }
	case *array.Timestamp:
		instant := instants(a.DataType().(*arrow.TimestampType))
		return func(dst []byte, i int) []byte { return instant(dst, int64(a.Value(i))) }
	case *array.Duration:
		span := durations(a.DataType().(*arrow.DurationType))
		return func(dst []byte, i int) []byte { return span(dst, int64(a.Value(i))) }
	case *array.MonthInterval:
		return func(dst []byte, i int) []byte { return interval(dst, int64(a.Value(i)), 0, 0) }
	case *array.DayTimeInterval:
		return func(dst []byte, i int) []byte {
			v := a.Value(i)
			return interval(dst, 0, int64(v.Days), int64(v.Milliseconds)*int64(time.Millisecond))
		}
	case *array.MonthDayNanoInterval:
		return func(dst []byte, i int) []byte {
			v := a.Value(i)
			return interval(dst, int64(v.Months), int64(v.Days), v.Nanoseconds)
		}
	}
	return nil
}

// clock appends a time of a day; null if it is of none.
func clock(dst []byte, v int64, unit arrow.TimeUnit) []byte {
	long := int64(unit.Multiplier())
	if v < 0 || v >= int64(24*time.Hour)/long {
		return append(dst, "null"...)
	}
	return time.Unix(0, v*long).UTC().AppendFormat(dst, timeForm)
}

// mostSeconds is how far from 1970 a time.Time can be: its own count begins in the year 1.
const mostSeconds = math.MaxInt64 - 1<<36

// instants returns what appends timestamps of a type, in their zone; null for one that time.Time cannot hold.
func instants(t *arrow.TimestampType) func(dst []byte, v int64) []byte {
	form, zone := instantForm, time.UTC
	if t.TimeZone == "" {
		form = localForm
	} else if z, err := t.GetZone(); err == nil && z != nil { // one that is not known here is written as UTC
		zone = z
	}
	return func(dst []byte, v int64) []byte {
		if t.Unit == arrow.Second && (v > mostSeconds || v < -mostSeconds) {
			return append(dst, "null"...)
		}
		return arrow.Timestamp(v).ToTime(t.Unit).In(zone).AppendFormat(dst, form)
	}
}

// durations returns what appends durations of a type.
func durations(t *arrow.DurationType) func(dst []byte, v int64) []byte {
	second := float64(time.Second / t.Unit.Multiplier())
	return func(dst []byte, v int64) []byte { return jsontext.AppendFloat64(dst, float64(v)/second) }
}

// interval appends a span of the calendar.
func interval(dst []byte, months, days, nanoseconds int64) []byte {
	dst = append(dst, `"P`...)
	dst = append(strconv.AppendInt(dst, months/12, 10), 'Y')
	dst = append(strconv.AppendInt(dst, months%12, 10), 'M')
	dst = append(strconv.AppendInt(dst, days, 10), "DT"...)
	return append(strconv.AppendFloat(dst, float64(nanoseconds)/float64(time.Second), 'f', -1, 64), `S"`...)
}
