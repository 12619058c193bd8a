package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// csvKind is the type of a column, as far as its values have told.
type csvKind uint8

const (
	csvEmpty csvKind = iota // no value so far
	csvInt
	csvFloat
	csvTime
	csvBool
	csvText
	csvKinds
)

var csvTypes = [...]arrow.DataType{
	csvEmpty: arrow.PrimitiveTypes.Float64, csvInt: arrow.PrimitiveTypes.Int64, csvFloat: arrow.PrimitiveTypes.Float64,
	csvTime: arrow.FixedWidthTypes.Timestamp_us, csvBool: arrow.FixedWidthTypes.Boolean, csvText: arrow.BinaryTypes.String,
}

// csvColumn is a column, as far as its values have told.
type csvColumn struct {
	kind    csvKind // of the last value; from settle on, of the column
	seen    [csvKinds]int64
	pointed bool // a value has a decimal comma; from settle on, all have
	grouped bool // a value has a decimal point behind thousands
	commas  bool // a value has a comma that may be of either
	slashed slashedDates
}

// take takes another value.
func (c *csvColumn) take(text string, decimal bool) {
	if csvNull(text) {
		return
	}
	text = strings.TrimSpace(text)
	c.kind = classOf(text, decimal, c.kind)
	c.seen[c.kind]++
	switch {
	case c.kind == csvTime && !isTime(text):
		c.slashed.take(text)
	case c.kind == csvFloat && !isFloat(text):
		point, comma := isFloat(grouped(text)), isFloat(pointed(text))
		c.pointed, c.grouped = c.pointed || !point, c.grouped || !comma
		c.commas = c.commas || strings.Contains(text, ",")
	}
}

// settle finds the kind of all values. With most, it is that of more than half of them, and the others are faults.
func (c *csvColumn) settle(most, decimal bool) {
	c.slashed.settle()
	if c.pointed == c.grouped {
		c.pointed = decimal && c.commas
	}
	total := int64(0)
	for _, n := range c.seen {
		total += n
	}
	enough := total
	if most {
		enough = total/2 + 1
	}
	numbers := csvInt
	if c.seen[csvFloat] > 0 {
		numbers = csvFloat
	}
	switch {
	case total == 0:
		c.kind = csvEmpty
	case c.seen[csvInt]+c.seen[csvFloat] >= enough:
		c.kind = numbers
	case c.seen[csvTime] >= enough:
		c.kind = csvTime
	case c.seen[csvBool] >= enough:
		c.kind = csvBool
	default:
		c.kind = csvText
	}
}

// classOf is what a value is. like is what the one before was, which is tried first.
func classOf(text string, decimal bool, like csvKind) csvKind {
	text = strings.TrimSpace(text)
	if like == csvTime && (isTime(text) || isSlashed(text)) {
		return csvTime
	}
	if first := text[0]; first >= '0' && first <= '9' || strings.IndexByte("+-.,nNiI", first) >= 0 {
		switch {
		case like == csvFloat && isFloat(text):
			return csvFloat
		case isInt(text):
			return csvInt
		case isFloat(text), isFloat(grouped(text)), (decimal || strings.Contains(text, ",")) && isFloat(pointed(text)):
			return csvFloat
		case isTime(text) || isSlashed(text):
			return csvTime
		}
	}
	if strings.EqualFold(text, "true") || strings.EqualFold(text, "false") {
		return csvBool
	}
	return csvText
}

// pointed is a number with a comma before its decimals and points between thousands, as programs write it; "" is none.
func pointed(text string) string { return ungrouped(text, ",", ".") }

// grouped is a number with a point before its decimals and commas between thousands.
func grouped(text string) string { return ungrouped(text, ".", ",") }

// ungrouped is a number without what stands between its thousands, which may be spaces and apostrophes, too.
func ungrouped(text, point, between string) string {
	whole, decimals, cut := strings.Cut(text, point)
	if strings.ContainsAny(decimals, ",.") || cut && decimals == "" {
		return ""
	}
	groups := strings.FieldsFunc(whole, func(r rune) bool { return strings.ContainsRune(between+" '\u00a0\u2009\u202f", r) })
	for i, group := range groups {
		if i > 0 && len(group) != 3 || i == 0 && len(groups) > 1 && len(strings.TrimLeft(group, "+-")) > 3 {
			return ""
		}
	}
	if whole = strings.Join(groups, ""); cut {
		return whole + "." + decimals
	}
	return whole
}

func csvNull(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || text == "NA" || text == "#N/A" || text == "None" || strings.EqualFold(text, "null") || strings.EqualFold(text, "n/a")
}

// add appends a value to the column.
func (c *csvColumn) add(b array.Builder, text string) (err error) {
	if text == "" || c.kind != csvText && csvNull(text) {
		b.AppendNull()
		return nil
	}
	if c.kind != csvText {
		text = strings.TrimSpace(text)
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		var v int64
		if v, err = strconv.ParseInt(text, 10, 64); err == nil {
			b.Append(v)
		}
	case *array.Float64Builder:
		var v float64
		if v, err = c.float(text); err == nil {
			b.Append(v)
		}
	case *array.TimestampBuilder:
		at, ok := ParseTime(text)
		if !ok {
			at, ok = c.slashed.time(text)
		}
		if !ok {
			return fmt.Errorf("%q is no time", text)
		}
		b.Append(arrow.Timestamp(at.UnixMicro()))
	case *array.BooleanBuilder:
		is := strings.EqualFold(text, "true")
		if !is && !strings.EqualFold(text, "false") {
			return fmt.Errorf("%q is no boolean", text)
		}
		b.Append(is)
	case *array.StringBuilder:
		b.Append(text)
	}
	return err
}

func (c *csvColumn) float(text string) (float64, error) {
	if c.pointed {
		if plain := pointed(text); plain != "" {
			return strconv.ParseFloat(plain, 64)
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if plain := grouped(text); err != nil && plain != "" {
		return strconv.ParseFloat(plain, 64)
	}
	return v, err
}

func isInt(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

func isFloat(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

func isTime(text string) bool {
	_, ok := ParseTime(text)
	return ok
}

// timeLayouts are those of RFC 3339, with a space in the place of the T, without a zone, which is then UTC, without seconds, and without a time of day;
// those with a slash or with points, by which the year comes first and last; and those with the name of the month.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", time.DateTime, time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04",
	"2006/01/02 15:04:05", "2006/01/02 15:04", "2006/01/02", "02.01.2006 15:04:05", "02.01.2006 15:04", "02.01.2006",
	"2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 GMT",
	"20060102T150405Z0700", "20060102T150405", "02-Jan-2006 15:04:05", "02-Jan-2006 15:04", "02-Jan-2006",
}

// ParseTime reads a time as texts have it; false: it is none.
func ParseTime(text string) (time.Time, bool) {
	if len(text) < len(time.DateOnly) || text[0] < '0' || text[0] > '9' || text[4] != '-' && text[4] != '/' && (text[2] != '.' || text[5] != '.') && (text[2] != '-' || text[6] != '-') && text[8] != 'T' {
		return time.Time{}, false
	}
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// Epoch reads a time since 1970 in seconds, milliseconds, microseconds or nanoseconds, by its size: each unit from the year 1973 of the next one on. It returns
// microseconds; false: they overflow.
func Epoch(v float64) (micros int64, ok bool) {
	const least = 1e11 // of milliseconds
	unit := 1e6
	for v := math.Abs(v); v >= least && unit > 1e-3; v /= 1e3 {
		unit /= 1e3
	}
	v *= unit
	return int64(v), math.Abs(v) < float64(math.MaxInt64/int64(time.Microsecond))
}

// slashedDates are the dates of a column such as 3/4/2026 or 03-04-2026, of which month and day may come first: the values tell which. Where both are dates
// throughout, it is the order by which they are nearer to each other.
type slashedDates struct {
	orders   [2]slashedOrder // the month first, the day first
	dayFirst bool
}

type slashedOrder struct {
	n           int
	first, last time.Time // the earliest and the latest
}

func (d *slashedDates) take(text string) {
	for k := range d.orders {
		at, ok := slashedTime(text, k == 1)
		if !ok {
			continue
		}
		o := &d.orders[k]
		if o.n++; o.n == 1 {
			o.first, o.last = at, at
		}
		if at.Before(o.first) {
			o.first = at
		}
		if at.After(o.last) {
			o.last = at
		}
	}
}

// settle finds out which comes first.
func (d *slashedDates) settle() {
	month, day := d.orders[0], d.orders[1]
	d.dayFirst = day.n > month.n || day.n == month.n && day.last.Sub(day.first) < month.last.Sub(month.first)
}

func (d *slashedDates) time(text string) (time.Time, bool) { return slashedTime(text, d.dayFirst) }

func isSlashed(text string) bool {
	_, month := slashedTime(text, false)
	_, day := slashedTime(text, true)
	return month || day
}

var slashedLayouts = []string{
	"1/2/2006 15:04:05", "1/2/2006 15:04", "1/2/2006 3:04:05 PM", "1/2/2006 3:04 PM", "1/2/2006", "1/2/06 15:04:05", "1/2/06 15:04", "1/2/06 3:04:05 PM", "1/2/06 3:04 PM",
}

func slashedTime(text string, dayFirst bool) (time.Time, bool) {
	i := strings.IndexAny(text, "/-")
	if i < 1 || i > 2 || len(text) > len("12/31/2026 12:00:00.000000000 PM") {
		return time.Time{}, false
	}
	second, rest, ok := strings.Cut(text[i+1:], text[i:i+1])
	if !ok || len(second) > 2 || len(rest) < 2 {
		return time.Time{}, false
	}
	month, day := text[:i], second
	if dayFirst {
		month, day = day, month
	}
	text = month + "/" + day + "/" + rest
	for _, layout := range slashedLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
