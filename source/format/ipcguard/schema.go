package ipcguard

import (
	"strconv"
)

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

func quote(name []byte) string { return strconv.QuoteToASCII(string(name)) }

// typed checks the type table of a field whose kind and children are known, and fills in width
// and size. What is refused here as unsupported is sound Arrow that the decoder cannot take.
func (w *schemaWalk) typed(f *Field, t table) {
	if w.err != nil {
		return
	}
	switch f.Kind {
	case Null, Bool, Binary, Utf8, LargeBinary, LargeUtf8, BinaryView, Utf8View:
		w.arity(f, 0)
	case Int:
		w.intType(f, t)
	case Float: // precision 0: half, single, double
		w.arity(f, 0)
		w.pick(f, int(t.i16(0, 0)), "precision", 2, 4, 8)
	case Decimal:
		w.decimalType(f, t)
	case Date: // unit 0: days, milliseconds
		w.arity(f, 0)
		w.pick(f, int(t.i16(0, 1)), "unit", 4, 8)
	case Time:
		w.timeType(f, t)
	case Timestamp: // unit 0, timezone 1
		w.arity(f, 0)
		w.spend(len(t.str(1)))
		w.pick(f, int(t.i16(0, 0)), "unit", 8, 8, 8, 8)
	case Duration: // unit 0
		w.arity(f, 0)
		w.pick(f, int(t.i16(0, 1)), "unit", 8, 8, 8, 8)
	case Interval: // unit 0: year-month, day-time, month-day-nano
		w.arity(f, 0)
		w.pick(f, int(t.i16(0, 0)), "unit", 4, 8, 16)
	case FixedSizeBinary: // width 0
		w.arity(f, 0)
		w.sized(f, t, &f.Width)
	case FixedSizeList: // size 0
		w.arity(f, 1)
		w.sized(f, t, &f.Size)
	case List, LargeList, ListView, LargeListView:
		w.arity(f, 1)
	case Struct:
	default:
		w.composed(f, t)
	}
}

// composed checks the kinds whose children must have a certain form.
func (w *schemaWalk) composed(f *Field, t table) {
	switch f.Kind {
	case Map:
		w.arity(f, 1)
		if w.err == nil {
			if p := &f.Children[0]; p.Kind != Struct || len(p.Children) != 2 || p.Dict != nil {
				w.fail(Invalid, "map column %s is not made of key-value pairs", f.Path)
			}
		}
	case RunEndEncoded:
		w.arity(f, 2)
		w.schema.unions = true
		if w.err == nil {
			if e := &f.Children[0]; e.Kind != Int || !e.Signed || e.Width < 2 || e.Dict != nil {
				w.fail(Invalid, "run ends of column %s are not int16, int32 or int64", f.Path)
			}
		}
	case Union:
		w.schema.unions = true
		w.unionType(f, t)
	default:
		w.fail(Unsupported, "column %s has type number %d, which is unknown here; cast it before sending", f.Path, f.Kind)
	}
}

func (w *schemaWalk) arity(f *Field, n int) {
	if w.err == nil && len(f.Children) != n {
		w.fail(Invalid, "column %s has %d children where its type has %d", f.Path, len(f.Children), n)
	}
}

// pick sets the width by the value of an enum.
func (w *schemaWalk) pick(f *Field, v int, what string, widths ...int) {
	if v < 0 || v >= len(widths) {
		w.fail(Invalid, "column %s has %s %d", f.Path, what, v)
		return
	}
	f.Width = widths[v]
}

// intType: bits 0, signed 1.
func (w *schemaWalk) intType(f *Field, t table) {
	w.arity(f, 0)
	f.Signed = t.u8(1, 0) != 0
	switch bits := t.i32(0, 0); bits {
	case 8, 16, 32, 64:
		f.Width = int(bits / 8)
	default:
		w.fail(Invalid, "column %s has integers of %d bits", f.Path, bits)
	}
}

// decimalType: precision 0, scale 1, bits 2. A printer raises 10 to the scale, so it is bounded.
func (w *schemaWalk) decimalType(f *Field, t table) {
	w.arity(f, 0)
	precision, scale, bits := t.i32(0, 0), t.i32(1, 0), t.i32(2, 128)
	switch bits {
	case 128, 256:
		f.Width = int(bits / 8)
	case 32, 64:
		w.fail(Unsupported, "column %s is decimal%d; cast it to decimal128 or double before sending", f.Path, bits)
		return
	default:
		w.fail(Invalid, "column %s has decimals of %d bits", f.Path, bits)
		return
	}
	most := 38 * bits / 128 // 38 and 76 digits
	if precision < 1 || precision > most || scale < -most || scale > most {
		w.fail(Invalid, "column %s is decimal(%d, %d)", f.Path, precision, scale)
	}
}

// timeType: unit 0, bits 1. Seconds and milliseconds take 32 bits, the finer units 64.
func (w *schemaWalk) timeType(f *Field, t table) {
	w.arity(f, 0)
	unit, bits := t.i16(0, 1), t.i32(1, 32)
	if unit < 0 || unit > 3 || (bits == 32) != (unit < 2) || bits != 32 && bits != 64 {
		w.fail(Invalid, "column %s has times of %d bits in unit %d", f.Path, bits, unit)
		return
	}
	f.Width = int(bits / 8)
}

// sized reads the one number of a fixed-size type. Zero is sound Arrow, but no width to decode.
func (w *schemaWalk) sized(f *Field, t table, dst *int) {
	n := t.i32(0, 0)
	if n < 0 {
		w.fail(Invalid, "column %s has fixed size %d", f.Path, n)
	}
	if n == 0 {
		w.fail(Unsupported, "column %s has values of fixed size 0; leave it out", f.Path)
	}
	*dst = int(n)
}

// unionType: mode 0, type ids 1. Ids are 0 to 127, one for each child, none twice.
func (w *schemaWalk) unionType(f *Field, t table) {
	switch t.i16(0, 0) {
	case 0:
	case 1:
		f.Dense = true
	default:
		w.fail(Invalid, "column %s has a union of unknown mode", f.Path)
	}
	start, n := t.vector(1, 4)
	if start == 0 {
		n = len(f.Children) // absent: ids are 0, 1, 2, …
	}
	if w.err == nil && (n != len(f.Children) || n > 128) {
		w.fail(Invalid, "column %s has %d union type ids for %d children", f.Path, n, len(f.Children))
	}
	var seen [128]bool
	for k := 0; k < n && start > 0 && w.err == nil; k++ {
		id := int32(le.Uint32(w.b[start+4*k:]))
		if id < 0 || id > 127 || seen[id] {
			w.fail(Invalid, "column %s has union type id %d", f.Path, id)
			return
		}
		seen[id] = true
	}
}

// walk reads one flatbuffer that has not been verified. The first thing that does not fit stops it:
// err is set, and every later read returns zero values, so callers need to look at err only
// where they loop or where they end.
type walk struct {
	b   []byte
	err *Error
}

func newWalk(b []byte) *walk { return &walk{b: b} }

func (w *walk) fail(c Cause, format string, args ...any) {
	if w.err == nil {
		w.err = errorf(c, format, args...)
	}
}

// room reports whether n bytes stand at pos.
func (w *walk) room(pos, n int) bool {
	if w.err != nil {
		return false
	}
	if pos < 0 || n < 0 || pos > len(w.b) || n > len(w.b)-pos {
		w.fail(Invalid, "metadata points outside itself (%d bytes at %d of %d)", n, pos, len(w.b))
		return false
	}
	return true
}

// table is a flatbuffer table whose vtable and inline size lie within the bytes. The zero table
// is absent: it has no fields.
type table struct {
	w     *walk
	pos   int // of the table
	vt    int // of its vtable
	slots int // fields in the vtable
	size  int // inline bytes of the table
}

func (w *walk) root() table {
	if !w.room(0, 4) {
		return table{}
	}
	return w.table(int(le.Uint32(w.b)))
}

// table opens the table at pos: soffset to the vtable, then the vtable's two sizes.
func (w *walk) table(pos int) table {
	if !w.room(pos, 4) {
		return table{}
	}
	vt := pos - int(int32(le.Uint32(w.b[pos:])))
	if !w.room(vt, 4) {
		return table{}
	}
	n, size := int(le.Uint16(w.b[vt:])), int(le.Uint16(w.b[vt+2:]))
	if n < 4 || n%2 != 0 || size < 4 {
		w.fail(Invalid, "metadata holds a table of impossible size at %d", pos)
		return table{}
	}
	if !w.room(vt, n) || !w.room(pos, size) {
		return table{}
	}
	return table{w: w, pos: pos, vt: vt, slots: (n - 4) / 2, size: size}
}

// slot returns where the n inline bytes of field i stand, or 0 when the field is absent.
func (t table) slot(i, n int) int {
	if t.w == nil || t.w.err != nil || i >= t.slots {
		return 0
	}
	o := int(le.Uint16(t.w.b[t.vt+4+2*i:]))
	if o == 0 {
		return 0
	}
	if o < 4 || o+n > t.size {
		t.w.fail(Invalid, "metadata holds a field outside its table at %d", t.pos)
		return 0
	}
	return t.pos + o
}

func (t table) present() bool { return t.w != nil }

func (t table) u8(i int, def uint8) uint8 {
	if p := t.slot(i, 1); p > 0 {
		return t.w.b[p]
	}
	return def
}

func (t table) i16(i int, def int16) int16 {
	if p := t.slot(i, 2); p > 0 {
		return int16(le.Uint16(t.w.b[p:]))
	}
	return def
}

func (t table) i32(i int, def int32) int32 {
	if p := t.slot(i, 4); p > 0 {
		return int32(le.Uint32(t.w.b[p:]))
	}
	return def
}

func (t table) i64(i int, def int64) int64 {
	if p := t.slot(i, 8); p > 0 {
		return int64(le.Uint64(t.w.b[p:]))
	}
	return def
}

// follow returns what the offset at p points to. Offsets are unsigned and at least 4, so they
// only lead forward: no cycle can be written. (They may share a target; see walk.fields.)
func (w *walk) follow(p int) int {
	o := int(le.Uint32(w.b[p:]))
	if o < 4 {
		w.fail(Invalid, "metadata holds an offset to itself at %d", p)
		return -1
	}
	return p + o
}

// sub opens the table that field i points to; absent if the field is.
func (t table) sub(i int) table {
	p := t.slot(i, 4)
	if p == 0 {
		return table{}
	}
	return t.w.table(t.w.follow(p))
}

// vector returns the start and the count of the elements of field i, each of size bytes.
func (t table) vector(i, size int) (start, n int) {
	p := t.slot(i, 4)
	if p == 0 {
		return 0, 0
	}
	p = t.w.follow(p)
	if !t.w.room(p, 4) {
		return 0, 0
	}
	count := uint64(le.Uint32(t.w.b[p:]))
	if left := uint64(len(t.w.b) - p - 4); count*uint64(size) > left {
		t.w.fail(Invalid, "metadata announces %d elements, %d bytes are left", count, left)
		return 0, 0
	}
	return p + 4, int(count)
}

// str returns the bytes of string field i; nil if absent.
func (t table) str(i int) []byte {
	start, n := t.vector(i, 1)
	if start == 0 {
		return nil
	}
	return t.w.b[start : start+n]
}

// at opens the table that element k of a vector of offsets points to.
func (w *walk) at(start, k int) table {
	p := start + 4*k
	if !w.room(p, 4) {
		return table{}
	}
	return w.table(w.follow(p))
}
