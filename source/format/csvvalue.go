package format

import (
	"fmt"
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
	kind   csvKind // of the last value; from settle on, of the column
	seen   [csvKinds]int64
	commas bool // decimals stand behind one
}

// take takes another value.
func (c *csvColumn) take(text string, decimal bool) {
	if csvNull(text) {
		return
	}
	c.kind = classOf(text, decimal, c.kind)
	c.seen[c.kind]++
	c.commas = c.commas || decimal && c.kind == csvFloat && strings.Contains(text, ",")
}

// settle finds the kind of all values. With most, it is that of more than half of them, and the others are faults.
func (c *csvColumn) settle(most bool) {
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
	if like == csvTime && isTime(text) {
		return csvTime
	}
	if first := text[0]; first >= '0' && first <= '9' || strings.IndexByte("+-.,nNiI", first) >= 0 {
		switch {
		case like == csvFloat && isFloat(text):
			return csvFloat
		case isInt(text):
			return csvInt
		case isFloat(text), decimal && isFloat(pointed(text)):
			return csvFloat
		case isTime(text):
			return csvTime
		}
	}
	if strings.EqualFold(text, "true") || strings.EqualFold(text, "false") {
		return csvBool
	}
	return csvText
}

// pointed is a number with a comma before its decimals and points between thousands, as programs write it; "" is none.
func pointed(text string) string {
	whole, decimals, comma := strings.Cut(text, ",")
	if strings.ContainsAny(decimals, ",.") || comma && decimals == "" {
		return ""
	}
	for i, group := range strings.Split(whole, ".") {
		if i > 0 && len(group) != 3 {
			return ""
		}
	}
	if whole = strings.ReplaceAll(whole, ".", ""); comma {
		return whole + "." + decimals
	}
	return whole
}

func csvNull(text string) bool {
	return text == "" || text == "NA" || strings.EqualFold(text, "null")
}

// add appends a value to the column.
func (c *csvColumn) add(b array.Builder, text string) (err error) {
	if text == "" || c.kind != csvText && csvNull(text) {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		var v int64
		if v, err = strconv.ParseInt(text, 10, 64); err == nil {
			b.Append(v)
		}
	case *array.Float64Builder:
		if c.commas {
			text = pointed(text)
		}
		var v float64
		if v, err = strconv.ParseFloat(text, 64); err == nil {
			b.Append(v)
		}
	case *array.TimestampBuilder:
		at, ok := ParseTime(text)
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

// timeLayouts are those of RFC 3339, with a space in the place of the T, without a zone, which is then UTC, without seconds, and without a time of day; and
// those with a slash or with points, by which the year comes first and last.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", time.DateTime, time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04",
	"2006/01/02 15:04:05", "2006/01/02 15:04", "2006/01/02", "02.01.2006 15:04:05", "02.01.2006 15:04", "02.01.2006",
}

// ParseTime reads a time as texts have it; false: it is none.
func ParseTime(text string) (time.Time, bool) {
	if len(text) < len(time.DateOnly) || text[0] < '0' || text[0] > '9' || text[4] != '-' && text[4] != '/' && (text[2] != '.' || text[5] != '.') {
		return time.Time{}, false
	}
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
