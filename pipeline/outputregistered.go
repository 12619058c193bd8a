package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Registry is a schema registry that outputs are registered with. Both calls wait for one that does not answer.
type Registry interface {
	format.Registry
	Register(ctx context.Context, subject string, s *format.Schema) (id int, err error)
}

// registeredOutput writes outputs that name their schema: the body of the input with our fields at its end, and the
// input's schema with them, registered under the output topic. It is for one goroutine.
type registeredOutput struct {
	config   OutputConfig
	registry Registry
	subject  string
	known    *registrations
	most     int          // bytes of an output that is made of columns
	columns  columnSchema // of the messages seen last that came as no Avro
}

// registrations are the ids of schemas that are registered. All outputs of a process share them, so that none of them asks
// again while the registry is away.
type registrations struct {
	mu  sync.Mutex
	ids map[writerKey]int

	columns columnsSoFar // of messages of JSON that become Avro
}

func (r *registrations) get(key writerKey) (id int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, known = r.ids[key]
	return id, known
}

func (r *registrations) set(key writerKey, id int) {
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

func newRegisteredOutput(c *OutputConfig, registry Registry, topic string, known *registrations) *registeredOutput {
	return &registeredOutput{config: c.withDefaults(), registry: registry, subject: topic + "-value", known: known}
}

var errNoRegistry = &Stop{Err: errors.New("the output would have a schema of its own, and there is no registry to have it"), Remedy: "set source.registry.url, or transform.format to json or arrow"}

// prefix appends the mark and the id of the output's schema, and returns the body of the input.
func (o *registeredOutput) prefix(ctx context.Context, dst []byte, m *source.Message, k int) (made, body []byte, err error) {
	writer, body, ok := format.SchemaID(m.Value)
	if !ok || o.registry == nil {
		return nil, nil, errNoRegistry
	}
	made, err = o.head(dst, writerKey{schema: writer, k: k}, func() (int, error) { return o.register(ctx, writer, k) })
	return made, body, err
}

// head appends the mark and the id that a schema has, or gets now.
func (o *registeredOutput) head(dst []byte, key writerKey, register func() (int, error)) ([]byte, error) {
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

// record appends an output of Avro: the body of the input as it is, and our fields of its only row.
func (o *registeredOutput) record(ctx context.Context, dst []byte, m *source.Message, w *Whitened) ([]byte, error) {
	w.check(int(m.Record.NumRows()), &o.config)
	if err := o.config.place(m.Record.Schema(), o.config.fields(w.K)); err != nil {
		return nil, err
	}
	made, body, err := o.prefix(ctx, dst, m, w.K)
	if err != nil {
		return nil, err
	}
	if o.config.Passthrough {
		made = append(made, body...)
	}
	return o.avro(made, w), nil
}

// register registers the schema of outputs for that of their inputs.
func (o *registeredOutput) register(ctx context.Context, writer, k int) (int, error) {
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
		return 0, &Stop{Err: fmt.Errorf("schema %d: %w", writer, err), Remedy: "set transform.format to json or arrow"}
	}
	return o.publish(ctx, &format.Schema{Type: s.Type, Text: text, References: s.References})
}

// publish registers a schema, or stops.
func (o *registeredOutput) publish(ctx context.Context, s *format.Schema) (int, error) {
	id, err := o.registry.Register(ctx, o.subject, s)
	if err != nil && ctx.Err() == nil {
		return 0, &Stop{Err: err, Remedy: "allow this schema in the registry, or set transform.format to json or arrow"}
	}
	return id, err
}

// Branches of the unions [null, T], as they are written.
const avroNull, avroSome = 0, 2

// avro appends our fields of a record's only row to its body.
func (o *registeredOutput) avro(dst []byte, w *Whitened) []byte {
	if w.Y == nil || w.Invalid[0] != minibatch.ReasonNone {
		fields := len(o.config.fields(w.K))
		if o.config.Models {
			fields -= 2
		}
		return o.avroModel(append(dst, make([]byte, fields)...), w) // null is 0
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
	switch {
	case !o.config.P:
	case w.P == nil:
		dst = append(dst, avroNull)
	default:
		dst = avroFloat(append(dst, avroSome), w.P[0])
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

// avroModel appends the model of the row, where there are such fields.
func (o *registeredOutput) avroModel(dst []byte, w *Whitened) []byte {
	switch {
	case !o.config.Models:
		return dst
	case w.Models == nil || w.Models[0].Version == 0:
		return append(dst, avroNull, avroNull)
	}
	m := w.Models[0]
	dst = append(binary.AppendVarint(append(dst, avroSome), int64(len(m.ID))), m.ID...)
	return binary.AppendVarint(append(dst, avroSome), int64(m.Version))
}

func (o *registeredOutput) avroWhy(dst []byte, w *Whitened) []byte {
	if len(w.Why) > 0 {
		dst = binary.AppendVarint(dst, int64(len(w.Why)))
	}
	for _, gain := range w.Why {
		name := w.Features[gain.Column]
		dst = append(binary.AppendVarint(dst, int64(len(name))), name...)
		dst = avroFloat(dst, float32(min(gain.Nats, math.MaxFloat32)))
	}
	return append(dst, 0)
}

func avroFloat(dst []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
}
