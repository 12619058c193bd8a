package rowfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/decimal256"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// Bounds of what a Parquet file holds in memory until it is written.
const (
	groupRows  = 1 << 20  // of one row group
	groupBytes = 32 << 20 // of one row group, about
	pageBytes  = 64 << 10 // of one page of each column
	shredRows  = 1 << 10  // whose values are made at a time: few enough for a processor's cache
)

// dictionaryBytes bounds the dictionary of a text column in a row group; beyond it, texts are written one by one.
const dictionaryBytes = 1 << 20

// parquetFile writes a Parquet file with Zstandard.
type parquetFile struct {
	w       *parquet.GenericWriter[any]
	columns []*parquetColumn
	entries []entry // of the rows that are written

	rows  int   // of the row group
	begun int64 // bytes of the file where it begins
}

func newParquetFile(w io.Writer, schema *arrow.Schema) (*parquetFile, error) {
	p, fields := &parquetFile{}, make([]parquet.Field, schema.NumFields())
	for i, f := range schema.Fields() {
		node, column, err := parquetColumnOf(f.Type, optional, 0)
		if err != nil {
			return nil, fmt.Errorf("rowfile: column %q is of type %s, which is not written to Parquet files: %w", f.Name, f.Type, err)
		}
		fields[i], p.columns = &field{node, f.Name}, append(p.columns, column)
	}
	p.w = parquet.NewGenericWriter[any](w, parquet.NewSchema("schema", groupOf(fields)), parquet.Compression(&zstd.Codec{}),
		parquet.DictionaryMaxBytes(dictionaryBytes), parquet.PageBufferSize(pageBytes))
	writers, number, shared := p.w.ColumnWriters(), 0, new(scratch)
	for _, c := range p.columns {
		number = c.attach(writers, number, shared)
	}
	return p, nil
}

func (p *parquetFile) Write(pieces ...[]byte) error { return eachBatch(pieces, p.write) }

func (p *parquetFile) write(rec arrow.Record) error {
	for from, rows := 0, int(rec.NumRows()); from < rows; from += shredRows {
		to := min(rows, from+shredRows)
		p.entries = p.entries[:0]
		for i := from; i < to; i++ {
			p.entries = append(p.entries, entry{at: int32(i)})
		}
		for c, column := range p.columns {
			if err := column.shred(rec.Column(c), p.entries); err != nil {
				return fmt.Errorf("rowfile: column %q: %w", rec.ColumnName(c), err)
			}
		}
		if p.rows += to - from; p.rows < groupRows && p.w.Size()-p.begun < groupBytes {
			continue
		}
		if err := p.w.Flush(); err != nil {
			return fmt.Errorf("rowfile: %w", err)
		}
		p.rows, p.begun = 0, p.w.Size()
	}
	return nil
}

// Lost is how many values are null because Parquet has no unit of theirs and they do not fit into the one that it has.
func (p *parquetFile) Lost() (n int) {
	for _, c := range p.columns {
		n += c.unfit()
	}
	return n
}

func (p *parquetFile) Close() error {
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("rowfile: %w", err)
	}
	return nil
}

// group is a group whose fields keep their order; parquet.Group sorts them by name.
type group struct {
	parquet.Group
	fields []parquet.Field
}

func (g *group) Fields() []parquet.Field { return g.fields }

type field struct {
	parquet.Node
	name string
}

func (f *field) Name() string                      { return f.name }
func (f *field) Value(reflect.Value) reflect.Value { return reflect.Value{} } // of rows as Go values, which there are none of

func groupOf(fields []parquet.Field) parquet.Node {
	g := &group{Group: parquet.Group{}, fields: fields}
	for _, f := range fields {
		g.Group[f.Name()] = f
	}
	return g
}

// presence says whether a column may be null. What Arrow says of that is not used: parts of a table differ in it.
type presence bool

const (
	required presence = false // the key of a map
	optional presence = true
)

func (p presence) of(n parquet.Node) parquet.Node {
	if p == optional {
		return parquet.Optional(n)
	}
	return n
}

var errNoType = errors.New("write .arrow or .arrows")

// parquetColumnOf returns the node of a type within so many lists, and what writes its arrays.
func parquetColumnOf(dt arrow.DataType, p presence, lists uint8) (parquet.Node, *parquetColumn, error) {
	c := &parquetColumn{optional: bool(p), rep: lists + 1}
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		return parquetColumnOf(dt.StorageType(), p, lists)
	case *arrow.StructType:
		fields := make([]parquet.Field, dt.NumFields())
		for i, f := range dt.Fields() {
			node, child, err := parquetColumnOf(f.Type, optional, lists)
			if err != nil {
				return nil, nil, err
			}
			fields[i], c.children = &field{node, f.Name}, append(c.children, child)
		}
		if len(fields) == 0 {
			return nil, nil, errNoType
		}
		return p.of(groupOf(fields)), c, nil
	case *arrow.MapType:
		key, keys, err := parquetColumnOf(dt.KeyType(), required, lists+1)
		if err != nil {
			return nil, nil, err
		}
		item, items, err := parquetColumnOf(dt.ItemType(), optional, lists+1)
		c.children = []*parquetColumn{keys, items}
		if err != nil {
			return nil, nil, err
		}
		return p.of(parquet.Map(key, item)), c, nil
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType:
		item, items, err := parquetColumnOf(dt.(arrow.ListLikeType).Elem(), optional, lists+1)
		c.children = []*parquetColumn{items}
		if err != nil {
			return nil, nil, err
		}
		return p.of(parquet.List(item)), c, nil
	}
	node, reader := leafOf(dt)
	if reader == nil {
		return nil, nil, errNoType
	}
	c.reader, c.fits = reader, fitsOf(dt)
	return p.of(node), c, nil
}

// parquetColumn writes the arrays of a column, or of one within it. Parquet stores leaves only; the levels of each of their entries
// say how far the columns around it are there (definition), and which list goes on (repetition).
type parquetColumn struct {
	optional bool
	children []*parquetColumn // of a struct, or the items of a list
	entries  []entry
	items    []entry
	rep      uint8 // of a list: repetition level of all items after the first

	leaf   *parquet.ColumnWriter // nil: not a leaf
	number int                   // of the leaf
	reader leafReader
	fits   fit // nil: all values do
	lost   int // values that do not fit, which are null
	shared *scratch
}

// scratch is memory that all leaves share, which keeps it in the processor's cache.
type scratch struct {
	entries []entry
	values  []parquet.Value
}

// entry is an element of an array on its way to the leaves.
type entry struct {
	at       int32 // its place in the array; −1: something around it is null or empty
	def, rep uint8
}

// attach gives the leaves their writers, the first of them that of a number, and returns the number after the last.
func (c *parquetColumn) attach(writers []*parquet.ColumnWriter, number int, shared *scratch) int {
	if c.reader != nil {
		c.leaf, c.number, c.shared = writers[number], number, shared
		return number + 1
	}
	for _, child := range c.children {
		number = child.attach(writers, number, shared)
	}
	return number
}

// unfit counts the values that do not fit.
func (c *parquetColumn) unfit() int {
	n := c.lost
	for _, child := range c.children {
		n += child.unfit()
	}
	return n
}

// shred writes elements of an array.
func (c *parquetColumn) shred(a arrow.Array, in []entry) error {
	if ext, ok := a.(array.ExtensionArray); ok {
		return c.shred(ext.Storage(), in)
	}
	if c.leaf != nil {
		return c.write(a, in)
	}
	c.entries = append(c.entries[:0], in...)
	if c.optional {
		present(a, c.entries)
	}
	switch a := a.(type) {
	case *array.Struct:
		for i, child := range c.children {
			if err := child.shred(a.Field(i), c.entries); err != nil {
				return err
			}
		}
		return nil
	case *array.Map: // a list of structs of a key and an item
		c.expand(a)
		if err := c.children[0].shred(a.Keys(), c.items); err != nil {
			return err
		}
		return c.children[1].shred(a.Items(), c.items)
	default:
		list := a.(array.ListLike)
		c.expand(list)
		return c.children[0].shred(list.ListValues(), c.items)
	}
}

// expand makes items the elements of the lists, and one entry of each list that has none.
func (c *parquetColumn) expand(a array.ListLike) {
	c.items = c.items[:0]
	for _, e := range c.entries {
		if e.at < 0 {
			c.items = append(c.items, e)
			continue
		}
		from, to := a.ValueOffsets(int(e.at))
		if from == to {
			c.items = append(c.items, entry{at: -1, def: e.def, rep: e.rep})
		}
		for i := from; i < to; i++ {
			item := entry{at: int32(i), def: e.def + 1, rep: c.rep}
			if i == from {
				item.rep = e.rep
			}
			c.items = append(c.items, item)
		}
	}
}

// write writes elements of the array of a leaf.
func (c *parquetColumn) write(a arrow.Array, in []entry) error {
	s := c.shared
	s.entries = append(s.entries[:0], in...)
	if c.optional {
		present(a, s.entries)
	}
	if c.fits != nil {
		if err := c.leaveOut(c.fits(a), s.entries); err != nil {
			return err
		}
	}
	s.values = slices.Grow(s.values[:0], len(in))[:len(in)]
	c.reader(a)(s.values, s.entries, c.number)
	_, err := c.leaf.WriteRowValues(s.values)
	return err
}

// leaveOut makes values null that do not fit. What may not be null, the key of a map, is an error.
func (c *parquetColumn) leaveOut(fits func(i int) bool, entries []entry) error {
	for i := range entries {
		e := &entries[i]
		switch {
		case e.at < 0 || fits(int(e.at)):
		case !c.optional:
			return fmt.Errorf("a key is a time that Parquet has not: %w", errNoType)
		default:
			e.at, e.def, c.lost = -1, e.def-1, c.lost+1
		}
	}
	return nil
}

// present raises the definition level of the elements that are not null.
func present(a arrow.Array, entries []entry) {
	isNull := a.IsNull
	switch a := a.(type) {
	case *array.Dictionary: // whose words may be null, too
		words := a.Dictionary()
		isNull = func(i int) bool { return a.IsNull(i) || words.IsNull(a.GetValueIndex(i)) }
	case *array.Null:
		isNull = func(int) bool { return true }
	default:
		if a.NullN() == 0 {
			isNull = nil
		}
	}
	for i := range entries {
		switch e := &entries[i]; {
		case e.at < 0:
		case isNull != nil && isNull(int(e.at)):
			e.at = -1
		default:
			e.def++
		}
	}
}

// leafReader returns what makes the values of the elements of an array, which are good as long as the array is.
type leafReader func(arrow.Array) func(dst []parquet.Value, of []entry, column int)

// each returns a leafReader of arrays whose values are made one by one.
func each(value func(arrow.Array) func(i int) parquet.Value) leafReader {
	return func(a arrow.Array) func([]parquet.Value, []entry, int) {
		value := value(a)
		return func(dst []parquet.Value, of []entry, column int) {
			for k, e := range of {
				var v parquet.Value
				if e.at >= 0 {
					v = value(int(e.at))
				}
				dst[k] = v.Level(int(e.rep), int(e.def), column)
			}
		}
	}
}

// meant is a type whose values mean something that the library has no type of.
type meant struct {
	parquet.Type
	meaning format.LogicalTypeValue
}

func (m meant) LogicalType() *format.LogicalType { return &format.LogicalType{Value: m.meaning} }

// leafOf returns the node of a type without children, and the reader of its arrays; nil: there is none.
func leafOf(dt arrow.DataType) (parquet.Node, leafReader) {
	if d, ok := dt.(arrow.DecimalType); ok && d.GetScale() < 0 { // which Parquet has not
		return nil, nil
	}
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		node, words := leafOf(dt.ValueType)
		if words == nil {
			return nil, nil
		}
		return node, func(a arrow.Array) func([]parquet.Value, []entry, int) {
			d := a.(*array.Dictionary)
			read := words(d.Dictionary())
			return func(dst []parquet.Value, of []entry, column int) {
				for i := range of { // nothing reads them after us
					if e := &of[i]; e.at >= 0 {
						e.at = int32(d.GetValueIndex(int(e.at)))
					}
				}
				read(dst, of, column)
			}
		}
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		return parquet.Encoded(parquet.String(), &parquet.RLEDictionary), each(texts)
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		return parquet.Encoded(parquet.Leaf(parquet.ByteArrayType), &parquet.RLEDictionary), each(byteArrays)
	case *arrow.FixedSizeBinaryType:
		if dt.ByteWidth < 1 {
			return nil, nil
		}
		return parquet.Leaf(parquet.FixedLenByteArrayType(dt.ByteWidth)), each(func(a arrow.Array) func(int) parquet.Value {
			f := a.(*array.FixedSizeBinary)
			return func(i int) parquet.Value { return parquet.FixedLenByteArrayValue(f.Value(i)) }
		})
	case *arrow.Decimal128Type:
		return parquet.Decimal(int(dt.Scale), int(dt.Precision), parquet.FixedLenByteArrayType(16)), reads((*array.Decimal128).Values, func(n decimal128.Num) parquet.Value {
			b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(n.HighBits()))
			return parquet.FixedLenByteArrayValue(binary.BigEndian.AppendUint64(b, n.LowBits()))
		})
	case *arrow.Decimal256Type:
		return parquet.Decimal(int(dt.Scale), int(dt.Precision), parquet.FixedLenByteArrayType(32)), reads((*array.Decimal256).Values, func(n decimal256.Num) parquet.Value {
			b, words := make([]byte, 0, 32), n.Array()
			for k := len(words) - 1; k >= 0; k-- {
				b = binary.BigEndian.AppendUint64(b, words[k])
			}
			return parquet.FixedLenByteArrayValue(b)
		})
	case *arrow.TimestampType, *arrow.Time32Type, *arrow.Time64Type, *arrow.Date32Type, *arrow.Date64Type, *arrow.DurationType:
		return timeOf(dt)
	}
	return numberOf(dt)
}

func numberOf(dt arrow.DataType) (parquet.Node, leafReader) {
	switch dt.ID() {
	case arrow.NULL:
		return parquet.Leaf(meant{parquet.Int32Type, new(format.NullType)}), each(func(arrow.Array) func(int) parquet.Value {
			return func(int) parquet.Value { return parquet.NullValue() }
		})
	case arrow.BOOL:
		return parquet.Leaf(parquet.BooleanType), each(func(a arrow.Array) func(int) parquet.Value {
			b := a.(*array.Boolean)
			return func(i int) parquet.Value { return parquet.BooleanValue(b.Value(i)) }
		})
	case arrow.INT8:
		return parquet.Int(8), reads((*array.Int8).Int8Values, int32Value)
	case arrow.INT16:
		return parquet.Int(16), reads((*array.Int16).Int16Values, int32Value)
	case arrow.INT32:
		return parquet.Int(32), reads((*array.Int32).Int32Values, int32Value)
	case arrow.INT64:
		return parquet.Int(64), reads((*array.Int64).Int64Values, int64Value)
	case arrow.UINT8:
		return parquet.Uint(8), reads((*array.Uint8).Uint8Values, int32Value)
	case arrow.UINT16:
		return parquet.Uint(16), reads((*array.Uint16).Uint16Values, int32Value)
	case arrow.UINT32:
		return parquet.Uint(32), reads((*array.Uint32).Uint32Values, int32Value)
	case arrow.UINT64:
		return parquet.Uint(64), reads((*array.Uint64).Uint64Values, int64Value)
	case arrow.FLOAT16:
		return parquet.Leaf(meant{parquet.FixedLenByteArrayType(2), new(format.Float16Type)}), reads((*array.Float16).Values, func(n float16.Num) parquet.Value {
			return parquet.FixedLenByteArrayValue(binary.LittleEndian.AppendUint16(nil, n.Uint16()))
		})
	case arrow.FLOAT32:
		return parquet.Leaf(parquet.FloatType), reads((*array.Float32).Float32Values, parquet.FloatValue)
	case arrow.FLOAT64:
		return parquet.Leaf(parquet.DoubleType), reads((*array.Float64).Float64Values, parquet.DoubleValue)
	}
	return nil, nil
}

// timeOf is leafOf for times. Parquet has no unit of seconds, and days for dates only; it has no durations, which are numbers in their unit.
func timeOf(dt arrow.DataType) (parquet.Node, leafReader) {
	switch dt := dt.(type) {
	case *arrow.TimestampType:
		unit, factor := unitOf(dt.Unit)
		return parquet.TimestampAdjusted(unit, dt.TimeZone != ""), reads((*array.Timestamp).TimestampValues, func(t arrow.Timestamp) parquet.Value { return parquet.Int64Value(int64(t) * factor) })
	case *arrow.Time32Type:
		unit, factor := unitOf(dt.Unit)
		return parquet.TimeAdjusted(unit, false), reads((*array.Time32).Time32Values, func(t arrow.Time32) parquet.Value { return parquet.Int32Value(int32(t) * int32(factor)) })
	case *arrow.Time64Type:
		unit, _ := unitOf(dt.Unit)
		return parquet.TimeAdjusted(unit, false), reads((*array.Time64).Time64Values, int64Value)
	case *arrow.Date32Type:
		return parquet.Date(), reads((*array.Date32).Date32Values, int32Value)
	case *arrow.Date64Type:
		return parquet.Date(), reads((*array.Date64).Date64Values, func(t arrow.Date64) parquet.Value { return parquet.Int32Value(int32(t / dayMillis)) })
	}
	return parquet.Int(64), reads((*array.Duration).DurationValues, int64Value)
}

const dayMillis = 24 * 3600 * 1000

// unitOf returns the unit of Parquet, and how many of it are one of Arrow's.
func unitOf(u arrow.TimeUnit) (parquet.TimeUnit, int64) {
	switch u {
	case arrow.Second:
		return parquet.Millisecond, 1000
	case arrow.Millisecond:
		return parquet.Millisecond, 1
	case arrow.Microsecond:
		return parquet.Microsecond, 1
	}
	return parquet.Nanosecond, 1
}

// fit returns what reports whether values of an array fit into the type that they are written as.
type fit func(arrow.Array) func(i int) bool

// fitsOf returns the fit of a type whose unit Parquet has not; nil: all values of it fit.
func fitsOf(dt arrow.DataType) fit {
	switch dt := dt.(type) {
	case *arrow.TimestampType:
		if _, factor := unitOf(dt.Unit); factor > 1 {
			return within64((*array.Timestamp).TimestampValues, math.MaxInt64/factor)
		}
	case *arrow.Time32Type:
		if _, factor := unitOf(dt.Unit); factor > 1 {
			return within64((*array.Time32).Time32Values, math.MaxInt32/factor)
		}
	case *arrow.Date64Type:
		return within64((*array.Date64).Date64Values, math.MaxInt32*dayMillis)
	case *arrow.DictionaryType:
		if words := fitsOf(dt.ValueType); words != nil {
			return func(a arrow.Array) func(int) bool {
				d := a.(*array.Dictionary)
				fits := words(d.Dictionary())
				return func(i int) bool { return fits(d.GetValueIndex(i)) }
			}
		}
	}
	return nil
}

func within64[A arrow.Array, T ~int32 | ~int64](values func(A) []T, most int64) fit {
	return func(a arrow.Array) func(int) bool {
		v := values(a.(A))
		return func(i int) bool { return int64(v[i]) <= most && int64(v[i]) >= -most }
	}
}

// reads returns the reader of arrays of numbers.
func reads[A arrow.Array, T any](values func(A) []T, value func(T) parquet.Value) leafReader {
	return func(a arrow.Array) func([]parquet.Value, []entry, int) {
		v := values(a.(A))
		return func(dst []parquet.Value, of []entry, column int) {
			for k, e := range of {
				if e.at >= 0 {
					dst[k] = value(v[e.at]).Level(int(e.rep), int(e.def), column)
				} else {
					dst[k] = parquet.Value{}.Level(int(e.rep), int(e.def), column)
				}
			}
		}
	}
}

func int32Value[T ~int8 | ~int16 | ~int32 | ~uint8 | ~uint16 | ~uint32](v T) parquet.Value {
	return parquet.Int32Value(int32(v))
}

func int64Value[T ~int64 | ~uint64](v T) parquet.Value { return parquet.Int64Value(int64(v)) }

func texts(a arrow.Array) func(int) parquet.Value {
	s := a.(array.StringLike)
	return func(i int) parquet.Value {
		text := s.Value(i)
		return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(text), len(text)))
	}
}

func byteArrays(a arrow.Array) func(int) parquet.Value {
	b := a.(interface{ Value(i int) []byte })
	return func(i int) parquet.Value { return parquet.ByteArrayValue(b.Value(i)) }
}
