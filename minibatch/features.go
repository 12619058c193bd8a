package minibatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/nested"
	"github.com/lca-stream/lca-stream/internal/plural"
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
			return Features{}, featureError(CodeUnknown, name, "has null lists alone, in %s: their length is not known yet", plural.Count(rec.NumRows(), "row"))
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
		return nil, featureError(CodeType, base, "has type %s, but the model was learnt on lists of %s", path.Type, plural.Count(len(f.Names), "number"))
	}
	if t, ok := path.Type.(*arrow.FixedSizeListType); ok && int(t.Len()) != len(f.Names) {
		return nil, featureError(CodeWidth, base, "holds %s per row, but the model has %s: send lists of %d, or learn a new model under another snapshot.model_id", plural.Count(t.Len(), "number"), plural.Count(len(f.Names), "feature"), len(f.Names))
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

// Choose chooses the features of a model that begins with a record, and returns the columns of numbers that it leaves
// out, of which users should hear. It is ResolveRecord, except that an empty list of columns means those that a Survey
// of the record proposes: from 100 rows on, values count too. Whatever reads the model later goes by its names.
func Choose(rec arrow.Record, columns []string) (Features, []Judgement, error) {
	return ChooseWithout(rec, columns, "")
}

// ChooseWithout is Choose, but where columns is empty the column of one name is not chosen: it says whose row it is. A list
// next to it is chosen as if it stood alone.
func ChooseWithout(rec arrow.Record, columns []string, without string) (Features, []Judgement, error) {
	var leftOut []Judgement
	if len(columns) == 0 {
		var err error
		if columns, leftOut, err = propose(rec, without); err != nil {
			return Features{}, nil, err
		}
	}
	f, err := resolve(rec, columns)
	return f, leftOut, err
}

// propose returns the columns that a survey of the record proposes, and the columns of numbers that it leaves out.
func propose(rec arrow.Record, without string) (columns []string, leftOut []Judgement, err error) {
	s := Survey{Without: without}
	if rec.NumRows() > surveyedRows {
		rec = rec.NewSlice(0, surveyedRows)
		defer rec.Release()
	}
	if err := s.Add(rec, 0, ""); err != nil {
		return nil, nil, err
	}
	columns, leftOut = s.Features()
	leftOut = slices.DeleteFunc(leftOut, func(j Judgement) bool { return !j.Column.Numeric && !j.Column.List })
	only := len(leftOut) == 1 && leftOut[0].Column.Name == without
	leftOut = slices.DeleteFunc(leftOut, func(j Judgement) bool { return j.Column.Name == without })
	if len(columns) > 0 {
		return columns, leftOut, nil
	}
	var lists, reasons []string
	for _, j := range leftOut {
		if j.Column.List {
			lists = append(lists, j.Column.Name)
		} else {
			reasons = append(reasons, fmt.Sprintf("%q is %s", j.Column.Name, j.Reason))
		}
	}
	switch {
	case only:
		return nil, nil, featureError(CodeNone, without, "is the only column of numbers, and says whose row it is")
	case len(lists) > 1:
		return nil, nil, featureError(CodeAmbiguous, "", "%d list columns could be the features (%s): name one in source.features", len(lists), strings.Join(lists, ", "))
	case len(reasons) > 0:
		return nil, nil, featureError(CodeNone, "", "no column can be a feature unless source.features names it: %s", strings.Join(reasons, ", "))
	}
	if within := numbersWithin(rec.Schema()); within != "" {
		return nil, nil, featureError(CodeNone, "", "columns within others are features only where source.features names them by their path, such as %q: `lca-stream init` proposes them all", within)
	}
	return nil, nil, featureError(CodeNone, "", "no numeric column among %s: send integers or floats, or one list column of them", describe(rec.Schema(), ""))
}

// numbersWithin returns the path of a number within a struct; "" if there is none.
func numbersWithin(schema *arrow.Schema) string {
	for _, leaf := range nested.Leaves(schema) {
		if _, top := leaf.Top(); !top && (isNumber(leaf.Type) || isNumberList(leaf.Type)) {
			return leaf.Name
		}
	}
	return ""
}

// namedOr returns the named columns, or what the names and types of a schema propose.
func namedOr(schema *arrow.Schema, columns []string, without string) ([]string, error) {
	if len(columns) > 0 {
		return columns, nil
	}
	empty := array.NewRecord(schema, emptyColumns(schema), 0)
	defer empty.Release()
	columns, _, err := propose(empty, without)
	return columns, err
}

func emptyColumns(schema *arrow.Schema) []arrow.Array {
	columns := make([]arrow.Array, schema.NumFields())
	for i, field := range schema.Fields() {
		columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, field.Type, 0)
	}
	return columns
}

// ResolveRecordWithout is ResolveRecord, but where columns is empty the column of one name is not chosen: it says whose row it is.
func ResolveRecordWithout(rec arrow.Record, columns []string, without string) (Features, error) {
	columns, err := namedOr(rec.Schema(), columns, without)
	if err != nil {
		return Features{}, err
	}
	return resolve(rec, columns)
}

// ColumnsOf returns the columns whose features have the names: the names themselves, or of v[0], v[1], … the list column v.
func ColumnsOf(names []string) []string {
	if list, ok := listOf(names); ok {
		return []string{list}
	}
	return names
}

// Lacks returns an error about each of the columns under whose name a record has no number in any row, though it can be read: JSON objects without
// the key, or with text there. Where that is so in every record, the name may be misspelt, and the error asks which one was meant, or the column is no
// feature. A column of nothing but null does not tell.
func (f *Features) Lacks(rec arrow.Record) map[string]error {
	schema := rec.Schema()
	p, err := f.planFor(schema)
	if err != nil || !p.lacks && len(p.cells) == 0 {
		return nil
	}
	lacks := map[string]error{}
	names := f.Names
	if base, isList := listOf(names); isList && (p.columns == nil || p.list) {
		names = []string{base}
	}
	for j, name := range names {
		if absent(schema, name) {
			_, lacks[name] = find(schema, name, names)
		} else if t := p.columns[j].Type; p.cells[t.ID()] && !p.hasNumber(rec, j) {
			lacks[name] = noNumber(name, t)
		}
	}
	return lacks
}

// hasNumber reports whether a column that is read cell by cell has a number in any row of a record, or nothing but null.
func (p *plan) hasNumber(rec arrow.Record, j int) bool {
	c, err := p.cellsOf(rec, j)
	if err != nil {
		return true
	}
	texts := false
	for i := range int(rec.NumRows()) {
		at, ok := c.at(i)
		if !ok {
			continue
		}
		var reason Reason
		if p.list {
			_, reason = c.list(at, nil)
		} else {
			_, reason = c.number(at)
		}
		if reason == ReasonNone {
			return true
		}
		texts = texts || reason != ReasonNull
	}
	return !texts
}

// noNumber is the error of a column that is no feature by its type.
func noNumber(name string, t arrow.DataType) error {
	if isNumberList(t) {
		return featureError(CodeType, name, "is a list: a list column must be the only feature, or name its elements: %s.0, %[1]s.1, …", name)
	}
	return featureError(CodeType, name, "has type %s, which is not a number: %s", t, remedy(t))
}

func remedy(t arrow.DataType) string {
	switch t.ID() {
	case arrow.RUN_END_ENCODED:
		return "send it without run-end encoding"
	case arrow.STRUCT, arrow.MAP:
		return "name a column within it, by its path"
	case arrow.DENSE_UNION, arrow.SPARSE_UNION:
		return "a union can be a feature if one of its branches is a number"
	}
	return "send an integer or a float, or leave it out of source.features"
}

// Codes of a FeatureError: short and stable, fit for a header or a metric label.
const (
	CodeMissing   = "feature_missing"   // a column of the model is not in the record
	CodeWidth     = "feature_width"     // a list column has another length than the model
	CodeType      = "feature_type"      // a column is there, but its type has no numbers
	CodeAmbiguous = "feature_ambiguous" // two columns have the name, or a name is given twice
	CodeNone      = "feature_none"      // no column of the schema can be a feature
	CodeUnknown   = "feature_unknown"   // the length of a list column cannot be read off this record
	CodeCorrupt   = "feature_corrupt"   // offsets or dictionary indices point outside the data
)

// FeatureError reports that a schema does not hold the features of the model, and what to do. It concerns the whole
// record; a bad row in a good record has a Reason instead.
type FeatureError struct {
	Code   string // one of the codes above
	Column string // "" if no single column is at fault
	Detail string // what was found and what to do about it
}

// Error returns the detail after the column. The code is for programs.
func (e *FeatureError) Error() string {
	if e.Column == "" {
		return "minibatch: " + e.Detail
	}
	return fmt.Sprintf("minibatch: column %q: %s", e.Column, e.Detail)
}

func featureError(code, column, format string, args ...any) *FeatureError {
	return &FeatureError{Code: code, Column: column, Detail: fmt.Sprintf(format, args...)}
}

// Reason is why a row cannot be used. If several apply, the first in this order is given: width, text, null, nan, inf. ReasonYoung is no fault of a row.
type Reason uint8

// Reasons; the zero value is a good row.
const (
	ReasonNone  Reason = iota
	ReasonWidth        // a list of another length than the model
	ReasonNull         // a null feature, or a null list
	ReasonNaN          // a NaN feature
	ReasonInf          // a feature that is +Inf or −Inf
	ReasonText         // a feature that is text, or anything else but a number, in a column that may hold both
	ReasonYoung        // too few rows have come for a metric: the row is scored with those before it alone
)

// String returns the label that metrics and headers use.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "none"
	case ReasonWidth:
		return "width"
	case ReasonNull:
		return "null"
	case ReasonNaN:
		return "nan"
	case ReasonInf:
		return "inf"
	case ReasonText:
		return "text"
	case ReasonYoung:
		return "young"
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}
