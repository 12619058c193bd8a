package format

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
)

// Values that are written with a schema registry name their schema:
//
//	byte 0        0, the mark
//	bytes 1–4     id of the writer's schema in the registry, big-endian
//	bytes 5–…     the body, in the format of that schema's type
//
// Each value is read by its own writer's schema, so that schemas may change in the midst of a topic. What is read of a
// schema (its plan) is kept for later values. Ids in headers, as 16-byte GUIDs, are not supported.

// SchemaType is the language of a schema, as registries spell it.
type SchemaType string

// The types of schemas.
const (
	SchemaAvro     SchemaType = "AVRO"
	SchemaProtobuf SchemaType = "PROTOBUF"
	SchemaJSON     SchemaType = "JSON"
)

// Schema is what a schema registry has under an id.
type Schema struct {
	ID         int
	Type       SchemaType
	Text       string
	References []SchemaReference // all that the text refers to, directly or not, each after what it refers to itself
}

// size is the number of bytes of all its text.
func (s *Schema) size() int {
	n := len(s.Text)
	for _, r := range s.References {
		n += len(r.Text)
	}
	return n
}

// SchemaReference is a schema that another one refers to.
type SchemaReference struct {
	Name    string // by which it is referred to: a full name in Avro, a file to import in Protobuf, a $ref in JSON Schema
	Subject string
	Version int
	Text    string
	Direct  bool // the schema itself refers to it, not only what it refers to
}

// withoutSchema refuses the values of a format whose schemas nothing tells.
type withoutSchema struct{ code, instead string }

func (w withoutSchema) decode(_ context.Context, value []byte, _ *Arena) (arrow.Record, error) {
	if _, _, ok := SchemaID(value); ok {
		return nil, errorf(w.code, "the value names a schema in a registry: set source.registry.url")
	}
	return nil, errorf(w.code, "the value names no schema%s", w.instead)
}

// Registry knows the schemas of ids. It is used by several goroutines at once.
type Registry interface {
	// Schema returns the schema of an id, and waits for it until ctx ends, but returns one that it remembers whatever
	// ctx is. The question may stay open when ctx ends. ErrNoSchema means that there is none, ErrUnusableSchema that there is one beyond what can be used; any other
	// error, that it could not be had now.
	Schema(ctx context.Context, id int) (*Schema, error)
}

// ErrNoSchema is a registry's answer that an id, or a schema that it refers to, is not known there.
var ErrNoSchema = errors.New("the schema registry does not know it")

// ErrUnusableSchema is what is wrong with a schema that the registry has, such as its size.
var ErrUnusableSchema = errors.New("the schema cannot be used")

// The codes of values whose writer's schema cannot be used.
const (
	CodeSchemaUnknown = "schema_unknown" // the registry does not know the id, or what its schema refers to
	CodeSchemaInvalid = "schema_invalid" // the schema does not parse, or has what is not supported
)

// prefixBytes is the size of the mark and the id.
const prefixBytes = 5

// SchemaID returns the id of the writer's schema that value names, and the body behind it. ok is false if value does
// not begin as one that was written with a registry.
func SchemaID(value []byte) (id int, body []byte, ok bool) {
	if len(value) < prefixBytes || value[0] != 0 {
		return 0, nil, false
	}
	return int(binary.BigEndian.Uint32(value[1:])), value[prefixBytes:], true
}

// mostPlans bounds the plans that are kept, and mostPlanText the bytes of their schemas, of which a plan takes up to 50 times as many. With more they are
// all made again: few topics have as many schemas.
const (
	mostPlans    = 256
	mostPlanText = 1 << 20
)

// registered reads values by the schemas that they name.
type registered struct {
	config Config
	chosen int // place in formats of the only one that is read; −1: all

	mu    sync.RWMutex
	plans map[int]*plan
	text  int // bytes of their schemas
}

// plan reads the bodies of one schema; err says why it cannot.
type plan struct {
	valueDecoder
	as  Format
	err *Error
}

func (r *registered) decode(ctx context.Context, value []byte, a *Arena) (rec arrow.Record, as Format, err error) {
	id, body, _ := SchemaID(value)
	r.mu.RLock()
	p := r.plans[id]
	r.mu.RUnlock()
	if p == nil {
		if p, err = r.prepare(ctx, id); err != nil {
			return nil, "", err
		}
	}
	if p.err != nil {
		return nil, "", p.err
	}
	rec, err = p.decode(ctx, body, a)
	return rec, p.as, err
}

// Ask begins to ask the registry for the schema that a value names, and does not wait for it. known: there is nothing to ask for.
func (d *Decoder) Ask(value []byte) (known bool) {
	id, _, ok := SchemaID(value)
	if !ok || d.named == nil {
		return true
	}
	d.named.mu.RLock()
	known = d.named.plans[id] != nil
	d.named.mu.RUnlock()
	if !known {
		_, _ = d.config.Registry.Schema(noWait, id) // the question stays open, and the next call for this id gets the answer
	}
	return known
}

// noWait is a context in which nothing is waited for.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// prepare makes the plan of an id and keeps it. An unknown id is not kept: the registry may know it later.
func (r *registered) prepare(ctx context.Context, id int) (*plan, error) {
	s, err := r.config.Registry.Schema(ctx, id)
	if errors.Is(err, ErrNoSchema) && id == 0 {
		return nil, errorf(CodeSchemaUnknown, "the value names schema 0, which no registry has: ids of 8 bytes, as Apicurio's serializers write them, are not read: set their apicurio.registry.id-handler to one of 4 bytes")
	}
	if errors.Is(err, ErrNoSchema) {
		return nil, errorf(CodeSchemaUnknown, "the value names schema %d: %w; was it written with another registry?", id, err)
	}
	if errors.Is(err, ErrUnusableSchema) {
		return nil, errorf(CodeSchemaInvalid, "schema %d: %w", id, err)
	}
	if err != nil {
		return nil, err
	}
	p := r.compile(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text += s.size(); len(r.plans) >= mostPlans || r.text > mostPlanText {
		clear(r.plans)
		r.text = s.size()
	}
	r.plans[id] = p
	return p, nil
}

func (r *registered) compile(s *Schema) *plan {
	if strings.TrimSpace(s.Text) == "" {
		return &plan{err: errorf(CodeSchemaInvalid, "the registry's schema %d is empty", s.ID)}
	}
	for i, f := range formats {
		if f.compile == nil || f.schemaType != s.Type {
			continue
		}
		if r.chosen >= 0 && r.chosen != i {
			want := formats[r.chosen]
			return &plan{err: errorf(want.invalid, "schema %d is of %s; set source.format to auto or %s to read it", s.ID, f.title, f.name)}
		}
		d, err := f.compile(r.config.of(f.name), s)
		if err != nil {
			return &plan{err: errorf(CodeSchemaInvalid, "schema %d: %w", s.ID, err)}
		}
		return &plan{valueDecoder: d, as: f.name}
	}
	return &plan{err: errorf(CodeSchemaInvalid, "schema %d is of type %q, which is not read", s.ID, clip(string(s.Type)))}
}
