package pipeline

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/jsontext"
)

// An envelope is an object around a row that allows no keys of ours: who reads it refuses them. Our keys go to where the row is.
//
//	Kafka Connect, Debezium    {"schema": {"type": "struct", "fields": […]}, "payload": {…}}    into payload, and what they are into fields
//	                           {"schema": null, "payload": {…}}                                 into payload
//	CloudEvents                {"specversion": …, "type": …, "source": …, "id": …, "data": {…}} into data, which may be one of the above
//
// Connect's has no other keys. A payload or data of null stays null, and the row has no keys of ours.

// envelope says where the text of one row takes what is added to it.
type envelope struct {
	keys   hole // for our keys
	fields hole // for what they are
}

// hole is a place in a text; At is 0 for none.
type hole struct {
	at    int
	first bool // nothing is before it in its object or array
}

func holeIn(text []byte, m jsontext.Member) hole {
	end, empty := jsontext.Close(text, m)
	return hole{end, empty}
}

var (
	keySchema, keyPayload, keyData = []byte(`"schema"`), []byte(`"payload"`), []byte(`"data"`)
	keySpecVersion                 = []byte(`"specversion"`)
	cloudEventAttributes           = [][]byte{keySpecVersion, []byte(`"type"`), []byte(`"source"`), []byte(`"id"`)}
)

// mayBeEvents reports whether events may be among the rows of a text: most are passed by this glance at the whole.
func mayBeEvents(text []byte) bool { return bytes.Contains(text, keySpecVersion[1:]) } // without its quote, because quotes are everywhere

// envelope looks for an envelope in the text of a row. Text without one costs as little as can be.
func (o *jsonOutput) envelope(row []byte, events bool) (e envelope, is bool, err error) {
	first := row[1:]
	for first[0] <= ' ' {
		first = first[1:]
	}
	switch {
	case bytes.HasPrefix(first, keySchema), bytes.HasPrefix(first, keyPayload):
		return o.connect(row, 0)
	case events:
		return o.cloudEvent(row)
	}
	return envelope{}, false, nil
}

// connect looks for the envelope of Kafka Connect at a place of the text of a row.
func (o *jsonOutput) connect(row []byte, at int) (e envelope, is bool, err error) {
	var schema, payload jsontext.Member
	n := 0
	for m := range jsontext.Members(row, at) {
		switch n++; {
		case n > 2:
			return envelope{}, false, nil
		case bytes.Equal(m.Key, keySchema):
			schema = m
		case bytes.Equal(m.Key, keyPayload):
			payload = m
		}
	}
	if schema.To == 0 || payload.To == 0 || !objectOrNull(row, payload) || !objectOrNull(row, schema) {
		return envelope{}, false, nil
	}
	if row[schema.From] == '{' {
		if is, err = o.connectFields(row, schema.From, &e); !is || err != nil {
			return envelope{}, false, err
		}
	}
	return o.within(row, payload, "payload", e)
}

// connectFields looks for the fields of a schema that is one of rows.
func (o *jsonOutput) connectFields(row []byte, at int, e *envelope) (is bool, err error) {
	for m := range jsontext.Members(row, at) {
		switch text := row[m.From:m.To]; {
		case string(m.Key) == `"type"`:
			is = string(text) == `"struct"`
		case string(m.Key) == `"fields"` && text[0] == '[':
			e.fields = holeIn(row, m)
			for f := range jsontext.Members(row, m.From) {
				if row[f.From] != '{' {
					return false, nil
				}
				for p := range jsontext.Members(row, f.From) {
					if string(p.Key) == `"field"` && o.isOurs(row[p.From:p.To]) {
						err = &OutputError{Code: CodeOutputColumnExists, Column: "schema.fields: " + unquoted(row[p.From:p.To])}
					}
				}
			}
		}
	}
	return is && e.fields.at > 0, err
}

// cloudEvent looks for an event in the text of a row.
func (o *jsonOutput) cloudEvent(row []byte) (e envelope, is bool, err error) {
	var data jsontext.Member
	found := 0
	for m := range jsontext.Members(row, 0) {
		switch {
		case bytes.Equal(m.Key, keyData):
			data = m
		case row[m.From] == '"' && slices.ContainsFunc(cloudEventAttributes, func(k []byte) bool { return bytes.Equal(k, m.Key) }):
			found++
		}
	}
	if found < len(cloudEventAttributes) || data.To == 0 || !objectOrNull(row, data) {
		return envelope{}, false, nil
	}
	if row[data.From] == '{' {
		if e, is, err = o.connect(row, data.From); is || err != nil {
			return e, is, err
		}
	}
	return o.within(row, data, "data", e)
}

func objectOrNull(row []byte, m jsontext.Member) bool {
	return row[m.From] == '{' || row[m.From] == 'n'
}

// within puts our keys into an object that has none of them.
func (o *jsonOutput) within(row []byte, object jsontext.Member, name string, e envelope) (envelope, bool, error) {
	if row[object.From] != '{' { // null
		return e, true, nil
	}
	for m := range jsontext.Members(row, object.From) {
		if o.isOurs(m.Key) {
			return e, false, &OutputError{Code: CodeOutputColumnExists, Column: name + "." + unquoted(m.Key)}
		}
	}
	e.keys = holeIn(row, object)
	return e, true, nil
}

// isOurs reports whether a string, with its quotes, is a name of ours.
func (o *jsonOutput) isOurs(quoted []byte) bool {
	if quoted[0] != '"' {
		return false
	}
	if bytes.IndexByte(quoted, '\\') >= 0 {
		quoted = jsontext.AppendString(nil, unquoted(quoted))
	}
	return slices.ContainsFunc(o.keys, func(key []byte) bool { return bytes.Equal(key[1:len(key)-1], quoted) })
}

func unquoted(text []byte) (s string) {
	_ = json.Unmarshal(text, &s)
	return s
}

// enclose appends the text of a row in an envelope, up to its last brace, with what is added to it.
func (o *jsonOutput) enclose(dst, row []byte, e envelope, w *Whitened, i int) []byte {
	from := 0
	keys := func() {
		if e.keys.at > 0 {
			dst = append(dst, row[from:e.keys.at]...)
			dst, from = o.row(dst, w, i, e.keys.first), e.keys.at
		}
	}
	if e.keys.at < e.fields.at {
		keys()
	}
	if e.fields.at > 0 {
		dst = append(dst, row[from:e.fields.at]...)
		ours := o.fields
		if e.fields.first {
			ours = ours[1:]
		}
		dst, from = append(dst, ours...), e.fields.at
	}
	if e.keys.at > e.fields.at {
		keys()
	}
	return append(dst, row[from:len(row)-1]...)
}

// connectSchemas are the fields of Connect that our columns are, each with the comma before it. All are optional, and so is what is within them:
// a number that is not finite is null.
func connectSchemas(ours []arrow.Field) (text []byte) {
	const number = `"type":"float","optional":true`
	for _, f := range ours {
		text = append(text, `,{`...)
		switch f.Type.ID() {
		case arrow.FIXED_SIZE_LIST:
			text = append(text, `"type":"array","items":{`+number+`},"optional":true`...)
		case arrow.LIST: // whyType
			text = append(text, `"type":"array","items":{"type":"struct","fields":[{"type":"string","optional":true,"field":"feature"},{`+number+`,"field":"nats"}],"optional":true},"optional":true`...)
		case arrow.INT16:
			text = append(text, `"type":"int16","optional":true`...)
		case arrow.INT64:
			text = append(text, `"type":"int64","optional":true`...)
		case arrow.STRING:
			text = append(text, `"type":"string","optional":true`...)
		default:
			text = append(text, number...)
		}
		text = append(jsontext.AppendString(append(text, `,"field":`...), f.Name), '}')
	}
	return text
}
