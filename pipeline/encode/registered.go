package encode

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/arrowavro"
	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Registry is a schema registry that outputs are registered with. Both calls wait for one that does not answer.
type Registry interface {
	format.Registry
	Register(ctx context.Context, subject string, s *format.Schema) (id int, err error)
}

// RegisteredOutput writes outputs that name their schema: the body of the input with our fields at its end, and the
// input's schema with them, registered under the output topic. It is for one goroutine.
type RegisteredOutput struct {
	config   OutputConfig
	registry Registry
	subject  string
	known    *Registrations
	Most     int          // bytes of an output that is made of columns
	Lost     int          // times of the input that are null in outputs, because Avro cannot hold them
	columns  columnSchema // of the messages seen last that came as no Avro
}

// Registrations are the ids of schemas that are registered. All outputs of a process share them, so that none of them asks
// again while the registry is away.
type Registrations struct {
	mu  sync.Mutex
	ids map[writerKey]int

	columns columnsSoFar // of messages of JSON that become Avro
}

func (r *Registrations) get(key writerKey) (id int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, known = r.ids[key]
	return id, known
}

func (r *Registrations) set(key writerKey, id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil || len(r.ids) >= mostWriters {
		r.ids = map[writerKey]int{}
	}
	r.ids[key] = id
}

// writerKey is what a schema depends on.
type writerKey struct {
	schema int      // of the input; 0 for one that is made of columns
	made   [32]byte // SHA-256 of the text of one that is made of columns
	k      int      // coordinates: with LayoutColumns each is a field
}

// mostWriters bounds the schemas that are remembered. With more they are all looked up again.
const mostWriters = 1000

// NewRegisteredOutput returns an output whose schemas are registered under the topic; known is shared by those of a process.
func NewRegisteredOutput(c *OutputConfig, registry Registry, topic string, known *Registrations) *RegisteredOutput {
	return &RegisteredOutput{config: c.withDefaults(), registry: registry, subject: topic + "-value", known: known}
}

var errNoRegistry = &reject.Stop{Err: errors.New("the output would have a schema of its own, and there is no registry to have it"), Remedy: "set source.registry.url, or transform.format to json or arrow"}

// Prefix appends the mark and the id of the output's schema, and returns the body of the input.
func (o *RegisteredOutput) Prefix(ctx context.Context, dst []byte, m *source.Message, k int) (made, body []byte, err error) {
	writer, body, ok := format.SchemaID(m.Value)
	if !ok || o.registry == nil {
		return nil, nil, errNoRegistry
	}
	made, err = o.head(dst, writerKey{schema: writer, k: k}, func() (int, error) { return o.register(ctx, writer, k) })
	return made, body, err
}

// head appends the mark and the id that a schema has, or gets now.
func (o *RegisteredOutput) head(dst []byte, key writerKey, register func() (int, error)) ([]byte, error) {
	id, known := o.known.get(key)
	if !known {
		var err error
		if id, err = register(); err != nil {
			return nil, err
		}
		o.known.set(key, id)
	}
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(id)), nil
}

// Record appends an output of Avro: the body of the input as it is, and our fields of its only row.
func (o *RegisteredOutput) Record(ctx context.Context, dst []byte, m *source.Message, w *Whitened) ([]byte, error) {
	w.check(int(m.Record.NumRows()), &o.config)
	if err := o.config.place(m.Record.Schema(), o.config.fields(w.K)); err != nil {
		return nil, err
	}
	made, body, err := o.Prefix(ctx, dst, m, w.K)
	if err != nil {
		return nil, err
	}
	if o.config.Passthrough {
		made = append(made, body...)
	}
	return o.avro(made, w), nil
}

// register registers the schema of outputs for that of their inputs.
func (o *RegisteredOutput) register(ctx context.Context, writer, k int) (int, error) {
	s, err := o.registry.Schema(ctx, writer)
	if err != nil {
		return 0, err
	}
	var text string
	if s.Type == format.SchemaJSON {
		text, err = jsonSchemaWith(s, o.config.fields(k), o.config.Passthrough)
	} else {
		text, err = avroWith(s.Text, o.config.fields(k), o.config.Passthrough)
	}
	if err != nil {
		return 0, &reject.Stop{Err: fmt.Errorf("schema %d: %w", writer, err), Remedy: "set transform.format to json or arrow"}
	}
	return o.publish(ctx, &format.Schema{Type: s.Type, Text: text, References: s.References})
}

// publish registers a schema, or stops.
func (o *RegisteredOutput) publish(ctx context.Context, s *format.Schema) (int, error) {
	id, err := o.registry.Register(ctx, o.subject, s)
	if err != nil && ctx.Err() == nil {
		return 0, &reject.Stop{Err: err, Remedy: "allow this schema in the registry, or set transform.format to json or arrow"}
	}
	return id, err
}

// Branches of the unions [null, T], as they are written.
const avroNull, avroSome = 0, 2

// avro appends our fields of a record's only row to its body.
func (o *RegisteredOutput) avro(dst []byte, w *Whitened) []byte {
	if w.Y == nil || w.Invalid[0] != minibatch.ReasonNone {
		return o.avroModel(o.avroNull(dst, w), w)
	}
	if o.config.Layout == LayoutColumns {
		for _, y := range w.Y {
			dst = avroFloat(append(dst, avroSome), y)
		}
	} else {
		dst = binary.AppendVarint(append(dst, avroSome), int64(len(w.Y)))
		for _, y := range w.Y {
			dst = avroFloat(dst, y)
		}
		dst = append(dst, 0) // the last block
	}
	if o.config.Score {
		dst = avroFloat(append(dst, avroSome), w.Score[0])
	}
	if o.config.P {
		dst = avroMaybe(dst, w.P)
	}
	if o.config.Recent {
		dst = avroRecent(dst, w)
	}
	if o.config.Episode {
		dst = avroEpisode(dst, w)
	}
	if o.config.Why > 0 {
		dst = o.avroWhy(append(dst, avroSome), w)
	}
	if o.config.Imputed {
		filled := int64(0)
		if w.Imputed != nil {
			filled = int64(w.Imputed[0])
		}
		dst = binary.AppendVarint(append(dst, avroSome), filled)
	}
	return o.avroModel(dst, w)
}

// avroNull appends the fields of a row without coordinates, of which the last rows may have a score, and leaves out those of its model.
func (o *RegisteredOutput) avroNull(dst []byte, w *Whitened) []byte {
	for _, f := range o.config.fields(w.K) {
		switch f.Name {
		case o.config.Column + "_model", o.config.Column + "_version", o.config.Column + "_recent_p":
		case o.config.Column + "_recent_score":
			dst = avroRecent(dst, w)
		case o.config.Column + "_episode":
			dst = avroEpisode(dst, w)
		default:
			dst = append(dst, avroNull)
		}
	}
	return dst
}

// avroRecent appends the score of the last rows, and its probability.
func avroRecent(dst []byte, w *Whitened) []byte {
	score, p := w.Recent, w.RecentP
	if none := w.Y == nil || w.Invalid[0] != minibatch.ReasonNone; none && w.NoRecent == nil || w.NoRecent != nil && w.NoRecent[0] {
		score, p = nil, nil
	}
	if hasNaN(p) {
		p = nil
	}
	return avroMaybe(avroMaybe(dst, score), p)
}

// avroEpisode appends the episode that is open with the row.
func avroEpisode(dst []byte, w *Whitened) []byte {
	if w.Episode == nil || w.Episode[0] == "" {
		return append(dst, avroNull)
	}
	return avroText(append(dst, avroSome), w.Episode[0])
}

func avroText(dst []byte, text string) []byte {
	return append(binary.AppendVarint(dst, int64(len(text))), text...)
}

// avroMaybe appends the first of some numbers, or null where there are none.
func avroMaybe(dst []byte, numbers []float32) []byte {
	if numbers == nil {
		return append(dst, avroNull)
	}
	return avroFloat(append(dst, avroSome), numbers[0])
}

// avroModel appends the model of the row, where there are such fields.
func (o *RegisteredOutput) avroModel(dst []byte, w *Whitened) []byte {
	switch {
	case !o.config.Models:
		return dst
	case w.Models == nil || w.Models[0].Version == 0:
		return append(dst, avroNull, avroNull)
	}
	m := w.Models[0]
	dst = avroText(append(dst, avroSome), m.ID)
	return binary.AppendVarint(append(dst, avroSome), int64(m.Version))
}

func (o *RegisteredOutput) avroWhy(dst []byte, w *Whitened) []byte {
	if len(w.Why) > 0 {
		dst = binary.AppendVarint(dst, int64(len(w.Why)))
	}
	for _, gain := range w.Why {
		dst = avroFloat(avroText(dst, w.Features[gain.Column]), float32(min(gain.Nats, math.MaxFloat32)))
	}
	return append(dst, 0)
}

func avroFloat(dst []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
}

// What did not come as Avro gets a schema that is made of its columns. Fields of it may all be null, so that a registry
// takes the next schema where a message has columns more or less.

// errNotAvro is a message of which no Avro can be made.
var errNotAvro = errors.New("no Avro can be made of the message")

// columnSchema is the schema that is made of the columns of a message.
type columnSchema struct {
	in   *arrow.Schema
	key  writerKey
	text string
}

// Convert appends an output of Avro for a message that is none: its only row, and our fields.
func (o *RegisteredOutput) Convert(ctx context.Context, dst []byte, m *source.Message, w *Whitened) ([]byte, error) {
	rows := int(m.Record.NumRows())
	w.check(rows, &o.config)
	if rows != 1 {
		return nil, fmt.Errorf("%w: it has %d rows, and a value of Avro is one; send one row per message, or set transform.format to json or arrow", errNotAvro, rows)
	}
	if o.registry == nil {
		return nil, errNoRegistry
	}
	rec := m.Record
	if err := o.config.place(rec.Schema(), o.config.fields(w.K)); err != nil {
		return nil, err
	}
	if o.config.Passthrough && (m.Format == format.JSON || m.Format == format.JSONSchema) {
		rec = typed(rec)
		if f := oddFeature(rec.Schema(), w.Features); f != nil {
			return nil, fmt.Errorf("%w: feature %q is %s in this message, and a field of Avro has one type; send a number, or set transform.format to json or arrow", errNotAvro, f.Name, f.Type)
		}
		all, err := o.known.columns.with(rec.Schema())
		if err != nil {
			return nil, err
		}
		rec = paddedRow(rec, all)
	}
	if err := o.prepare(rec.Schema(), w.K); err != nil {
		return nil, err
	}
	made, err := o.head(dst, o.columns.key, func() (int, error) {
		return o.publish(ctx, &format.Schema{Type: format.SchemaAvro, Text: o.columns.text})
	})
	if err != nil {
		return nil, err
	}
	if o.config.Passthrough {
		var lost int
		made, lost, err = arrowavro.Append(made, rec, 0, o.Most)
		if errors.Is(err, arrowavro.ErrTooLarge) {
			return nil, fmt.Errorf("%w: the row makes more than %d bytes of Avro", errTooLong, o.Most)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w; set transform.format to json or arrow", errNotAvro, err)
		}
		o.Lost += lost
	}
	return o.avro(made, w), nil
}

// typed is a row without the columns of which JSON does not say the type: those that are null, and lists without a number.
// Taken for one type here and for another in the next message, they would give schemas that do not read each other.
func typed(row arrow.Record) arrow.Record {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, c := range row.Columns() {
		if saysType(c) {
			fields, columns = append(fields, row.Schema().Field(i)), append(columns, c)
		}
	}
	if len(fields) == int(row.NumCols()) {
		return row
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), columns, 1)
}

// saysType reports whether the only row of a column has a value, or a list with one.
func saysType(column arrow.Array) bool {
	list, ok := column.(array.ListLike)
	if !ok || column.IsNull(0) {
		return !column.IsNull(0)
	}
	items := list.ListValues()
	from, to := list.ValueOffsets(0)
	for i := from; i < to; i++ {
		if !items.IsNull(int(i)) {
			return true
		}
	}
	return false
}

// prepare makes the schema of messages with the given columns, unless that of the last one serves.
func (o *RegisteredOutput) prepare(in *arrow.Schema, k int) error {
	if o.columns.key.k == k && o.columns.in != nil && (o.columns.in == in || o.columns.in.Equal(in)) {
		return nil
	}
	var columns []arrow.Field
	if o.config.Passthrough {
		columns = in.Fields()
	}
	text, err := arrowavro.Schema(o.subject, columns, o.config.Names(k))
	if err != nil {
		return fmt.Errorf("%w: %w; set transform.format to json or arrow", errNotAvro, err)
	}
	if text, err = avroWith(text, o.config.fields(k), true); err != nil {
		return err
	}
	o.columns = columnSchema{in, writerKey{made: sha256.Sum256([]byte(text)), k: k}, text}
	return nil
}

// The schemas of outputs are those of their inputs, with fields or properties for our columns. Other parts keep their text.

// avroWith is the schema of a record with our fields at its end.
func avroWith(text string, ours []arrow.Field, passthrough bool) (string, error) {
	var record map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &record); err != nil || record["fields"] == nil {
		return "", errors.New("it is no single record, to which fields could be added")
	}
	var fields []json.RawMessage
	if err := json.Unmarshal(record["fields"], &fields); err != nil {
		return "", fmt.Errorf("its fields: %w", err)
	}
	if !passthrough {
		fields = nil
	} else if containsItself(text) {
		return "", errors.New("its record contains itself, and fields at the end of the row would be fields of the records within it as well")
	}
	for _, f := range ours {
		typ := strings.Replace(columnTypes[f.Type.ID()].avro, "ENTRY", jsonName(f.Name+"_entry"), 1)
		fields = append(fields, json.RawMessage(`{"name":`+jsonName(f.Name)+`,"type":["null",`+typ+`],"default":null}`))
	}
	return withJSON(record, "fields", fields)
}

// containsItself reports whether the record at the top of an Avro schema is named within it.
func containsItself(text string) bool {
	var top map[string]any
	if json.Unmarshal([]byte(text), &top) != nil {
		return false
	}
	name, space := avroName(top, "")
	return namesWithin(top["fields"], name, space)
}

// avroName is the full name of a type that is defined in a namespace, and the namespace of what is within it.
func avroName(defined map[string]any, space string) (name, within string) {
	name, _ = defined["name"].(string)
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		return name, name[:at]
	}
	if own, ok := defined["namespace"].(string); ok {
		space = own
	}
	return inSpace(name, space), space
}

func inSpace(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

// namesWithin reports whether a type, or what is within it, refers to a full name. It is called with fields as well, whose names are none of types.
func namesWithin(node any, name, space string) bool {
	switch n := node.(type) {
	case string:
		return inSpace(n, space) == name
	case []any:
		return slices.ContainsFunc(n, func(one any) bool { return namesWithin(one, name, space) })
	case map[string]any:
		if n["fields"] != nil {
			_, space = avroName(n, space)
		}
		for _, key := range [...]string{"fields", "items", "values"} {
			if n[key] != nil {
				return namesWithin(n[key], name, space)
			}
		}
		return n["symbols"] == nil && n["size"] == nil && namesWithin(n["type"], name, space)
	}
	return false
}

// withJSON is the text of an object in which one value is another.
func withJSON(object map[string]json.RawMessage, key string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	object[key] = text
	all, err := json.Marshal(object)
	return string(all), err
}

func jsonName(s string) string { return string(jsontext.AppendString(nil, s)) }
