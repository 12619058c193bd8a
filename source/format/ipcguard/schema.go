package ipcguard

// Kind is the type of a field, numbered as in the union Type of Arrow's Schema.fbs.
type Kind uint8

// The kinds of the format.
const (
	Null Kind = iota + 1
	Int
	Float
	Binary
	Utf8
	Bool
	Decimal
	Date
	Time
	Timestamp
	Interval
	List
	Struct
	Union
	FixedSizeBinary
	FixedSizeList
	Map
	Duration
	LargeBinary
	LargeUtf8
	LargeList
	RunEndEncoded
	BinaryView
	Utf8View
	ListView
	LargeListView
)

// Field is a node of a checked schema: what is needed to say how many buffers an array of it has,
// and how long they must be.
type Field struct {
	Path     string // names from the column down, quoted and cut; for errors
	Kind     Kind
	Width    int  // bytes of a value; 0 for kinds without a fixed width
	Size     int  // of a FixedSizeList
	Signed   bool // of an Int
	Dense    bool // of a Union
	Children []Field
	Dict     *Dictionary // set when the array holds indices into a dictionary of this type
}

// Dictionary is how a dictionary-encoded field is stored.
type Dictionary struct {
	ID    int64
	Index Field // the Int type of the indices
}

// Schema is a schema that passed the guard.
type Schema struct {
	Fields []Field
	values map[int64]*Field // dictionary id → a field that uses it, whose type is that of the values
	weight int64
	unions bool // a union or run-end-encoded field is within: metadata V4 lays them out differently
}

// Weight is about how many bytes the schema takes in memory, decoded. Its message may be far
// smaller, where fields share what they refer to.
func (s *Schema) Weight() int64 { return s.weight }

// Value returns the field whose type the values of dictionary id have; nil when no field uses it.
func (s *Schema) Value(id int64) *Field { return s.values[id] }

// Pair is an entry of a schema's key-value metadata. It aliases the bytes it was read from.
type Pair struct{ Key, Value []byte }

// schemaWalk is the state of checking one schema.
type schemaWalk struct {
	*walk
	limits  Limits
	schema  *Schema
	fields  int     // seen so far, shared ones counted each time they are met
	strings int64   // bytes of all strings seen so far
	pairs   *[]Pair // nil: metadata is not noted
}

// checkSchema walks a Schema table: endianness 0, fields 1, custom metadata 2.
func checkSchema(t table, l Limits, pairs *[]Pair) (*Schema, *Error) {
	w := &schemaWalk{walk: t.w, limits: l, schema: &Schema{values: map[int64]*Field{}}}
	if t.i16(0, 0) != 0 {
		w.fail(Unsupported, "a big-endian stream; write it on a little-endian machine")
	}
	w.pairs = pairs
	w.metadata(t, 2)
	w.pairs = nil
	w.schema.Fields = w.children(t, 1, "", 0)
	if w.err != nil {
		return nil, w.err
	}
	const perField = 1 << 10
	w.schema.weight = w.strings + int64(w.fields)*perField
	return w.schema, nil
}

// children walks the fields in vector i of t. Offsets only lead forward but may share targets: 28
// levels of structs that name one child twice are 2 KB and 2^28 fields, so fields are counted
// while they are met, and memory is taken only for those within the limits.
func (w *schemaWalk) children(t table, i int, path string, depth int) []Field {
	start, n := t.vector(i, 4)
	if w.err != nil || n == 0 {
		return nil
	}
	if w.fields += n; w.fields > w.limits.Fields {
		w.fail(TooLarge, "more than %d fields; send fewer columns, or numbers as one list column", w.limits.Fields)
		return nil
	}
	if depth >= w.limits.Depth {
		w.fail(TooLarge, "types nested deeper than %d", w.limits.Depth)
		return nil
	}
	fields := make([]Field, n)
	for k := range fields {
		if fields[k] = w.field(w.at(start, k), path, depth); w.err != nil {
			return nil
		}
	}
	for k := range fields { // only now: fields holds them at their final address
		w.register(&fields[k])
	}
	return fields
}

// field walks a Field table: name 0, nullable 1, type tag 2, type 3, dictionary 4, children 5,
// custom metadata 6.
func (w *schemaWalk) field(t table, path string, depth int) Field {
	name := t.str(0)
	w.spend(len(name))
	t.u8(1, 0) // the decoder reads it
	f := Field{Path: join(path, name), Kind: Kind(t.u8(2, 0))}
	w.metadata(t, 6)
	typ := t.sub(3)
	if w.err == nil && !typ.present() {
		w.fail(Invalid, "column %s has no type", f.Path)
	}
	f.Children = w.children(t, 5, f.Path, depth+1)
	w.typed(&f, typ)
	if enc := t.sub(4); enc.present() {
		f.Dict = w.dictionary(f.Path, enc)
	}
	return f
}

// dictionary walks a DictionaryEncoding table: id 0, index type 1, ordered 2, kind 3.
func (w *schemaWalk) dictionary(path string, t table) *Dictionary {
	index := t.sub(1)
	if w.err == nil && !index.present() {
		w.fail(Unsupported, "dictionary column %s does not say the type of its indices", path)
	}
	d := &Dictionary{ID: t.i64(0, 0), Index: Field{Path: path, Kind: Int}}
	w.typed(&d.Index, index)
	return d
}

// register remembers which type the values of a field's dictionary have. Two fields may share a
// dictionary; then they must agree.
func (w *schemaWalk) register(f *Field) {
	if f.Dict == nil {
		return
	}
	if old := w.schema.values[f.Dict.ID]; old != nil && !sameType(old, f) {
		w.fail(Invalid, "columns %s and %s share dictionary %d but differ in type", old.Path, f.Path, f.Dict.ID)
	}
	w.schema.values[f.Dict.ID] = f
}

// metadata walks the key-value pairs in vector i of t: key 0, value 1.
func (w *schemaWalk) metadata(t table, i int) {
	start, n := t.vector(i, 4)
	for k := 0; k < n && w.err == nil; k++ {
		kv := w.at(start, k)
		key, value := kv.str(0), kv.str(1)
		w.spend(64 + len(key) + len(value))
		if w.pairs != nil {
			*w.pairs = append(*w.pairs, Pair{key, value})
		}
	}
}

// spend counts bytes that the decoder will copy, so that one long name shared by all fields does
// not become gigabytes.
func (w *schemaWalk) spend(n int) {
	if w.strings += int64(n); w.strings > w.limits.Strings {
		w.fail(TooLarge, "names and metadata of more than %d bytes", w.limits.Strings)
	}
}

// join appends a name to a path, cut so that errors stay short.
func join(path string, name []byte) string {
	const most = 64
	if len(name) > most {
		name = append(append([]byte{}, name[:most]...), "…"...)
	}
	if path == "" {
		return quote(name)
	}
	if len(path) > 4*most {
		return path
	}
	return path + "." + quote(name)
}

// sameType reports whether two fields have the same storage, names and nullability aside.
func sameType(a, b *Field) bool {
	if a.Kind != b.Kind || a.Width != b.Width || a.Size != b.Size || a.Signed != b.Signed ||
		a.Dense != b.Dense || len(a.Children) != len(b.Children) {
		return false
	}
	for i := range a.Children {
		x, y := &a.Children[i], &b.Children[i]
		if (x.Dict == nil) != (y.Dict == nil) || x.Dict != nil && x.Dict.ID != y.Dict.ID || !sameType(x, y) {
			return false
		}
	}
	return true
}
