package minibatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/nested"
	"github.com/lca-stream/lca-stream/internal/typo"
)

// Features says which columns form a row. It is fixed by Resolve, or by the names in a snapshot: Features{Names:
// names}. The names decide everything: [v[0], v[1], …] are the elements of the list column v, unless columns with
// exactly these names exist.
//
// A Features remembers how the last schema mapped, so each goroutine needs its own copy.
type Features struct {
	Names []string // one per column of the matrix, in order

	last *plan         // mapping of the last schema
	seen *arrow.Schema // the last schema, which may be another one with the same columns
}

// Dim returns d, the number of features.
func (f *Features) Dim() int { return len(f.Names) }

// ResolveRecord chooses the features of a record's schema. columns are the names of numeric columns in the desired order, or the
// name of one FixedSizeList column. Columns within structs, lists and maps are named by their path, such as
// payload.after.temp or readings.0. An empty list means the numeric columns of the schema itself in its order, without
// those whose names are of ids, labels or times, or the only list column of numbers if there are none. Integers, floats
// and decimals of every width count as numeric, also dictionary-encoded. Booleans (0 and 1), dates and times (in the
// unit of the schema) do only where they are named.
//
// Of a List or LargeList column the first list that is not null gives the length. A record without one gives a
// FeatureError of code feature_unknown, and the next record may be tried.
func ResolveRecord(rec arrow.Record, columns []string) (Features, error) {
	columns, err := namedOr(rec.Schema(), columns, "")
	if err != nil {
		return Features{}, err
	}
	return resolve(rec, columns)
}

func resolve(rec arrow.Record, columns []string) (Features, error) {
	schema := rec.Schema()
	if len(columns) == 1 { // an absent key does not tell whether it is a list, so it is an error here
		path, err := find(schema, columns[0], nil)
		if err != nil {
			return Features{}, err
		}
		switch {
		case isNumberList(path.Type):
			return resolveList(schema, rec, columns[0], path)
		case nested.IsOpen(schema) && !isValue(path.Type):
			return resolveCells(schema, rec, columns[0], path)
		}
	}
	f := Features{Names: append([]string(nil), columns...)}
	plan, err := planColumns(schema, f.Names)
	f.last = plan
	return f, err
}

// resolveList chooses the elements of a list column as the features.
func resolveList(schema *arrow.Schema, rec arrow.Record, name string, path nested.Path) (Features, error) {
	var d int
	if t, ok := path.Type.(*arrow.FixedSizeListType); ok {
		d = int(t.Len())
	} else {
		col, err := path.Column(rec)
		if err != nil {
			return Features{}, featureError(CodeCorrupt, name, "%v", err)
		}
		defer col.Release()
		var ok bool
		if d, ok = firstLength(col); !ok {
			return Features{}, featureError(CodeUnknown, name, "all %d lists are null, so their length is not known yet", rec.NumRows())
		}
	}
	if d < 1 {
		return Features{}, featureError(CodeWidth, name, "its lists are empty: a row needs at least one number")
	}
	return Features{Names: elementNames(name, d), last: planList(schema, name, path)}, nil
}

func elementNames(column string, d int) []string {
	names := make([]string, d)
	for j := range names {
		names[j] = elementName(column, j)
	}
	return names
}

func firstLength(col arrow.Array) (int, bool) {
	lists, ok := col.(array.ListLike)
	if !ok {
		return 0, false
	}
	for i := 0; i < lists.Len(); i++ {
		if lists.IsValid(i) {
			start, end := lists.ValueOffsets(i)
			return int(end - start), true
		}
	}
	return 0, false
}

// plan is how one schema maps to the features. It never changes.
type plan struct {
	schema  *arrow.Schema
	names   []string            // one per column
	columns []nested.Path       // one per feature, or the list
	list    bool                // the features are the elements of the only column
	lacks   bool                // an open schema lacks a column, which is null in all rows
	open    bool                // the schema is open
	cells   map[arrow.Type]bool // types of columns that are read cell by cell

	plain   bool         // a flatipc.Record of this schema can be read from its buffers
	buffers []int        // index of each feature's buffer, or of the list's
	types   []arrow.Type // element type of each of these buffers
	shown   []int        // index of each feature's column, if a rowrecord.Record shows all of them; nil: it does not
}

// planFor maps a schema by name, or returns the mapping of the last one if the columns are the same.
func (f *Features) planFor(schema *arrow.Schema) (*plan, error) {
	if f.last != nil && (schema == f.seen || sameColumns(f.last.schema, schema) && f.last.open == nested.IsOpen(schema)) {
		f.seen = schema
		return f.last, nil
	}
	p, err := f.makePlan(schema)
	if err != nil {
		return nil, err
	}
	f.last, f.seen = p, schema
	return p, nil
}

// sameColumns compares what a plan depends on. It is far cheaper than Schema.Equal, which also sorts every field's
// metadata.
func sameColumns(a, b *arrow.Schema) bool {
	if a == b {
		return true
	}
	if a.NumFields() != b.NumFields() {
		return false
	}
	for i := range a.NumFields() {
		fa, fb := a.Field(i), b.Field(i)
		if fa.Name != fb.Name || !arrow.TypeEqual(fa.Type, fb.Type) {
			return false
		}
	}
	return true
}

func (f *Features) makePlan(schema *arrow.Schema) (*plan, error) {
	base, isList := listOf(f.Names)
	if !isList || schema.HasField(f.Names[0]) {
		return planColumns(schema, f.Names)
	}
	if absent(schema, base) {
		return &plan{schema: schema, open: true, lacks: true}, nil
	}
	path, err := find(schema, base, nil)
	if err != nil {
		return nil, err
	}
	switch {
	case isNumberList(path.Type):
	case nested.IsOpen(schema):
		return &plan{schema: schema, open: true, names: []string{base}, columns: []nested.Path{path}, list: true, cells: map[arrow.Type]bool{path.Type.ID(): true}}, nil
	default:
		return nil, featureError(CodeType, base, "has type %s, but the model was learnt on lists of %d numbers", path.Type, len(f.Names))
	}
	if t, ok := path.Type.(*arrow.FixedSizeListType); ok && int(t.Len()) != len(f.Names) {
		return nil, featureError(CodeWidth, base, "holds %d numbers per row, but the model has %d features: send lists of %d, or learn a new model under another snapshot.model_id", t.Len(), len(f.Names), len(f.Names))
	}
	return planList(schema, base, path), nil
}

func planList(schema *arrow.Schema, name string, path nested.Path) *plan {
	p := &plan{schema: schema, open: nested.IsOpen(schema), names: []string{name}, columns: []nested.Path{path}, list: true}
	p.findBuffers()
	return p
}

// planColumns looks every name up in the schema.
func planColumns(schema *arrow.Schema, names []string) (*plan, error) {
	p := &plan{schema: schema, open: nested.IsOpen(schema), names: names, columns: make([]nested.Path, len(names))}
	taken := make(map[string]bool, len(names))
	for j, name := range names {
		if absent(schema, name) {
			p.lacks, p.columns[j] = true, nested.Absent()
			continue
		}
		path, err := find(schema, name, names)
		if err != nil {
			return nil, err
		}
		switch t := path.Type; {
		case taken[name]:
			return nil, featureError(CodeAmbiguous, name, "is named twice among the features: once is enough")
		case isValue(t):
		case holdsNumbers(schema, t):
			if p.cells == nil {
				p.cells = map[arrow.Type]bool{}
			}
			p.cells[t.ID()] = true
		default:
			return nil, noNumber(name, t)
		}
		taken[name] = true
		p.columns[j] = path
	}
	if !p.lacks {
		p.findBuffers()
		p.findShown()
	}
	return p, nil
}

// absent reports whether a schema lacks a column because all of its rows do, as JSON objects without a key: the column
// is null then.
func absent(schema *arrow.Schema, name string) bool {
	if !nested.IsOpen(schema) {
		return false
	}
	_, found := nested.Find(schema, name)
	return found == 0
}

// find returns where the column of a name lies. The other features are not what was meant where there is none.
func find(schema *arrow.Schema, name string, features []string) (nested.Path, error) {
	path, found := nested.Find(schema, name)
	switch found {
	case 1:
		return path, nil
	case 0:
		return path, featureError(CodeMissing, name, "is not in the record, which has %s: %ssend it under this name, or change source.features and snapshot.model_id", describe(schema, name), meant(schema, name, features))
	}
	return path, featureError(CodeAmbiguous, name, "appears %d times in the record: names of features must be unique", found)
}

func isNumber(t arrow.DataType) bool {
	if dict, ok := t.(*arrow.DictionaryType); ok {
		t = dict.ValueType
	}
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128, arrow.DECIMAL256:
		return true
	}
	return false
}

// isNamed reports whether values of a type are numbers where their column is named.
func isNamed(t arrow.DataType) bool {
	if dict, ok := t.(*arrow.DictionaryType); ok {
		t = dict.ValueType
	}
	switch t.ID() {
	case arrow.BOOL, arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return true
	}
	return false
}

func isNumberList(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.FixedSizeListType:
		return isNumber(t.Elem())
	case *arrow.ListType:
		return isNumber(t.Elem())
	case *arrow.LargeListType:
		return isNumber(t.Elem())
	}
	return false
}

func elementName(column string, i int) string { return column + "[" + strconv.Itoa(i) + "]" }

// Chosen reports whether columns, in the form that Resolve takes, stand for the features of these names: exactly
// these names in this order, or the one list column that all of them are elements of. An empty list stands for any
// names.
func Chosen(columns, names []string) bool {
	if len(columns) == 0 || slices.Equal(columns, names) {
		return true
	}
	list, ok := listOf(names)
	return ok && len(columns) == 1 && columns[0] == list
}

// listOf returns the list column that the names are elements of: v for v[0], v[1], ….
func listOf(names []string) (column string, ok bool) {
	if len(names) == 0 {
		return "", false
	}
	column, ok = strings.CutSuffix(names[0], "[0]")
	for i := 0; ok && i < len(names); i++ {
		ok = names[i] == elementName(column, i)
	}
	return column, ok
}

// meant asks whether a column of a similar name was meant, which is no feature already.
func meant(schema *arrow.Schema, name string, features []string) string {
	others := slices.DeleteFunc(columnNames(schema), func(column string) bool { return slices.Contains(features, column) })
	if question := typo.Question(name, others); question != "" {
		return question + " "
	}
	return ""
}

func columnNames(schema *arrow.Schema) []string {
	leaves := nested.Leaves(schema)
	names := make([]string, len(leaves))
	for i := range leaves {
		names[i] = leaves[i].Name
	}
	return names
}

// describe lists a schema's columns for an error, shortened if there are many, those with names similar to missing
// first.
func describe(schema *arrow.Schema, missing string) string {
	const most = 8
	var b strings.Builder
	leaves := nested.Leaves(schema)
	fmt.Fprintf(&b, "%d column", len(leaves))
	if len(leaves) != 1 {
		b.WriteString("s")
	}
	if names := columnNames(schema); missing != "" && len(names) > most {
		order := make(map[string]int, len(names))
		for i, name := range typo.Sort(missing, names) {
			order[name] = i
		}
		slices.SortStableFunc(leaves, func(a, b nested.Leaf) int { return order[a.Name] - order[b.Name] })
	}
	for i, leaf := range leaves {
		if i == most {
			b.WriteString(", …")
			break
		}
		b.WriteString(map[bool]string{true: " (", false: ", "}[i == 0])
		fmt.Fprintf(&b, "%q %s", leaf.Name, leaf.Type)
	}
	if len(leaves) > 0 {
		b.WriteString(")")
	}
	return b.String()
}
