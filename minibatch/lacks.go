package minibatch

import (
	"github.com/apache/arrow/go/v15/arrow"
)

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
