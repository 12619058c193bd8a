package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/arrowjson"
	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/minibatch"
)

// jsonOutput writes outputs as JSON: the text of the input, with our keys at the end of each object. It keeps what depends
// on the schema and the model alone from one message to the next, and is for one goroutine.
type jsonOutput struct {
	config   OutputConfig
	in       *arrow.Schema  // the last one that has place for our keys
	rows     arrowjson.Rows // of a message that is not JSON itself
	k        int            // number of coordinates of the rows seen last
	ours     []arrow.Field  // our columns with k coordinates
	keys     [][]byte       // their names as keys, each with the comma before and the colon behind it
	fields   []byte         // what they are to Kafka Connect, each with the comma before it
	features []string       // of items
	items    [][]byte       // for each feature, an entry of lca_why before its number
	most     int            // bytes of one output
}

// errTooLong is an output that is larger than is written.
var errTooLong = errors.New("the output is too large")

func newJSONOutput(c OutputConfig) *jsonOutput {
	return &jsonOutput{config: c.withDefaults(), most: mostWhitened}
}

// tooLong is an output of more than is written.
func (o *jsonOutput) tooLong(rows int) error {
	return fmt.Errorf("%w: %d rows make more than %d bytes of JSON, which is the most that is made for its topic; send fewer rows per message, or raise the topic's max.message.bytes", errTooLong, rows, o.most)
}

// prepare makes the keys for messages of a schema, unless those of the last one serve.
func (o *jsonOutput) prepare(in *arrow.Schema, w *Whitened) error {
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

// extend appends to dst the JSON text that was decoded to rec, with what its rows have become; opens: into envelopes, unless a schema
// of its own says that our keys are next to the others. On error dst comes back as it was.
func (o *jsonOutput) extend(dst, text []byte, rec arrow.Record, w *Whitened, opens bool) ([]byte, error) {
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
		if len(dst)-before > o.most {
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
func (o *jsonOutput) alone(dst []byte, array bool, n int, w *Whitened) ([]byte, error) {
	before, between := len(dst), byte('\n')
	if array {
		dst, between = append(dst, '['), ','
	}
	for row := range n {
		if len(dst)-before > o.most {
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

// convert appends to dst the rows of rec as an array of objects, or its only row as an object, with what they have become.
// On error dst comes back as it was.
func (o *jsonOutput) convert(dst []byte, rec arrow.Record, w *Whitened, array bool) ([]byte, error) {
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
	o.rows.Until(len(dst) + o.most)
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
		if len(made)-len(dst) > o.most {
			return dst, o.tooLong(n)
		}
	}
	if array {
		made = append(made, ']')
	}
	return made, nil
}

// row appends our keys of one row; first: there are none before them.
func (o *jsonOutput) row(dst []byte, w *Whitened, i int, first bool) []byte {
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
func (o *jsonOutput) why(dst []byte, w *Whitened, i int, null bool) []byte {
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
