package rowfile

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

var alloc = memory.DefaultAllocator

// dictionaryColumn is a column, or one within it, that is a dictionary or holds one.
type dictionaryColumn struct {
	dt       arrow.DataType
	words    *words              // of a dictionary
	children []*dictionaryColumn // of other nested columns; nil: no dictionary is within
}

// dictionaryColumnOf returns the column of a type; nil: no dictionary is within.
func dictionaryColumnOf(dt arrow.DataType) *dictionaryColumn {
	if !within(dt) {
		return nil
	}
	c, stored := &dictionaryColumn{dt: dt}, dt
	if e, ok := dt.(arrow.ExtensionType); ok {
		stored = e.StorageType()
	}
	if d, ok := stored.(*arrow.DictionaryType); ok {
		c.words = &words{of: d, index: map[string]int{}, null: -1}
		return c
	}
	for _, f := range stored.(arrow.NestedType).Fields() {
		c.children = append(c.children, dictionaryColumnOf(f.Type))
	}
	return c
}

// unified returns the data of an array with places in the words of all arrays so far, which the array itself does not have.
func (c *dictionaryColumn) unified(data arrow.ArrayData) (arrow.ArrayData, error) {
	if c == nil {
		return data, nil
	}
	if c.words != nil {
		return c.words.unified(c.dt, data)
	}
	return c.nested(data, (*dictionaryColumn).unified)
}

// whole returns the data of an array that is unified, with all words.
func (c *dictionaryColumn) whole(data arrow.ArrayData) (arrow.ArrayData, error) {
	if c == nil {
		return data, nil
	}
	if c.words == nil {
		return c.nested(data, (*dictionaryColumn).whole)
	}
	if err := c.words.join(); err != nil || len(c.words.parts) == 0 {
		return data, err
	}
	return array.NewDataWithDictionary(c.dt, data.Len(), data.Buffers(), data.NullN(), data.Offset(), c.words.parts[0].Data().(*array.Data)), nil
}

func (c *dictionaryColumn) nested(data arrow.ArrayData, of func(*dictionaryColumn, arrow.ArrayData) (arrow.ArrayData, error)) (arrow.ArrayData, error) {
	children := make([]arrow.ArrayData, len(c.children))
	for i, child := range c.children {
		var err error
		if children[i], err = of(child, data.Children()[i]); err != nil {
			return nil, err
		}
	}
	return array.NewData(c.dt, data.Len(), data.Buffers(), children, data.NullN(), data.Offset()), nil
}

// words are those of a dictionary column, each once, in the order in which they came.
type words struct {
	of    *arrow.DictionaryType
	index map[string]int
	null  int // place of the word that is null; −1: none is
	n     int
	bytes int
	parts []arrow.Array // the words

	last   arrow.Array // words of the last array
	places []int       // where these are; nil: where they were
}

const (
	wordsBytes = 256 << 20 // bounds the words of a column
	wordsParts = 64        // that are joined
)

// unified returns indices of a dictionary as those of all words, with a dictionary that stands in for these: it is not written.
func (w *words) unified(dt arrow.DataType, data arrow.ArrayData) (arrow.ArrayData, error) {
	given, _ := data.Dictionary().(*array.Data)
	if given == nil {
		return nil, fmt.Errorf("it has no dictionary")
	}
	dict := array.MakeFromData(given)
	if err := w.add(dict); err != nil {
		return nil, err
	}
	none := array.NewSlice(dict, 0, int64(min(1, dict.Len()))).Data().(*array.Data)
	from, to := data.DataType(), arrow.DataType(w.of)
	if e, ok := from.(arrow.ExtensionType); ok {
		from = e.StorageType()
	}
	read, write := from.(*arrow.DictionaryType).IndexType.(arrow.FixedWidthDataType), to.(*arrow.DictionaryType).IndexType.(arrow.FixedWidthDataType)
	buffers := data.Buffers()
	if w.places == nil && read.ID() == write.ID() {
		return array.NewDataWithDictionary(dt, data.Len(), buffers, data.NullN(), data.Offset(), none), nil
	}
	end := data.Offset() + data.Len()
	indices := make([]byte, end*write.Bytes())
	for i := data.Offset(); i < end; i++ {
		if b := buffers[0]; b != nil && b.Len() > 0 && b.Bytes()[i/8]>>(i%8)&1 == 0 {
			continue // what stands at a null may be anything
		}
		at := indexAt(buffers[1].Bytes(), i, read.Bytes())
		if at < 0 || at >= dict.Len() {
			return nil, fmt.Errorf("row %d is word %d of %d", i-data.Offset(), at, dict.Len())
		}
		if w.places != nil {
			at = w.places[at]
		}
		setIndex(indices, i, write.Bytes(), at)
	}
	return array.NewDataWithDictionary(dt, data.Len(), []*memory.Buffer{buffers[0], memory.NewBufferBytes(indices)}, data.NullN(), data.Offset(), none), nil
}

// indexAt reads an index, which is never negative: one that is, or is too large, becomes so large that no dictionary has it.
func indexAt(b []byte, i, width int) int {
	v := uint64(0)
	for k := width - 1; k >= 0; k-- {
		v = v<<8 | uint64(b[i*width+k])
	}
	return int(min(v, math.MaxInt))
}

func setIndex(b []byte, i, width, v int) {
	for k := range width {
		b[i*width+k] = byte(v >> (8 * k))
	}
}

// add takes the words of an array, and finds their places.
func (w *words) add(dict arrow.Array) error {
	if w.last != nil && array.Equal(w.last, dict) {
		return nil
	}
	key := keyOf(dict)
	w.last = dict
	places, same, rises := make([]int, dict.Len()), true, true
	var fresh []arrow.Array
	for i := range places {
		at, known := w.null, w.null >= 0
		if !dict.IsNull(i) {
			at, known = w.index[key(i)]
		}
		if !known {
			var err error
			if at, err = w.grow(dict, i, key); err != nil {
				return err
			}
			if n := len(fresh); n > 0 && fresh[n-1].Data().Offset()+fresh[n-1].Len() == dict.Data().Offset()+i {
				fresh[n-1] = array.NewSlice(dict, int64(i-fresh[n-1].Len()), int64(i+1))
			} else {
				fresh = append(fresh, array.NewSlice(dict, int64(i), int64(i+1)))
			}
		}
		places[i] = at
		same = same && at == i
		rises = rises && (i == 0 || places[i-1] < at)
	}
	if w.of.Ordered && !rises {
		return fmt.Errorf("its words are ordered, and other rows have them in another order: %w", errNoFile)
	}
	if w.places = places; same {
		w.places = nil
	}
	if len(fresh) == 0 {
		return nil
	}
	part, err := array.Concatenate(fresh, alloc) // a copy: the message is not kept for its words
	if err != nil {
		return fmt.Errorf("its words: %w: %w", err, errNoFile)
	}
	if w.parts = append(w.parts, part); len(w.parts) > wordsParts {
		return w.join()
	}
	return nil
}

// grow makes a word known.
func (w *words) grow(dict arrow.Array, i int, key func(int) string) (at int, err error) {
	at = w.n
	if most := mostIndex(w.of.IndexType); at > most {
		return 0, fmt.Errorf("there are more than %d different words, and its indices are %s: %w", most+1, w.of.IndexType, errNoFile)
	}
	w.n++
	if dict.IsNull(i) {
		w.null = at
		return at, nil
	}
	word := key(i)
	w.index[word] = at
	if w.bytes += len(word); w.bytes > wordsBytes {
		return 0, fmt.Errorf("its different words take more than %d MiB: %w", wordsBytes>>20, errNoFile)
	}
	return at, nil
}

func (w *words) join() error {
	if len(w.parts) < 2 {
		return nil
	}
	all, err := array.Concatenate(w.parts, alloc)
	if err != nil {
		return fmt.Errorf("its words: %w: %w", err, errNoFile)
	}
	w.parts = append(w.parts[:0], all)
	return nil
}

var errNoFile = fmt.Errorf("write .arrows or .parquet")

// keyOf returns what tells the words of a dictionary apart.
func keyOf(dict arrow.Array) func(i int) string {
	switch a := dict.(type) {
	case interface{ Value(int) string }:
		return a.Value
	case interface{ Value(int) []byte }:
		return func(i int) string { return string(a.Value(i)) }
	case *array.Null:
		return func(int) string { return "" }
	}
	return dict.ValueStr
}

func mostIndex(dt arrow.DataType) int {
	bits := 8 * dt.(arrow.FixedWidthDataType).Bytes()
	if !arrow.IsUnsignedInteger(dt.ID()) || bits == 64 {
		bits--
	}
	return 1<<bits - 1
}

// widened returns a schema whose dictionaries have indices of 32 bits or more, as far as they are columns, or within lists, maps and structs.
func widened(schema *arrow.Schema) *arrow.Schema {
	fields := widenedFields(schema.Fields())
	meta := schema.Metadata()
	return arrow.NewSchema(fields, &meta)
}

func widenedFields(fields []arrow.Field) []arrow.Field {
	wide := make([]arrow.Field, len(fields))
	for i, f := range fields {
		f.Type = wide32(f.Type)
		wide[i] = f
	}
	return wide
}

func wide32(dt arrow.DataType) arrow.DataType {
	if !within(dt) {
		return dt
	}
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		if mostIndex(dt.IndexType) < math.MaxInt32 {
			return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: dt.ValueType, Ordered: dt.Ordered}
		}
	case *arrow.StructType:
		return arrow.StructOf(widenedFields(dt.Fields())...)
	case *arrow.ListType:
		return arrow.ListOfField(widenedFields(dt.Fields())[0])
	case *arrow.LargeListType:
		return arrow.LargeListOfField(widenedFields(dt.Fields())[0])
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(dt.Len(), widenedFields(dt.Fields())[0])
	case *arrow.MapType:
		wide := arrow.MapOf(wide32(dt.KeyType()), wide32(dt.ItemType()))
		wide.KeysSorted = dt.KeysSorted
		wide.SetItemNullable(dt.ItemField().Nullable)
		return wide
	}
	return dt
}
