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
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"

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
