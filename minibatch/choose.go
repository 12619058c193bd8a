package minibatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/nested"
)

// Choose chooses the features of a model that begins with a record, and returns the columns of numbers that it leaves
// out, of which users should hear. It is ResolveRecord, except that an empty list of columns means those that a Survey
// of the record proposes: from 100 rows on, values count too. Whatever reads the model later goes by its names.
func Choose(rec arrow.Record, columns []string) (Features, []Judgement, error) {
	return ChooseWithout(rec, columns, "")
}

// ChooseWithout is Choose, but where columns is empty the column of one name is not chosen: it says which model a row
// belongs to. A list next to it is chosen as if it stood alone.
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
	if err := s.Add(rec, 0); err != nil {
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
		return nil, nil, featureError(CodeNone, without, "is the only column of numbers, and says which model a row belongs to")
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

// ResolveRecordWithout is ResolveRecord, but where columns is empty the column of one name is not chosen: it says which model a row
// belongs to.
func ResolveRecordWithout(rec arrow.Record, columns []string, without string) (Features, error) {
	columns, err := namedOr(rec.Schema(), columns, without)
	if err != nil {
		return Features{}, err
	}
	return resolve(rec, columns)
}
