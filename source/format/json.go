package format

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"
)

// JSON is read as rows: one object, an array of objects, or one object per line. The keys of all
// rows are the columns, in the order they are first met; a row without a key is null there.
//
//	{"t": 21.5, "p": 1013}                 float64 columns t, p
//	{"id": "a7", "x": [0.1, 0.2, 0.3]}     utf8 column id, FixedSizeList<float64, 3> column x
//
// Types are those of a whole message: numbers are float64 (int64 or uint64 where one of only
// integers has more than 15 digits, so that identifiers survive), strings utf8, true and false bool. An
// array of numbers is a list, of fixed size where all its rows have one length. Other arrays and
// objects, and values of several types under one key, are kept as their JSON text in a utf8 column; so is a key that an object has twice, as the object {"a":1,"a":2}.
// A column of nothing but null is float64.
// 1e999 is read as +Inf, as everywhere, and then is an invalid row, not an invalid message. So are NaN, Infinity and -Infinity, which are no
// JSON: Python's json.dumps writes them unless it is told not to.
//
// What is within objects and arrays becomes a column too where Config names it by a path, in addition to the text of
// the whole.
//
// A value is read twice: the first pass checks it and finds out which columns there are, of which types and sizes
// (jsonrows.go, jsonmeasure.go), so that the second allocates once, and exactly (jsonfill.go). One row of numbers is read
// once (jsonfirst.go).

// The codes of JSON.
const (
	CodeJSONInvalid  = "json_invalid"   // not JSON, not UTF-8, or twice in one row a key within which there are columns
	CodeJSONType     = "json_type"      // a row that is no object
	CodeJSONTooLarge = "json_too_large" // more rows, columns, nesting or cells than the limits
)

// jsonFormat is JSON as the value of a message.
var jsonFormat = spec{
	name:        JSON,
	title:       "JSON",
	looks:       looksJSON,
	contentType: "json",
	decoder:     func(c Config) valueDecoder { return newJSONDecoder(c) },
	invalid:     CodeJSONInvalid,
	tooLarge:    CodeJSONTooLarge,
	otherCodes:  []string{CodeJSONType},
}

// looksJSON reports whether the first byte that is not space opens an object or an array. A zero
// byte near the start belongs to a length, not to text.
func looksJSON(value []byte) bool {
	if bytes.IndexByte(value[:min(len(value), 8)], 0) >= 0 {
		return false
	}
	value = bytes.TrimLeft(bytes.TrimPrefix(value, []byte(byteOrderMark)), jsonSpace)
	return len(value) > 0 && (value[0] == '{' || value[0] == '[')
}

// jsonDecoder reads JSON values.
type jsonDecoder struct {
	config   Config
	columns  []string // names and paths: Config.Columns, and with Only those that a message may lack
	wants    []jsonWant
	decimals map[string]bool // paths of numbers that are written as text
	last     atomic.Pointer[jsonSchema]
	tables   jsonTables

	whole *jsonDecoder // of the first values that lack a column that is wanted: it shows all there is; nil: this one does
	lacks atomic.Int64 // values that lack one
}

func newJSONDecoder(c Config) *jsonDecoder {
	d := &jsonDecoder{config: c, columns: c.Columns}
	if c.Only { // otherwise they are columns anyway
		d.columns = slices.Concat(c.Columns, c.Also)
	}
	for i, name := range d.columns {
		d.wants = append(d.wants, jsonWant{name: i, rest: name})
	}
	if c.Only && !c.Nested {
		d.whole = newJSONDecoder(Config{Columns: c.Columns, Nested: true})
	}
	return d
}

func (d *jsonDecoder) decode(ctx context.Context, value []byte, a *Arena) (arrow.Record, error) {
	t := d.tables.take(d)
	t.limits.Decoded = a.budget(t.limits.Decoded)
	if err := t.measure(value); err != nil {
		return nil, err
	}
	need := t.first.need
	if !t.again() {
		if !t.choose() && d.whole != nil && (len(t.out) == 0 || d.lacks.Add(1) <= mostShown) {
			return d.whole.decode(ctx, value, a)
		}
		need = t.bytes()
		t.remember(d, need)
	}
	if need > t.limits.Decoded {
		return nil, errorf(CodeJSONTooLarge, "%d rows of %d columns take %d bytes, at most %d are held; send fewer rows per message",
			len(t.rows), len(t.out), need, t.limits.Decoded)
	}
	a.spend(need + int64(len(t.out))*jsonColumnBytes + int64(len(t.rows))*jsonRowBytes)
	rec := d.record(t, value, a)
	d.tables.give(t) // not after a panic
	return rec, nil
}

// mostShown is how many values that lack a column that is wanted are read as a whole. By then a user who has misspelt
// its name knows it, because an error shows what there is; keys that are missing now and then should cost nothing.
const mostShown = 1000

// What the objects of a column and of a row take, in addition to the values.
const (
	jsonColumnBytes = 700
	jsonRowBytes    = 8
)
