// Package arrowjson writes the rows of Arrow records as JSON objects: Rows.Reset for each record, then Append for each row.
//
//	integers                   digits, all of them
//	floating point             the shortest digits that read back the same; null for NaN and infinities
//	decimals                   a number with all its digits
//	utf8                       a string
//	binary                     a string of base64, with padding
//	boolean                    true, false
//	date                       "2026-11-22"
//	time                       "13:45:00.25"
//	timestamp                  "2026-11-22T13:45:00.25Z", in the column's time zone; without one, no zone is written
//	duration                   a number, in seconds
//	interval                   "P1Y2M3DT4.5S"
//	list                       an array
//	struct                     an object
//	map                        an object; keys that are not text are written as text, and one that comes twice comes twice
//	union                      the value of its branch
//	dictionary, run-end, extension   the value that they stand for
//	null                       null
//
// An error is about the schema: two columns of one name, which an object cannot have, or a type that is not in this list.
package arrowjson

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"time"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/internal/rowrecord"
)

// Rows are the rows of one record after the other. What depends on the schema alone is kept.
type Rows struct {
	schema *arrow.Schema
	fields []field
	row    rowrecord.Record // the only row; nil: the record has arrays
	bound  bound
}

type field struct {
	name   string
	key    []byte // with the comma before and the colon behind it
	value  appender
	single func(dst []byte, v rowrecord.Value) []byte // of a rowrecord.Record; nil: it does not show the value
}

// appender appends the value of a row, which may be null.
type appender func(dst []byte, row int) []byte

// Reset goes on to the rows of rec, which must not be released while they are written.
func (r *Rows) Reset(rec arrow.Record) (err error) {
	if schema := rec.Schema(); schema != r.schema {
		r.schema = nil
		if r.fields, err = keys(schema.Fields()); err != nil {
			return err
		}
		r.schema = schema
		for i := range r.fields {
			r.fields[i].single = single(schema.Field(i).Type, &r.bound)
		}
	}
	r.bound.lost = 0
	if r.bound.end == 0 {
		r.Until(0)
	}
	if r.row, _ = rec.(rowrecord.Record); r.row != nil {
		return r.fillNested()
	}
	return fill(r.fields, rec.Columns(), &r.bound)
}

// Until says at which length Append gives up: what it returns is then longer than that, by little, and no JSON. 0: it never does.
func (r *Rows) Until(end int) {
	if r.bound.end = end; end == 0 {
		r.bound.end = math.MaxInt
	}
}

// Lost is how many times of the rows that were appended since Reset are null, because no text says them.
func (r *Rows) Lost() int { return r.bound.lost }

// fillNested gives the fields whose values the row does not show those of its columns.
func (r *Rows) fillNested() error {
	for i := range r.fields {
		if f := &r.fields[i]; f.single == nil {
			if err := f.fill(r.row.Column(i), &r.bound); err != nil {
				return err
			}
		}
	}
	return nil
}

// keys returns fields without their values.
func keys(named []arrow.Field) ([]field, error) {
	fields := make([]field, len(named))
	seen := make(map[string]bool, len(named))
	for i, f := range named {
		if seen[f.Name] {
			return nil, fmt.Errorf("arrowjson: there are two columns %q, and the keys of a JSON object differ: rename one of them, or set transform.format to arrow", f.Name)
		}
		seen[f.Name] = true
		fields[i] = field{name: f.Name, key: append(jsontext.AppendString([]byte{','}, f.Name), ':')}
	}
	return fields, nil
}

func fill(fields []field, columns []arrow.Array, b *bound) error {
	for i := range fields {
		if err := fields[i].fill(columns[i], b); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) fill(column arrow.Array, b *bound) (err error) {
	if f.value, err = values(column, b); err != nil {
		return fmt.Errorf("arrowjson: column %q: %w", f.name, err)
	}
	return nil
}

// Append appends the keys and values of a row, without the braces around them.
func (r *Rows) Append(dst []byte, row int) []byte {
	if r.row == nil {
		return appendFields(dst, r.fields, row, &r.bound)
	}
	for i := range r.fields {
		f := &r.fields[i]
		if r.bound.reached(dst) {
			break
		}
		dst = append(dst, f.keyAt(i)...)
		if f.single == nil {
			dst = f.value(dst, row)
		} else if v := r.row.Value(i); v.Valid {
			dst = f.single(dst, v)
		} else {
			dst = append(dst, jsontext.Null...)
		}
	}
	return dst
}

func appendFields(dst []byte, fields []field, row int, b *bound) []byte {
	for i := range fields {
		if b.reached(dst) {
			break
		}
		dst = fields[i].value(append(dst, fields[i].keyAt(i)...), row)
	}
	return dst
}

// keyAt is the key of field i, the first of which has no comma before it.
func (f *field) keyAt(i int) []byte {
	if i == 0 {
		return f.key[1:]
	}
	return f.key
}

// values returns what appends the values of a column, and null where there is none.
func values(column arrow.Array, b *bound) (appender, error) {
	some, err := present(column, b)
	if err != nil || some == nil {
		return func(dst []byte, _ int) []byte { return append(dst, jsontext.Null...) }, err
	}
	if column.NullN() == 0 {
		return some, nil
	}
	return func(dst []byte, row int) []byte {
		if column.IsNull(row) {
			return append(dst, jsontext.Null...)
		}
		return some(dst, row)
	}, nil
}

// present returns what appends the values that are not null; nil if all are.
func present(column arrow.Array, b *bound) (appender, error) {
	switch a := column.(type) {
	case *array.Null:
		return nil, nil
	case *array.Boolean:
		return func(dst []byte, i int) []byte { return strconv.AppendBool(dst, a.Value(i)) }, nil
	case *array.Int8:
		return signed(a.Int8Values()), nil
	case *array.Int16:
		return signed(a.Int16Values()), nil
	case *array.Int32:
		return signed(a.Int32Values()), nil
	case *array.Int64:
		return signed(a.Int64Values()), nil
	case *array.Uint8:
		return unsigned(a.Uint8Values()), nil
	case *array.Uint16:
		return unsigned(a.Uint16Values()), nil
	case *array.Uint32:
		return unsigned(a.Uint32Values()), nil
	case *array.Uint64:
		return unsigned(a.Uint64Values()), nil
	case *array.Float16:
		return func(dst []byte, i int) []byte { return jsontext.AppendFloat32(dst, a.Value(i).Float32()) }, nil
	case *array.Float32:
		return func(dst []byte, i int) []byte { return jsontext.AppendFloat32(dst, a.Value(i)) }, nil
	case *array.Float64:
		return func(dst []byte, i int) []byte { return jsontext.AppendFloat64(dst, a.Value(i)) }, nil
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(dst []byte, i int) []byte { return append(dst, a.Value(i).ToString(scale)...) }, nil
	case *array.Decimal256:
		scale := a.DataType().(*arrow.Decimal256Type).Scale
		return func(dst []byte, i int) []byte { return append(dst, a.Value(i).ToString(scale)...) }, nil
	case *array.String:
		return func(dst []byte, i int) []byte { return b.text(dst, a.Value(i)) }, nil
	case *array.LargeString:
		return func(dst []byte, i int) []byte { return b.text(dst, a.Value(i)) }, nil
	case *array.StringView:
		return func(dst []byte, i int) []byte { return b.text(dst, a.Value(i)) }, nil
	case *array.Binary:
		return func(dst []byte, i int) []byte { return b.base(dst, a.Value(i)) }, nil
	case *array.LargeBinary:
		return func(dst []byte, i int) []byte { return b.base(dst, a.Value(i)) }, nil
	case *array.BinaryView:
		return func(dst []byte, i int) []byte { return b.base(dst, a.Value(i)) }, nil
	case *array.FixedSizeBinary:
		return func(dst []byte, i int) []byte { return b.base(dst, a.Value(i)) }, nil
	}
	if some := moment(column, b); some != nil {
		return some, nil
	}
	return nested(column, b)
}

func signed[T int8 | int16 | int32 | int64](v []T) appender {
	return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(v[i]), 10) }
}

func unsigned[T uint8 | uint16 | uint32 | uint64](v []T) appender {
	return func(dst []byte, i int) []byte { return strconv.AppendUint(dst, uint64(v[i]), 10) }
}

// bound is where a text ends that has become too long: what writes several values looks before each, and what writes a
// long one before that, so that little is written beyond it.
type bound struct {
	end  int
	lost int // times that are null
}

// lose appends null for a time that no text says, and counts.
func (b *bound) lose(dst []byte) []byte {
	b.lost++
	return append(dst, jsontext.Null...)
}

// short is how long a value may be that is written without a look at how long it becomes.
const short = 4 << 10

func (b *bound) text(dst []byte, s string) []byte {
	if len(s) > short && len(dst)+len(s) > b.end-(jsontext.MostEscaped-1)*len(s) && len(dst)+jsontext.StringSize(s) > b.end {
		return b.beyond(dst)
	}
	return jsontext.AppendString(dst, s)
}

// base appends bytes as a string of base64.
func (b *bound) base(dst, v []byte) []byte {
	if len(v) > short && len(dst)+base64.StdEncoding.EncodedLen(len(v)) > b.end {
		return b.beyond(dst)
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v), '"')
}

// reached reports whether dst is too long.
func (b *bound) reached(dst []byte) bool { return len(dst) > b.end }

// beyond makes dst too long, whatever it holds.
func (b *bound) beyond(dst []byte) []byte {
	return append(dst, make([]byte, max(0, b.end-len(dst))+1)...)
}

// nested returns what appends the values of columns that are made of others.
func nested(column arrow.Array, b *bound) (appender, error) {
	switch a := column.(type) {
	case *array.Struct:
		columns := make([]arrow.Array, a.NumField())
		for i := range columns {
			columns[i] = a.Field(i)
		}
		fields, err := keys(a.DataType().(*arrow.StructType).Fields())
		if err == nil {
			err = fill(fields, columns, b)
		}
		return func(dst []byte, i int) []byte { return append(appendFields(append(dst, '{'), fields, i, b), '}') }, err
	case *array.Map: // before ListLike, which it is too
		return object(a, b)
	case array.ListLike:
		value, err := values(a.ListValues(), b)
		return func(dst []byte, i int) []byte {
			from, to := a.ValueOffsets(i)
			dst = append(dst, '[')
			for j := from; j < to && !b.reached(dst); j++ {
				if j > from {
					dst = append(dst, ',')
				}
				dst = value(dst, int(j))
			}
			return append(dst, ']')
		}, err
	case *array.Dictionary:
		value, err := values(a.Dictionary(), b)
		return func(dst []byte, i int) []byte { return value(dst, a.GetValueIndex(i)) }, err
	case *array.RunEndEncoded:
		value, err := values(a.Values(), b)
		return func(dst []byte, i int) []byte { return value(dst, a.GetPhysicalIndex(i)) }, err
	case array.ExtensionArray:
		return values(a.Storage(), b)
	case *array.SparseUnion:
		return branches(a, b, func(i int) int { return i })
	case *array.DenseUnion:
		return branches(a, b, func(i int) int { return int(a.ValueOffset(i)) })
	}
	return nil, fmt.Errorf("type %v cannot be written as JSON; set transform.format to arrow", column.DataType())
}

func object(a *array.Map, b *bound) (appender, error) {
	key, err := values(a.Keys(), b)
	if err != nil {
		return nil, err
	}
	value, err := values(a.Items(), b)
	return func(dst []byte, i int) []byte {
		from, to := a.ValueOffsets(i)
		dst = append(dst, '{')
		for j := from; j < to && !b.reached(dst); j++ {
			if j > from {
				dst = append(dst, ',')
			}
			at := len(dst)
			if dst = key(dst, int(j)); dst[at] != '"' {
				dst = jsontext.AppendString(dst[:at], string(dst[at:]))
			}
			dst = value(append(dst, ':'), int(j))
		}
		return append(dst, '}')
	}, err
}

// branches appends the values of unions; at is the place of a row's value in its branch.
func branches(a array.Union, b *bound, at func(row int) int) (appender, error) {
	all := make([]appender, a.NumFields())
	for i := range all {
		var err error
		if all[i], err = values(a.Field(i), b); err != nil {
			return nil, err
		}
	}
	return func(dst []byte, i int) []byte { return all[a.ChildID(i)](dst, at(i)) }, nil
}

// single returns what appends a value of a type that a rowrecord.Record shows, as present does for arrays; nil for other types.
func single(t arrow.DataType, b *bound) func(dst []byte, v rowrecord.Value) []byte {
	if !rowrecord.Shows(t) {
		return nil
	}
	switch t.ID() {
	case arrow.BOOL:
		return func(dst []byte, v rowrecord.Value) []byte { return strconv.AppendBool(dst, v.Bits == 1) }
	case arrow.UINT32, arrow.UINT64:
		return func(dst []byte, v rowrecord.Value) []byte { return strconv.AppendUint(dst, v.Bits, 10) }
	case arrow.FLOAT32:
		return func(dst []byte, v rowrecord.Value) []byte {
			return jsontext.AppendFloat32(dst, math.Float32frombits(uint32(v.Bits)))
		}
	case arrow.FLOAT64:
		return func(dst []byte, v rowrecord.Value) []byte {
			return jsontext.AppendFloat64(dst, math.Float64frombits(v.Bits))
		}
	case arrow.STRING:
		return func(dst []byte, v rowrecord.Value) []byte {
			return b.text(dst, unsafe.String(unsafe.SliceData(v.Text), len(v.Text)))
		}
	case arrow.BINARY:
		return func(dst []byte, v rowrecord.Value) []byte { return b.base(dst, v.Text) }
	case arrow.TIMESTAMP:
		instant := instants(t.(*arrow.TimestampType), b)
		return func(dst []byte, v rowrecord.Value) []byte { return instant(dst, int64(v.Bits)) }
	case arrow.DURATION:
		span := durations(t.(*arrow.DurationType))
		return func(dst []byte, v rowrecord.Value) []byte { return span(dst, int64(v.Bits)) }
	}
	return func(dst []byte, v rowrecord.Value) []byte { return strconv.AppendInt(dst, int64(v.Bits), 10) }
}

// The forms of ISO 8601. Fractions of a second have as many digits as they need.
const (
	dateForm    = `"2006-01-02"`
	timeForm    = `"15:04:05.999999999"`
	localForm   = `"2006-01-02T15:04:05.999999999"`
	instantForm = `"2006-01-02T15:04:05.999999999Z07:00"`
)

// moment returns what appends dates, times and spans of time; nil: the column has none.
func moment(column arrow.Array, b *bound) appender {
	switch a := column.(type) {
	case *array.Date32:
		return func(dst []byte, i int) []byte { return a.Value(i).ToTime().AppendFormat(dst, dateForm) }
	case *array.Date64:
		return func(dst []byte, i int) []byte { return a.Value(i).ToTime().AppendFormat(dst, dateForm) }
	case *array.Time32:
		unit := a.DataType().(*arrow.Time32Type).Unit
		return func(dst []byte, i int) []byte { return b.clock(dst, int64(a.Value(i)), unit) }
	case *array.Time64:
		unit := a.DataType().(*arrow.Time64Type).Unit
		return func(dst []byte, i int) []byte { return b.clock(dst, int64(a.Value(i)), unit) }
	case *array.Timestamp:
		instant := instants(a.DataType().(*arrow.TimestampType), b)
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
func (b *bound) clock(dst []byte, v int64, unit arrow.TimeUnit) []byte {
	long := int64(unit.Multiplier())
	if v < 0 || v >= int64(24*time.Hour)/long {
		return b.lose(dst)
	}
	return time.Unix(0, v*long).UTC().AppendFormat(dst, timeForm)
}

// mostSeconds is how far from 1970 a time.Time can be: its own count begins in the year 1.
const mostSeconds = math.MaxInt64 - 1<<36

// instants returns what appends timestamps of a type, in their zone; null for one that time.Time cannot hold.
func instants(t *arrow.TimestampType, b *bound) func(dst []byte, v int64) []byte {
	form, zone := instantForm, time.UTC
	if t.TimeZone == "" {
		form = localForm
	} else if z, err := t.GetZone(); err == nil && z != nil { // one that is not known here is written as UTC
		zone = z
	}
	return func(dst []byte, v int64) []byte {
		if t.Unit == arrow.Second && (v > mostSeconds || v < -mostSeconds) {
			return b.lose(dst)
		}
		return wholeMinutes(arrow.Timestamp(v).ToTime(t.Unit).In(zone)).AppendFormat(dst, form)
	}
}

// wholeMinutes is the same instant with an offset that ISO 8601 can write: before there were time zones, a place's was its own to the second.
func wholeMinutes(at time.Time) time.Time {
	if _, offset := at.Zone(); offset%60 != 0 {
		return at.In(time.FixedZone("", offset-offset%60))
	}
	return at
}

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

// What values take at most, with the comma behind them. Times have more digits than numbers.
const (
	numberBytes  = 26
	momentBytes  = 72
	decimalBytes = 84
	boolBytes    = len("false,")
	nullBytes    = len(jsontext.Null + ",")
	marks        = len(`"":,`) // of a field, or around what is nested
)

// Size is at most how many bytes Append makes of all rows of a record: measured from what the record holds, without making it. It looks
// no further once it is beyond most.
func Size(rec arrow.Record, most int64) (size int64) {
	s, schema, rows := sizes{most}, rec.Schema(), int(rec.NumRows())
	single, _ := rec.(rowrecord.Record)
	for i := 0; i < schema.NumFields() && size <= most; i++ { // Fields would copy them
		f := schema.Field(i)
		size += s.name(f.Name, int64(rows))
		if single != nil && rowrecord.Shows(f.Type) {
			size += shown(f.Type, single.Value(i))
		} else {
			size += s.of(rec.Column(i), 0, rows)
		}
	}
	return size
}

// shown is the size of a value of a rowrecord.Record.
func shown(t arrow.DataType, v rowrecord.Value) int64 {
	switch t.ID() {
	case arrow.STRING:
		return int64(jsontext.StringSize(unsafe.String(unsafe.SliceData(v.Text), len(v.Text))))
	case arrow.BINARY:
		return int64(base64.StdEncoding.EncodedLen(len(v.Text)) + marks)
	}
	return momentBytes
}

// sizes measures columns. Once one of its sums is beyond most, it is the answer.
type sizes struct{ most int64 }

// name is the size of a key in that number of objects.
func (s *sizes) name(name string, rows int64) int64 {
	return rows * int64(jsontext.StringSize(name)+marks)
}

// of is the size of rows from … to−1 of a column.
func (s *sizes) of(column arrow.Array, from, to int) int64 {
	n := int64(to - from)
	switch a := column.(type) {
	case *array.Null:
		return n * int64(nullBytes)
	case *array.Boolean:
		return n * int64(boolBytes)
	case *array.Decimal128, *array.Decimal256:
		return n * decimalBytes
	case *array.String, *array.LargeString, *array.StringView:
		text := a.(interface{ Value(int) string })
		return s.each(from, to, func(i int) int64 { return int64(jsontext.StringSize(text.Value(i)) + nullBytes) })
	case *array.Binary, *array.LargeBinary, *array.BinaryView:
		bytes := a.(interface{ ValueLen(int) int })
		return s.each(from, to, func(i int) int64 { return int64(base64.StdEncoding.EncodedLen(bytes.ValueLen(i)) + marks + nullBytes) })
	case *array.FixedSizeBinary:
		return n * int64(base64.StdEncoding.EncodedLen(a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth)+marks+nullBytes)
	}
	if size, ok := s.nested(column, from, to); ok {
		return size
	}
	if arrow.IsFloating(column.DataType().ID()) || arrow.IsInteger(column.DataType().ID()) {
		return n * numberBytes
	}
	return n * momentBytes
}

// each is a sum over rows.
func (s *sizes) each(from, to int, of func(i int) int64) (size int64) {
	for i := from; i < to && size <= s.most; i++ {
		size += of(i)
	}
	return size
}

// nested is of for columns that are made of others; ok: it is one.
func (s *sizes) nested(column arrow.Array, from, to int) (size int64, ok bool) {
	n := int64(to - from)
	switch a := column.(type) {
	case *array.Struct:
		size = n * int64(nullBytes+marks)
		for i, f := range a.DataType().(*arrow.StructType).Fields() {
			if size > s.most {
				break
			}
			size += s.name(f.Name, n) + s.of(a.Field(i), from, to)
		}
	case *array.Map:
		size = s.each(from, to, func(i int) int64 {
			first, last := a.ValueOffsets(i)
			return int64(nullBytes) + (last-first)*int64(marks) + s.of(a.Keys(), int(first), int(last)) + s.of(a.Items(), int(first), int(last))
		})
	case array.ListLike:
		size = s.each(from, to, func(i int) int64 {
			first, last := a.ValueOffsets(i)
			return int64(nullBytes) + s.of(a.ListValues(), int(first), int(last))
		})
	case *array.Dictionary:
		size = s.shared(a, a.Dictionary(), from, to, a.GetValueIndex)
	case *array.RunEndEncoded:
		size = s.shared(a, a.Values(), from, to, a.GetPhysicalIndex)
	case array.ExtensionArray:
		size = s.of(a.Storage(), from, to)
	case *array.SparseUnion:
		size = s.each(from, to, func(i int) int64 { return s.of(a.Field(a.ChildID(i)), i, i+1) })
	case *array.DenseUnion:
		size = s.each(from, to, func(i int) int64 { at := int(a.ValueOffset(i)); return s.of(a.Field(a.ChildID(i)), at, at+1) })
	default:
		return 0, false
	}
	return size, true
}

// shared is the size of values that several rows may have: each is measured once, or only those of few rows.
func (s *sizes) shared(column, values arrow.Array, from, to int, at func(int) int) int64 {
	one := func(i int) int64 { return s.of(values, i, i+1) + int64(nullBytes) }
	if to-from <= values.Len() {
		return s.each(from, to, func(i int) int64 {
			if column.IsNull(i) {
				return int64(nullBytes)
			}
			return one(at(i))
		})
	}
	var longest int64
	for i := range values.Len() {
		longest = max(longest, one(i))
	}
	return longest * int64(to-from)
}
