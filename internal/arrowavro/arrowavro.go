// Package arrowavro writes rows of Arrow records as Avro: Schema says what they are, Append writes one.
//
//	boolean                        boolean
//	int8, int16, int32, uint8, uint16   int
//	int64, uint32, uint64          long; a number above 2⁶³−1 is an error
//	float16, float32; float64      float; double
//	decimals                       bytes, decimal
//	utf8; binary                   string; bytes
//	date                           int, date
//	time                           int, time-millis; long, time-micros
//	timestamp                      long, timestamp-millis, -micros or -nanos; local-timestamp-* without a zone
//	list, struct                   array, record
//	map with keys of text          map
//	dictionary, run-end, extension   the value that they stand for
//	null                           left out as a field
//
// Each field is a union of null and its type with the default null, so that a reader of one schema reads what was written
// with fields more or less. Elements of lists and maps are such unions where Arrow lets them be null. All else (durations,
// intervals, times in nanoseconds, unions, other maps) is an error.
package arrowavro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/jsontext"
)

// Schema returns the schema of rows with the given columns: a record of a name. Names that Avro does not have are changed
// to ones that it has and become the field's doc; no field has a name of those taken.
func Schema(name string, columns []arrow.Field, taken []string) (string, error) {
	s := schema{records: names{}}
	if err := s.record(Name(name), columns, taken); err != nil {
		return "", err
	}
	return string(s.text), nil
}

// Name returns s with an underscore for each byte that names of Avro do not have.
func Name(s string) string {
	name := []byte(s)
	for i, c := range name {
		if !digit(c) && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			name[i] = '_'
		}
	}
	if len(name) == 0 || digit(name[0]) {
		return "_" + string(name)
	}
	return string(name)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// names are those that are given.
type names map[string]bool

// add gives the name that is wanted, or the first with a number behind it that is not given yet.
func (n names) add(want string) string {
	name := want
	for i := 2; n[name]; i++ {
		name = want + "_" + strconv.Itoa(i)
	}
	n[name] = true
	return name
}

// schema is the text of one as far as it is written.
type schema struct {
	text    []byte
	records names // of all records, because each name is defined once
}

func (s *schema) add(text string) { s.text = append(s.text, text...) }

// record writes a record with a field for each column that is not of type null.
func (s *schema) record(name string, columns []arrow.Field, taken []string) error {
	name = s.records.add(name)
	s.add(`{"type":"record","name":"` + name + `","fields":[`)
	given, between := names{}, ""
	for _, t := range taken {
		given[t] = true
	}
	for _, c := range columns {
		if nothing(c.Type) {
			continue
		}
		field := given.add(Name(c.Name))
		s.add(between + `{"name":"` + field + `"`)
		between = ","
		if field != c.Name {
			s.add(`,"doc":`)
			s.text = jsontext.AppendString(s.text, c.Name)
		}
		s.add(`,"type":`)
		if err := s.typ(c.Type, true, name+"_"+field); err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
		s.add(`,"default":null}`)
	}
	s.add("]}")
	return nil
}

// typ writes a type, or the union of null and it. A record in it is called name.
func (s *schema) typ(dt arrow.DataType, nullable bool, name string) error {
	dt = meant(dt)
	if nullable && dt.ID() != arrow.NULL {
		s.add(`["null",`)
		defer s.add("]")
	}
	switch t := dt.(type) {
	case *arrow.StructType:
		return s.record(name, t.Fields(), nil)
	case *arrow.MapType:
		if key := meant(t.KeyType()).ID(); key != arrow.STRING && key != arrow.LARGE_STRING && key != arrow.STRING_VIEW {
			return noType(dt)
		}
		s.add(`{"type":"map","values":`)
		defer s.add("}")
		return s.typ(t.ItemType(), t.ItemField().Nullable, name)
	case arrow.ListLikeType:
		s.add(`{"type":"array","items":`)
		defer s.add("}")
		return s.typ(t.Elem(), t.ElemField().Nullable, name)
	}
	text, err := single(dt)
	s.add(text)
	return err
}

// meant is the type of the values that those of dt stand for.
func meant(dt arrow.DataType) arrow.DataType {
	for {
		switch t := dt.(type) {
		case *arrow.DictionaryType:
			dt = t.ValueType
		case *arrow.RunEndEncodedType:
			dt = t.Encoded()
		case arrow.ExtensionType:
			dt = t.StorageType()
		default:
			return dt
		}
	}
}

// nothing reports whether there are nothing but nulls in a type.
func nothing(dt arrow.DataType) bool { return meant(dt).ID() == arrow.NULL }

func noType(dt arrow.DataType) error { return fmt.Errorf("type %v cannot be written as Avro", dt) }

// single is a type that is not made of others.
func single(dt arrow.DataType) (string, error) {
	switch dt.ID() {
	case arrow.NULL:
		return `"null"`, nil
	case arrow.BOOL:
		return `"boolean"`, nil
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.UINT8, arrow.UINT16:
		return `"int"`, nil
	case arrow.INT64, arrow.UINT32, arrow.UINT64:
		return `"long"`, nil
	case arrow.FLOAT16, arrow.FLOAT32:
		return `"float"`, nil
	case arrow.FLOAT64:
		return `"double"`, nil
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return `"string"`, nil
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW, arrow.FIXED_SIZE_BINARY:
		return `"bytes"`, nil
	case arrow.DATE32, arrow.DATE64:
		return logical("int", "date"), nil
	case arrow.TIME32:
		return logical("int", "time-millis"), nil
	}
	switch t := dt.(type) {
	case arrow.DecimalType:
		if scale, digits := t.GetScale(), t.GetPrecision(); 0 <= scale && scale <= digits {
			return fmt.Sprintf(`{"type":"bytes","logicalType":"decimal","precision":%d,"scale":%d}`, digits, scale), nil
		}
	case *arrow.Time64Type:
		if t.Unit == arrow.Microsecond {
			return logical("long", "time-micros"), nil
		}
	case *arrow.TimestampType:
		name := "timestamp" + [...]string{arrow.Second: "-millis", arrow.Millisecond: "-millis", arrow.Microsecond: "-micros", arrow.Nanosecond: "-nanos"}[t.Unit]
		if t.TimeZone == "" {
			name = "local-" + name
		}
		return logical("long", name), nil
	}
	return "", noType(dt)
}

func logical(typ, name string) string { return `{"type":"` + typ + `","logicalType":"` + name + `"}` }

// ErrTooLarge is a row that takes more bytes than it may.
var ErrTooLarge = errors.New("arrowavro: the row is too large")

// Append appends a row as Schema says, in at most about the given number of bytes. lost is how many of its times are null, because Avro's types cannot
// hold them.
func Append(dst []byte, rec arrow.Record, row, most int) (made []byte, lost int, err error) {
	w := writer{dst: dst, most: len(dst) + most}
	for i, c := range rec.Columns() {
		if err := w.field(c, row); err != nil {
			return dst, 0, fmt.Errorf("column %q: %w", rec.ColumnName(i), err)
		}
	}
	return w.dst, w.lost, nil
}

// errTime is a time that Avro's types cannot hold: null, where its field may be.
var errTime = errors.New("the time is out of the range of Avro's")

// writer is a row as far as it is written.
type writer struct {
	dst  []byte
	most int // its length at the end
	lost int // times that are null
}

func (w *writer) long(n int64) { w.dst = binary.AppendVarint(w.dst, n) }

// field writes the value of a field, which columns of type null have not.
func (w *writer) field(column arrow.Array, row int) error {
	if nothing(column.DataType()) {
		return nil
	}
	return w.value(column, row, true)
}

// value writes a value, with its branch before it if it may be null.
func (w *writer) value(column arrow.Array, row int, nullable bool) error {
	const null, some = 0, 2 // branches of the unions [null, T], as they are written
	if len(w.dst) > w.most {
		return ErrTooLarge
	}
	if nothing(column.DataType()) {
		return nil
	}
	column, row, ok := value(column, row)
	at := len(w.dst)
	switch {
	case !ok && !nullable:
		return errors.New("it is null, and its type says that it is not")
	case !ok:
		w.dst = append(w.dst, null)
		return nil
	case nullable:
		w.dst = append(w.dst, some)
	}
	switch a := column.(type) {
	case *array.Struct:
		for i := range a.NumField() {
			if err := w.field(a.Field(i), row); err != nil {
				return err
			}
		}
		return nil
	case *array.Map: // before ListLike, which it is too
		from, to := a.ValueOffsets(row)
		return w.block(from, to, func(i int) error {
			if err := w.value(a.Keys(), i, false); err != nil {
				return err
			}
			return w.value(a.Items(), i, a.DataType().(*arrow.MapType).ItemField().Nullable)
		})
	case array.ListLike:
		from, to := a.ValueOffsets(row)
		items, nullable := a.ListValues(), a.DataType().(arrow.ListLikeType).ElemField().Nullable
		return w.block(from, to, func(i int) error { return w.value(items, i, nullable) })
	}
	err := w.single(column, row)
	if nullable && errors.Is(err, errTime) {
		w.dst, w.lost, err = append(w.dst[:at], null), w.lost+1, nil
	}
	return err
}

// block writes the elements of a list or map.
func (w *writer) block(from, to int64, element func(int) error) error {
	if to > from {
		w.long(to - from)
		for i := from; i < to; i++ {
			if err := element(int(i)); err != nil {
				return err
			}
		}
	}
	w.dst = append(w.dst, 0) // the last block
	return nil
}

// value is the place of the value that the one in a row stands for; ok is false if it is null.
func value(column arrow.Array, row int) (at arrow.Array, i int, ok bool) {
	for {
		if column.IsNull(row) {
			return column, row, false
		}
		switch a := column.(type) {
		case *array.Dictionary:
			column, row = a.Dictionary(), a.GetValueIndex(row)
		case *array.RunEndEncoded:
			column, row = a.Values(), a.GetPhysicalIndex(row)
		case array.ExtensionArray:
			column = a.Storage()
		default:
			return column, row, true
		}
	}
}

// single writes a value that is not made of others and is not null.
func (w *writer) single(column arrow.Array, i int) error {
	switch a := column.(type) {
	case *array.Boolean:
		b := byte(0)
		if a.Value(i) {
			b = 1
		}
		w.dst = append(w.dst, b)
	case *array.Int8:
		w.long(int64(a.Value(i)))
	case *array.Int16:
		w.long(int64(a.Value(i)))
	case *array.Int32:
		w.long(int64(a.Value(i)))
	case *array.Int64:
		w.long(a.Value(i))
	case *array.Uint8:
		w.long(int64(a.Value(i)))
	case *array.Uint16:
		w.long(int64(a.Value(i)))
	case *array.Uint32:
		w.long(int64(a.Value(i)))
	case *array.Uint64:
		if a.Value(i) > math.MaxInt64 {
			return fmt.Errorf("%d is more than Avro's long holds", a.Value(i))
		}
		w.long(int64(a.Value(i)))
	case *array.Float16:
		w.dst = binary.LittleEndian.AppendUint32(w.dst, math.Float32bits(a.Value(i).Float32()))
	case *array.Float32:
		w.dst = binary.LittleEndian.AppendUint32(w.dst, math.Float32bits(a.Value(i)))
	case *array.Float64:
		w.dst = binary.LittleEndian.AppendUint64(w.dst, math.Float64bits(a.Value(i)))
	case *array.Decimal128:
		w.bytes(twosComplement(a.Value(i).BigInt()))
	case *array.Decimal256:
		w.bytes(twosComplement(a.Value(i).BigInt()))
	case interface{ Value(int) string }: // text
		if w.overruns(len(a.Value(i))) {
			return ErrTooLarge
		}
		w.text(a.Value(i))
	case interface{ Value(int) []byte }: // binary
		if w.overruns(len(a.Value(i))) {
			return ErrTooLarge
		}
		w.bytes(a.Value(i))
	default:
		return w.moment(column, i)
	}
	return nil
}

// moment writes dates, times and timestamps.
func (w *writer) moment(column arrow.Array, i int) error {
	switch a := column.(type) {
	case *array.Date32:
		w.long(int64(a.Value(i)))
	case *array.Date64:
		const day = 24 * 60 * 60 * 1000 // milliseconds
		days := int64(a.Value(i)) / day
		if int64(int32(days)) != days {
			return errTime
		}
		w.long(days)
	case *array.Time32:
		return w.scaled(int64(a.Value(i)), a.DataType().(*arrow.Time32Type).Unit, math.MaxInt32)
	case *array.Time64:
		w.long(int64(a.Value(i)))
	case *array.Timestamp:
		return w.scaled(int64(a.Value(i)), a.DataType().(*arrow.TimestampType).Unit, math.MaxInt64)
	default:
		return noType(column.DataType())
	}
	return nil
}

// scaled writes a time. Avro has none in seconds.
func (w *writer) scaled(n int64, unit arrow.TimeUnit, most int64) error {
	if unit == arrow.Second {
		const millis = 1000
		if n > most/millis || n < -most/millis {
			return errTime
		}
		n *= millis
	}
	w.long(n)
	return nil
}

// overruns reports whether that many bytes more are too many.
func (w *writer) overruns(more int) bool { return len(w.dst)+more > w.most }

func (w *writer) bytes(b []byte) {
	w.long(int64(len(b)))
	w.dst = append(w.dst, b...)
}

func (w *writer) text(s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	w.long(int64(len(s)))
	w.dst = append(w.dst, s...)
}

// twosComplement is a number in as few bytes as it needs, the highest first.
func twosComplement(n *big.Int) []byte {
	size := n.BitLen()/8 + 1 // with the sign
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return n.FillBytes(make([]byte, size))
}
