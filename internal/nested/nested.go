// Package nested finds a column within nested Arrow columns by a name with dots:
//
//	payload.after.temp    a field of a struct of a struct
//	readings.0.temp       a field of the first element of a list
//	tags.room             the value of a key of a map
//
// A name is taken exactly first, and as a path only where no column has it; the same holds for the fields of structs,
// whose names may have dots too. A union is its one branch that is not null. Begin with [Find].
package nested

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Path is where a column lies in the records of one schema. It never changes.
type Path struct {
	Type  arrow.DataType // of the column
	top   int
	steps []step
}

// Top returns the index of the column, and whether it is a column of the record itself.
func (p *Path) Top() (int, bool) { return p.top, len(p.steps) == 0 }

// step leads from a nested column to one within it.
type step struct {
	kind  arrow.Type // of the nested column
	child int        // of a struct or a union
	place int        // in each list
	key   string     // of a map
}

// Find returns the path of a name, and how many columns have the name: unless that is 1 there is no path.
func Find(schema *arrow.Schema, name string) (Path, int) {
	for head, rest := range splits(name) {
		at := schema.FieldIndices(head)
		if len(at) == 0 {
			continue
		}
		i, count := at[0], len(at)
		t, steps := settle(schema.Field(i).Type, nil)
		if rest != "" {
			var more int
			if t, steps, more = within(t, rest, steps); more == 0 {
				continue
			}
			count *= more
		}
		return Path{Type: t, top: i, steps: steps}, count
	}
	return Path{}, 0
}

// splits yields the ways to read a name as a column and a path within it, the longest column first; rest is "" for
// the whole name.
func splits(name string) iter.Seq2[string, string] {
	return func(yield func(head, rest string) bool) {
		if !yield(name, "") {
			return
		}
		for i := len(name) - 2; i > 0; i-- {
			if name[i] == '.' && !yield(name[:i], name[i+1:]) {
				return
			}
		}
	}
}

func field(fields []arrow.Field, name string) (first, count int) {
	for i := range fields {
		if fields[i].Name != name {
			continue
		}
		if count == 0 {
			first = i
		}
		count++
	}
	return first, count
}

// within follows the rest of a name through a nested type.
func within(t arrow.DataType, rest string, steps []step) (arrow.DataType, []step, int) {
	switch t := t.(type) {
	case *arrow.StructType:
		return withinStruct(t, rest, steps)
	case *arrow.MapType:
		key := rest
		if rest = ""; isNested(t.ItemType()) {
			key, rest, _ = strings.Cut(key, ".")
		}
		return goOn(t.ItemType(), rest, append(steps, step{kind: arrow.MAP, key: key}))
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType:
		digits, rest, _ := strings.Cut(rest, ".")
		place, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || digits != strconv.FormatUint(place, 10) {
			return nil, nil, 0
		}
		return goOn(t.(arrow.ListLikeType).Elem(), rest, append(steps, step{kind: arrow.LIST, place: int(place)}))
	}
	return nil, nil, 0
}

func withinStruct(t *arrow.StructType, rest string, steps []step) (arrow.DataType, []step, int) {
	for head, rest := range splits(rest) {
		i, count := field(t.Fields(), head)
		if count == 0 {
			continue
		}
		there := append(steps[:len(steps):len(steps)], step{kind: arrow.STRUCT, child: i})
		found, there, n := goOn(t.Field(i).Type, rest, there)
		if n > 0 {
			return found, there, n * count
		}
	}
	return nil, nil, 0
}

// goOn follows the rest of a name, if there is any, from a type that a step has led to.
func goOn(t arrow.DataType, rest string, steps []step) (arrow.DataType, []step, int) {
	t, steps = settle(t, steps)
	if rest == "" {
		return t, steps, 1
	}
	return within(t, rest, steps)
}

// settle steps through unions that have one branch that is not null.
func settle(t arrow.DataType, steps []step) (arrow.DataType, []step) {
	for {
		u, ok := t.(arrow.UnionType)
		if !ok {
			return t, steps
		}
		branch, count := 0, 0
		for i, f := range u.Fields() {
			if f.Type.ID() != arrow.NULL {
				branch, count = i, count+1
			}
		}
		if count != 1 {
			return t, steps
		}
		t, steps = u.Fields()[branch].Type, append(steps, step{kind: t.ID(), child: branch})
	}
}

func isNested(t arrow.DataType) bool {
	t, _ = settle(t, nil)
	switch t.(type) {
	case *arrow.StructType, *arrow.MapType, arrow.ListLikeType:
		return true
	}
	return false
}

// Columns returns the columns of a schema in its order, each with its name.
func Columns(schema *arrow.Schema) []Leaf {
	all := make([]Leaf, schema.NumFields())
	for i, f := range schema.Fields() {
		t, steps := settle(f.Type, nil)
		all[i] = Leaf{f.Name, Path{t, i, steps}}
	}
	return all
}

// Leaf is a column that is no struct, within any number of structs.
type Leaf struct {
	Name string
	Path
}

// Leaves returns the leaves of a schema in its order, each with the name that Find knows it by. Those that share a name
// with an earlier one, or with a column, are left out.
func Leaves(schema *arrow.Schema) []Leaf {
	var all []Leaf
	known := make(map[string]bool, schema.NumFields())
	for _, f := range schema.Fields() {
		known[f.Name] = true
	}
	var add func(name string, p Path, top bool)
	add = func(name string, p Path, top bool) {
		p.Type, p.steps = settle(p.Type, p.steps)
		s, ok := p.Type.(*arrow.StructType)
		if !ok || s.NumFields() == 0 {
			if top || !known[name] {
				known[name] = true
				all = append(all, Leaf{name, p})
			}
			return
		}
		for i, f := range s.Fields() {
			steps := append(p.steps[:len(p.steps):len(p.steps)], step{kind: arrow.STRUCT, child: i})
			add(name+"."+f.Name, Path{f.Type, p.top, steps}, false)
		}
	}
	for i, f := range schema.Fields() {
		add(f.Name, Path{f.Type, i, nil}, true)
	}
	return all
}

// Column returns the column as an array with a value for each row of a record, which has the schema of the path. A null
// on the way, a list that is too short and a key that is not in a map give null. The caller releases the array. An error
// says that offsets point outside of the record, or that values of the type cannot be taken out of lists, maps and unions.
func (p *Path) Column(rec arrow.Record) (arrow.Array, error) {
	if p.top < 0 {
		return array.NewNull(int(rec.NumRows())), nil
	}
	from, places, err := p.Places(rec)
	if err != nil {
		return nil, err
	}
	if places == nil {
		from.Retain()
		return from, nil
	}
	return take(from, places)
}

// Places is Column, of any type, without taking the values out of the array that they lie in, which is the record's: row i has the value
// places[i] of it, −1: null; places is nil where row i has value i. The record has the column.
func (p *Path) Places(rec arrow.Record) (from arrow.Array, places []int, err error) {
	w := walk{at: rec.Column(p.top)}
	for i := range p.steps {
		if err := w.follow(&p.steps[i]); err != nil {
			return nil, nil, err
		}
	}
	return w.at, w.places, nil
}

// walk is how far a path was followed.
type walk struct {
	at     arrow.Array
	places []int // of the rows' values in at, −1: null; nil: row i is value i
}

func (w *walk) follow(s *step) error {
	switch col := w.at.(type) {
	case *array.Struct:
		if col.NullN() > 0 {
			w.move(col.Len(), func(i int) int {
				if col.IsNull(i) {
					return -1
				}
				return i
			})
		}
		w.at = col.Field(s.child)
		return nil
	case *array.Map:
		return w.entry(col, s.key)
	case array.ListLike:
		return w.element(col, s.place)
	case array.Union:
		return w.branch(col, s.child)
	}
	return fmt.Errorf("is a %s although its schema says %s", w.at.DataType(), s.kind)
}

// move replaces each place by what to says of it.
func (w *walk) move(n int, to func(int) int) {
	if w.places == nil {
		w.places = make([]int, n)
		for i := range w.places {
			w.places[i] = i
		}
	}
	for row, i := range w.places {
		if i >= 0 {
			w.places[row] = to(i)
		}
	}
}

func (w *walk) element(lists array.ListLike, place int) error {
	values, broken := lists.ListValues(), false
	w.move(lists.Len(), func(i int) int {
		if lists.IsNull(i) {
			return -1
		}
		start, end, ok := bounds(lists, i, values.Len())
		broken = broken || !ok
		if !ok || place >= end-start {
			return -1
		}
		return start + place
	})
	w.at = values
	return outside(broken)
}

func (w *walk) entry(maps *array.Map, key string) error {
	keys, broken := maps.Keys(), false
	w.move(maps.Len(), func(i int) int {
		if maps.IsNull(i) {
			return -1
		}
		start, end, ok := bounds(maps, i, keys.Len())
		broken = broken || !ok
		for k := start; ok && k < end; k++ {
			if keys.IsValid(k) && isKey(keys, k, key) {
				return k
			}
		}
		return -1
	})
	w.at = maps.Items()
	return outside(broken)
}

func isKey(keys arrow.Array, i int, key string) bool {
	if s, ok := keys.(*array.String); ok {
		return s.Value(i) == key
	}
	return keys.ValueStr(i) == key
}

func (w *walk) branch(u array.Union, child int) error {
	field, broken := u.Field(child), false
	w.move(u.Len(), func(i int) int {
		if u.ChildID(i) != child {
			return -1
		}
		if dense, ok := u.(*array.DenseUnion); ok {
			i = int(dense.ValueOffset(i))
		}
		broken = broken || i < 0 || i >= field.Len()
		return i
	})
	w.at = field
	return outside(broken)
}

// bounds returns where a list lies among all values, and whether it lies within them.
func bounds(lists array.ListLike, i, values int) (start, end int, ok bool) {
	from, to := lists.ValueOffsets(i)
	return int(from), int(to), from >= 0 && from <= to && to <= int64(values)
}

func outside(broken bool) error {
	if broken {
		return fmt.Errorf("points outside the values of its column: the producer's encoder is broken")
	}
	return nil
}

// take returns the values of an array at these places, −1 for null. Lists are taken with their values, so the
// array takes no more memory than what it is taken from, provided that no place comes twice.
func take(from arrow.Array, places []int) (arrow.Array, error) {
	if from.DataType().ID() == arrow.NULL {
		return array.NewNull(len(places)), nil
	}
	data, err := takeData(from, places)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

func takeData(from arrow.Array, places []int) (arrow.ArrayData, error) {
	n := len(places)
	bitmap := make([]byte, bitutil.BytesForBits(int64(n)))
	nulls := 0
	for i, at := range places {
		if at >= 0 && from.IsValid(at) {
			bitutil.SetBit(bitmap, i)
		} else {
			nulls++
		}
	}
	t := from.DataType()
	made := func(children []arrow.ArrayData, buffers ...[]byte) arrow.ArrayData {
		all := []*memory.Buffer{memory.NewBufferBytes(bitmap)}
		for _, b := range buffers {
			all = append(all, memory.NewBufferBytes(b))
		}
		return array.NewData(t, n, all, children, nulls, 0)
	}
	switch col := from.(type) {
	case *array.Boolean:
		return made(nil, takeBits(col, places)), nil
	case *array.Dictionary:
		indices := takeFixed(col.Data(), col.DataType().(*arrow.DictionaryType).IndexType.(arrow.FixedWidthDataType).Bytes(), places)
		buffers := []*memory.Buffer{memory.NewBufferBytes(bitmap), memory.NewBufferBytes(indices)}
		return array.NewDataWithDictionary(t, n, buffers, nulls, 0, col.Data().Dictionary().(*array.Data)), nil
	case *array.String:
		offsets, text := takeText(places, bitmap, func(i int) string { return col.Value(i) })
		return made(nil, offsets, text), nil
	case *array.Binary:
		offsets, text := takeText(places, bitmap, func(i int) []byte { return col.Value(i) })
		return made(nil, offsets, text), nil
	case *array.List, *array.LargeList, *array.FixedSizeList:
		return takeLists(col.(array.ListLike), places, bitmap, made)
	}
	if fixed, ok := t.(arrow.FixedWidthDataType); ok {
		return made(nil, takeFixed(from.Data(), fixed.Bytes(), places)), nil
	}
	return nil, fmt.Errorf("has type %s, which is not read within lists, maps and unions", t)
}

func takeFixed(data arrow.ArrayData, width int, places []int) []byte {
	out := make([]byte, len(places)*width)
	if data.Len() == 0 {
		return out
	}
	values := data.Buffers()[1].Bytes()[data.Offset()*width:]
	for i, at := range places {
		if at >= 0 {
			copy(out[i*width:(i+1)*width], values[at*width:])
		}
	}
	return out
}

func takeBits(col *array.Boolean, places []int) []byte {
	out := make([]byte, bitutil.BytesForBits(int64(len(places))))
	for i, at := range places {
		if at >= 0 && col.Value(at) {
			bitutil.SetBit(out, i)
		}
	}
	return out
}

func takeText[T string | []byte](places []int, bitmap []byte, value func(int) T) (offsets, text []byte) {
	ends := make([]int32, 1, len(places)+1)
	for i, at := range places {
		if bitutil.BitIsSet(bitmap, i) {
			text = append(text, value(at)...)
		}
		ends = append(ends, int32(len(text)))
	}
	return arrow.Int32Traits.CastToBytes(ends), text
}

// takeLists takes lists of whatever kind as the same kind.
func takeLists(lists array.ListLike, places []int, bitmap []byte, made func([]arrow.ArrayData, ...[]byte) arrow.ArrayData) (arrow.ArrayData, error) {
	values := lists.ListValues()
	var inner []int
	ends := make([]int64, 1, len(places)+1)
	size := 0
	if t, ok := lists.DataType().(*arrow.FixedSizeListType); ok {
		size = int(t.Len())
	}
	for i, at := range places {
		if bitutil.BitIsSet(bitmap, i) {
			start, end, ok := bounds(lists, at, values.Len())
			if !ok {
				return nil, outside(true)
			}
			for k := start; k < end; k++ {
				inner = append(inner, k)
			}
		} else {
			for range size {
				inner = append(inner, -1)
			}
		}
		ends = append(ends, int64(len(inner)))
	}
	items, err := take(values, inner)
	if err != nil {
		return nil, err
	}
	defer items.Release()
	children := []arrow.ArrayData{items.Data()}
	switch lists.DataType().ID() {
	case arrow.FIXED_SIZE_LIST:
		return made(children), nil
	case arrow.LARGE_LIST:
		return made(children, arrow.Int64Traits.CastToBytes(ends)), nil
	}
	short := make([]int32, len(ends))
	for i, end := range ends {
		short[i] = int32(end)
	}
	return made(children, arrow.Int32Traits.CastToBytes(short)), nil
}

// openKey and keptKey are metadata of an open schema.
const (
	openKey = "lca-open"
	keptKey = "lca-kept"
)

// Open returns an open schema of these fields: one that names what is there, of rows that could have more, as the keys of
// JSON objects. What it does not name is null in all of its rows. kept are names of columns of text which is not what the rows hold, but how that was written: of
// objects, arrays, and values of several types.
func Open(fields []arrow.Field, kept ...string) *arrow.Schema {
	keys, values := []string{openKey}, []string{"true"}
	if len(kept) > 0 {
		keys, values = append(keys, keptKey), append(values, strings.Join(kept, "\x00"))
	}
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &m)
}

// IsKept reports whether a column of an open schema is text that was kept as it was written.
func IsKept(schema *arrow.Schema, name string) bool {
	if !schema.HasMetadata() {
		return false
	}
	kept, ok := schema.Metadata().GetValue(keptKey)
	return ok && IsOpen(schema) && slices.Contains(strings.Split(kept, "\x00"), name)
}

// Absent is the path of a column that an open schema does not name.
func Absent() Path { return Path{Type: arrow.Null, top: -1} }

// IsOpen reports whether a schema is open.
func IsOpen(schema *arrow.Schema) bool {
	return schema.HasMetadata() && schema.Metadata().FindKey(openKey) >= 0
}
