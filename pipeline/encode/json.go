package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/arrowjson"
	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/reject"
)

// JSONOutput writes outputs as JSON: the text of the input, with our keys at the end of each object. It keeps what depends
// on the schema and the model alone from one message to the next, and is for one goroutine.
type JSONOutput struct {
	config   OutputConfig
	in       *arrow.Schema  // the last one that has place for our keys
	rows     arrowjson.Rows // of a message that is not JSON itself
	k        int            // number of coordinates of the rows seen last
	ours     []arrow.Field  // our columns with k coordinates
	keys     [][]byte       // their names as keys, each with the comma before and the colon behind it
	fields   []byte         // what they are to Kafka Connect, each with the comma before it
	features []string       // of items
	items    [][]byte       // for each feature, an entry of lca_why before its number
	Most     int            // bytes of one output
	Lost     int            // times of the input that are null in outputs, because JSON cannot write them
}

// errTooLong is an output that is larger than is written.
var errTooLong = errors.New("the output is too large")

// NewJSONOutput returns a JSONOutput.
func NewJSONOutput(c OutputConfig) *JSONOutput {
	return &JSONOutput{config: c.withDefaults(), Most: MostWhitened}
}

// tooLong is an output of more than is written.
func (o *JSONOutput) tooLong(rows int) error {
	return fmt.Errorf("%w: %s would take more than %d bytes of JSON, which is the most that is made for its topic; send fewer rows per message, or raise the topic's max.message.bytes", errTooLong, plural.Count(rows, "row"), o.Most)
}

// prepare makes the keys for messages of a schema, unless those of the last one serve.
func (o *JSONOutput) prepare(in *arrow.Schema, w *Whitened) error {
	if o.k != w.K {
		o.k, o.ours, o.keys, o.in = w.K, o.config.fields(w.K), o.keys[:0], nil
		o.fields = connectSchemas(o.ours)
		for _, f := range o.ours {
			o.keys = append(o.keys, append(jsontext.AppendString([]byte{','}, f.Name), ':'))
		}
	}
	if o.in != in {
		if err := o.config.place(in, o.ours); err != nil {
			return err
		}
		o.in = in
	}
	if w.Why != nil && !slices.Equal(o.features, w.Features) {
		o.features, o.items = w.Features, o.items[:0]
		for _, name := range w.Features {
			o.items = append(o.items, append(jsontext.AppendString([]byte(`{"feature":`), name), `,"nats":`...))
		}
	}
	return nil
}

// Extend appends to dst the JSON text that was decoded to rec, with what its rows have become; opens: into envelopes, unless a schema
// of its own says that our keys are next to the others. On error dst comes back as it was.
func (o *JSONOutput) Extend(dst, text []byte, rec arrow.Record, w *Whitened, opens bool) ([]byte, error) {
	n := int(rec.NumRows())
	w.check(n, &o.config)
	if err := o.prepare(rec.Schema(), w); err != nil {
		return dst, err
	}
	if !o.config.Passthrough {
		return o.alone(dst, jsontext.IsArray(text), n, w)
	}
	from, row, before, events := 0, 0, len(dst), opens && mayBeEvents(text)
	for rows := jsontext.Walk(text, n); ; row++ {
		end, empty := rows.Next()
		if end < 0 {
			return append(dst, text[from:]...), nil
		}
		if len(dst)-before > o.Most {
			return dst[:before], o.tooLong(n)
		}
		if opens {
			begin := from + bytes.IndexByte(text[from:], '{')
			e, is, err := o.envelope(text[begin:end+1], events)
			if err != nil {
				return dst[:before], err
			}
			if is {
				dst = o.enclose(append(dst, text[from:begin]...), text[begin:end+1], e, w, row)
				from = end
				continue
			}
		}
		dst = append(dst, text[from:end]...)
		dst = o.row(dst, w, row, empty)
		from = end
	}
}

// alone appends our keys without those of the input, as an array or as lines.
func (o *JSONOutput) alone(dst []byte, array bool, n int, w *Whitened) ([]byte, error) {
	before, between := len(dst), byte('\n')
	if array {
		dst, between = append(dst, '['), ','
	}
	for row := range n {
		if len(dst)-before > o.Most {
			return dst[:before], o.tooLong(n)
		}
		if row > 0 {
			dst = append(dst, between)
		}
		dst = append(o.row(append(dst, '{'), w, row, true), '}')
	}
	if array {
		dst = append(dst, ']')
	}
	return dst, nil
}

// Convert appends to dst the rows of rec as an array of objects, or its only row as an object, with what they have become.
// On error dst comes back as it was.
func (o *JSONOutput) Convert(dst []byte, rec arrow.Record, w *Whitened, array bool) ([]byte, error) {
	n := int(rec.NumRows())
	w.check(n, &o.config)
	if err := o.prepare(rec.Schema(), w); err != nil {
		return dst, err
	}
	if !o.config.Passthrough {
		return o.alone(dst, array, n, w)
	}
	if err := o.rows.Reset(rec); err != nil {
		return dst, err
	}
	made := dst
	o.rows.Until(len(dst) + o.Most)
	if array {
		made = append(made, '[')
	}
	for i := range n {
		if i > 0 {
			made = append(made, ',')
		}
		at := len(made) + 1
		made = o.rows.Append(append(made, '{'), i)
		made = append(o.row(made, w, i, len(made) == at), '}')
		if len(made)-len(dst) > o.Most {
			return dst, o.tooLong(n)
		}
	}
	if array {
		made = append(made, ']')
	}
	o.Lost += o.rows.Lost()
	return made, nil
}

// row appends our keys of one row; first: there are none before them.
func (o *JSONOutput) row(dst []byte, w *Whitened, i int, first bool) []byte {
	at, key := len(dst), 0
	next := func(dst []byte) []byte { key++; return append(dst, o.keys[key-1]...) }
	null := w.Y == nil || w.Invalid[i] != minibatch.ReasonNone
	switch {
	case o.config.Layout == LayoutColumns:
		for j := range w.K {
			dst = next(dst)
			if null {
				dst = append(dst, jsontext.Null...)
			} else {
				dst = jsontext.AppendFloat32(dst, w.Y[i*w.K+j])
			}
		}
	case null:
		dst = append(next(dst), jsontext.Null...)
	default:
		dst = append(next(dst), '[')
		for _, y := range w.Y[i*w.K : (i+1)*w.K] {
			dst = append(jsontext.AppendFloat32(dst, y), ',')
		}
		dst[len(dst)-1] = ']'
	}
	if o.config.Score {
		dst = number(next(dst), w.Score, i, null)
	}
	if o.config.P {
		dst = number(next(dst), w.P, i, null)
	}
	if o.config.Recent {
		none := null
		if w.NoRecent != nil {
			none = w.NoRecent[i]
		}
		dst = number(next(dst), w.Recent, i, none)
		dst = number(next(dst), w.RecentP, i, none)
	}
	if o.config.Episode {
		if dst = next(dst); w.Episode == nil || w.Episode[i] == "" {
			dst = append(dst, jsontext.Null...)
		} else {
			dst = jsontext.AppendString(dst, w.Episode[i])
		}
	}
	if o.config.Why > 0 {
		dst = o.why(next(dst), w, i, null)
	}
	if o.config.Imputed {
		dst = next(dst)
		switch {
		case null:
			dst = append(dst, jsontext.Null...)
		case w.Imputed == nil:
			dst = append(dst, '0')
		default:
			dst = fmt.Append(dst, w.Imputed[i])
		}
	}
	if o.config.Models {
		dst = modelKeys(next, dst, w, i)
	}
	if first { // without the comma before them
		dst = slices.Delete(dst, at, at+1)
	}
	return dst
}

// modelKeys appends the model of a row; next appends a key.
func modelKeys(next func([]byte) []byte, dst []byte, w *Whitened, i int) []byte {
	if w.Models == nil || w.Models[i].Version == 0 {
		return append(next(append(next(dst), jsontext.Null...)), jsontext.Null...)
	}
	dst = jsontext.AppendString(next(dst), w.Models[i].ID)
	return strconv.AppendUint(next(dst), w.Models[i].Version, 10)
}

// number appends an element of numbers; nil has nothing but nulls.
func number(dst []byte, numbers []float32, i int, null bool) []byte {
	if null || numbers == nil {
		return append(dst, jsontext.Null...)
	}
	return jsontext.AppendFloat32(dst, numbers[i])
}

// why appends the features that lca_why names for a row.
func (o *JSONOutput) why(dst []byte, w *Whitened, i int, null bool) []byte {
	if null {
		return append(dst, jsontext.Null...)
	}
	dst = append(dst, '[')
	each := len(w.Why) / len(w.Invalid)
	for j, gain := range w.Why[i*each : (i+1)*each] {
		if j > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, o.items[gain.Column]...)
		dst = append(jsontext.AppendFloat32(dst, float32(min(gain.Nats, math.MaxFloat32))), '}')
	}
	return append(dst, ']')
}

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
	keyType, keyFields, keyField   = []byte(`"type"`), []byte(`"fields"`), []byte(`"field"`)
	structType, keySpecVersion     = []byte(`"struct"`), []byte(`"specversion"`)
	cloudEventAttributes           = [][]byte{keySpecVersion, keyType, []byte(`"source"`), []byte(`"id"`)}
)

// escapedLetters begin the escapes of lower-case letters in JSON, which need none.
var escapedLetters = [][]byte{[]byte(`\u006`), []byte(`\u007`)}

// mayBeEvents reports whether events may be among the rows of a text: most are passed by this glance at the whole.
func mayBeEvents(text []byte) bool {
	return bytes.Contains(text, keySpecVersion[1:]) || // without its quote, because quotes are everywhere
		slices.ContainsFunc(escapedLetters, func(e []byte) bool { return bytes.Contains(text, e) })
}

// mayBeConnect reports whether a row whose text goes on like that, from its first key on, may be an envelope of Kafka Connect.
func mayBeConnect(first []byte) bool {
	if bytes.HasPrefix(first, keySchema) || bytes.HasPrefix(first, keyPayload) {
		return true
	}
	if len(first) < 2 || first[1] != 's' && first[1] != 'p' && first[1] != '\\' {
		return false
	}
	end := bytes.IndexByte(first[1:], '"') + 1
	return bytes.IndexByte(first[:end], '\\') > 0
}

// says reports whether a string of JSON, with its quotes, is that one, however it is escaped.
func says(text, quoted []byte) bool {
	return bytes.Equal(text, quoted) || text[0] == '"' && bytes.IndexByte(text, '\\') > 0 && unquoted(text) == string(quoted[1:len(quoted)-1])
}

// envelope looks for an envelope in the text of a row. Text without one costs as little as can be.
func (o *JSONOutput) envelope(row []byte, events bool) (e envelope, is bool, err error) {
	first := row[1:]
	for first[0] <= ' ' {
		first = first[1:]
	}
	if mayBeConnect(first) {
		if e, is, err = o.connect(row, 0); is || err != nil {
			return e, is, err
		}
	}
	if events {
		return o.cloudEvent(row)
	}
	return envelope{}, false, nil
}

// connect looks for the envelope of Kafka Connect at a place of the text of a row.
func (o *JSONOutput) connect(row []byte, at int) (e envelope, is bool, err error) {
	var schema, payload jsontext.Member
	n := 0
	for m := range jsontext.Members(row, at) {
		switch n++; {
		case n > 2:
			return envelope{}, false, nil
		case says(m.Key, keySchema):
			schema = m
		case says(m.Key, keyPayload):
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
func (o *JSONOutput) connectFields(row []byte, at int, e *envelope) (is bool, err error) {
	for m := range jsontext.Members(row, at) {
		switch text := row[m.From:m.To]; {
		case says(m.Key, keyType):
			is = says(text, structType)
		case says(m.Key, keyFields) && text[0] == '[':
			e.fields = holeIn(row, m)
			for f := range jsontext.Members(row, m.From) {
				if row[f.From] != '{' {
					return false, nil
				}
				for p := range jsontext.Members(row, f.From) {
					if says(p.Key, keyField) && o.isOurs(row[p.From:p.To]) {
						err = &OutputError{Code: reject.CodeOutputColumnExists, Column: "schema.fields: " + unquoted(row[p.From:p.To])}
					}
				}
			}
		}
	}
	return is && e.fields.at > 0, err
}

// cloudEvent looks for an event in the text of a row.
func (o *JSONOutput) cloudEvent(row []byte) (e envelope, is bool, err error) {
	var data jsontext.Member
	found := 0
	for m := range jsontext.Members(row, 0) {
		switch {
		case says(m.Key, keyData):
			data = m
		case row[m.From] == '"' && slices.ContainsFunc(cloudEventAttributes, func(k []byte) bool { return says(m.Key, k) }):
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
func (o *JSONOutput) within(row []byte, object jsontext.Member, name string, e envelope) (envelope, bool, error) {
	if row[object.From] != '{' { // null
		return e, true, nil
	}
	for m := range jsontext.Members(row, object.From) {
		if o.isOurs(m.Key) {
			return e, false, &OutputError{Code: reject.CodeOutputColumnExists, Column: name + "." + unquoted(m.Key)}
		}
	}
	e.keys = holeIn(row, object)
	return e, true, nil
}

// isOurs reports whether a string, with its quotes, is a name of ours.
func (o *JSONOutput) isOurs(quoted []byte) bool {
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
func (o *JSONOutput) enclose(dst, row []byte, e envelope, w *Whitened, i int) []byte {
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
	for _, f := range ours {
		text = append(append(text, `,{`...), columnTypes[f.Type.ID()].connect...)
		text = append(jsontext.AppendString(append(text, `,"field":`...), f.Name), '}')
	}
	return text
}
