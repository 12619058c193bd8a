package minibatch

import (
	"math"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/nested"
)

// Some columns hold numbers and other things: keys of JSON objects, whose type is that of one message, and unions with a branch of numbers. They are
// read cell by cell, and what is no number makes its row invalid (ReasonText). It makes no difference which other rows are in the message. The type of
// all other columns is the producer's word for the whole stream: a column of text is never a feature (CodeType).

// isValue reports whether all values of a type are numbers. A producer that has no value to send may leave the type out.
func isValue(t arrow.DataType) bool { return isNumber(t) || isNamed(t) || t.ID() == arrow.NULL }

// holdsNumbers reports whether a column of another type may hold numbers: in this record, or in another of the stream.
func holdsNumbers(schema *arrow.Schema, t arrow.DataType) bool {
	if nested.IsOpen(schema) {
		return true
	}
	u, ok := t.(arrow.UnionType)
	if !ok {
		return false
	}
	for _, f := range u.Fields() {
		if isNumber(f.Type) {
			return true
		}
	}
	return false
}

// cells are the values of such a column.
type cells struct {
	from     arrow.Array
	places   []int     // of the rows in from, −1: null; nil: row i is value i
	kept     bool      // from is JSON text
	branches []numbers // of a union
}

// numbers are the values of a branch of a union.
type numbers struct {
	values arrow.Array
	wide   []float64 // nil: they are no numbers
}

// cellsOf returns the values of column j in a record.
func (p *plan) cellsOf(rec arrow.Record, j int) (*cells, error) {
	from, places, err := p.columns[j].Places(rec)
	if err != nil {
		return nil, featureError(CodeCorrupt, p.names[j], "%v", err)
	}
	c := &cells{from: from, places: places, kept: nested.IsKept(rec.Schema(), p.names[j])}
	u, ok := from.(array.Union)
	for i := 0; ok && i < u.NumFields(); i++ {
		b := numbers{values: u.Field(i)}
		if isValue(b.values.DataType()) {
			b.wide = make([]float64, b.values.Len())
			if !widen(b.wide, b.values, 0) {
				return nil, featureError(CodeCorrupt, p.names[j], "a dictionary index points outside its dictionary: the producer's encoder is broken")
			}
		}
		c.branches = append(c.branches, b)
	}
	return c, nil
}

// at returns where the value of a row is; false for a null.
func (c *cells) at(row int) (place int, ok bool) {
	if place = row; c.places != nil {
		place = c.places[row]
	}
	return place, place >= 0 && c.from.IsValid(place)
}

// number returns the value at a place as a number, or why it is none.
func (c *cells) number(place int) (float64, Reason) {
	switch from := c.from.(type) {
	case *array.String:
		if c.kept {
			return jsonNumber(from.Value(place))
		}
	case array.Union:
		return c.branch(from, place)
	}
	return 0, ReasonText
}

func (c *cells) branch(u array.Union, place int) (float64, Reason) {
	b := &c.branches[u.ChildID(place)]
	if dense, ok := u.(*array.DenseUnion); ok {
		place = int(dense.ValueOffset(place))
	}
	switch {
	case place < 0 || place >= b.values.Len(): // the decoder has checked that it is not
		return 0, ReasonText
	case b.values.DataType().ID() == arrow.NULL || isNull(b.values, place):
		return 0, ReasonNull
	case b.wide == nil:
		return 0, ReasonText
	}
	return b.wide[place], ReasonNone
}

// list appends the elements at a place to dst, NaN for those that are no number, and says what they are.
func (c *cells) list(place int, dst []float64) ([]float64, Reason) {
	switch from := c.from.(type) {
	case *array.String:
		if c.kept {
			return jsonList(from.Value(place), dst)
		}
		return dst, ReasonText
	}
	if isNumber(c.from.DataType()) {
		return dst, ReasonWidth
	}
	return dst, ReasonText
}

// gatherCells reads column j, which may hold other things than numbers.
func gatherCells(dst *Rows, rec arrow.Record, p *plan, j int) error {
	c, err := p.cellsOf(rec, j)
	if err != nil {
		return err
	}
	for i := range dst.N {
		v, reason := 0.0, ReasonNull
		if place, ok := c.at(i); ok {
			v, reason = c.number(place)
		}
		if reason != ReasonNone {
			v = math.NaN()
			if dst.Invalid[i] != ReasonText {
				dst.Invalid[i] = reason
			}
		}
		dst.X[i*dst.Dim+j] = v
		dst.sums[i] += v
	}
	return nil
}

// gatherListCells reads a column that may hold other things than lists of numbers.
func gatherListCells(dst *Rows, rec arrow.Record, p *plan) error {
	c, err := p.cellsOf(rec, 0)
	if err != nil {
		return err
	}
	var elements []float64
	for i := range dst.N {
		row, reason := dst.X[i*dst.Dim:(i+1)*dst.Dim], ReasonNull
		elements = elements[:0]
		if place, ok := c.at(i); ok {
			elements, reason = c.list(place, elements)
		}
		switch {
		case len(elements) == dst.Dim:
			copy(row, elements)
		case len(elements) > 0, reason == ReasonNone:
			reason = ReasonWidth
		default:
			for k := range row {
				row[k] = math.NaN()
			}
		}
		dst.Invalid[i] = reason
	}
	sumRows(dst.sums, dst.X, dst.Dim)
	return nil
}

// jsonNumber reads a value of JSON, as a column of nothing but such values would have it.
func jsonNumber(text string) (float64, Reason) {
	switch b := text[0]; {
	case b == '-' || b >= '0' && b <= '9' || b == 'N' || b == 'I':
		x, _ := strconv.ParseFloat(text, 64) // an error is that of a number beyond float64, which is an infinity
		return x, ReasonNone
	case b == 't':
		return 1, ReasonNone
	case b == 'f':
		return 0, ReasonNone
	}
	return math.NaN(), ReasonText
}

// jsonList appends the elements of a JSON array to dst.
func jsonList(text string, dst []float64) ([]float64, Reason) {
	if text[0] != '[' {
		if _, reason := jsonNumber(text); reason == ReasonNone && text[0] != 't' && text[0] != 'f' {
			return dst, ReasonWidth
		}
		return dst, ReasonText
	}
	reason := ReasonNone
	for rest := text[1:]; ; {
		element, end := jsonElement(rest)
		switch {
		case element == "": // the array is empty
			return dst, reason
		case element == "null":
			dst = append(dst, math.NaN())
			if reason == ReasonNone {
				reason = ReasonNull
			}
		default:
			x, why := jsonNumber(element)
			if element[0] == 't' || element[0] == 'f' {
				x, why = math.NaN(), ReasonText
			}
			if dst = append(dst, x); why != ReasonNone {
				reason = why
			}
		}
		if rest[end] == ']' {
			return dst, reason
		}
		rest = rest[end+1:]
	}
}

// jsonElement returns the first element of what follows in an array of checked JSON, and where the comma or bracket behind it is. Of an element within
// brackets or quotes the rest of its bytes do not matter.
func jsonElement(text string) (element string, end int) {
	from, depth, last := -1, 0, 0
	for i := 0; ; i++ {
		switch b := text[i]; {
		case depth == 0 && (b == ',' || b == ']'):
			if from < 0 {
				return "", i
			}
			return text[from : last+1], i
		case b <= ' ':
			continue
		case b == '[' || b == '{':
			depth++
		case b == ']' || b == '}':
			depth--
		}
		if from < 0 {
			from = i
		}
		last = i
		if text[i] == '"' {
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			last = i
		}
	}
}

// resolveCells chooses the features of a JSON key which alone is named, and holds other things than numbers: what it holds first that can be a feature
// says whether it is a number or a list.
func resolveCells(schema *arrow.Schema, rec arrow.Record, name string, path nested.Path) (Features, error) {
	p := &plan{schema: schema, names: []string{name}, columns: []nested.Path{path}, open: true, cells: map[arrow.Type]bool{path.Type.ID(): true}}
	c, err := p.cellsOf(rec, 0)
	if err != nil {
		return Features{}, err
	}
	for i := range int(rec.NumRows()) {
		place, ok := c.at(i)
		if !ok {
			continue
		}
		if _, reason := c.number(place); reason == ReasonNone {
			return Features{Names: p.names, last: p}, nil
		}
		if elements, _ := c.list(place, nil); len(elements) > 0 {
			p.list = true
			return Features{Names: elementNames(name, len(elements)), last: p}, nil
		}
	}
	return Features{}, noNumber(name, path.Type)
}
