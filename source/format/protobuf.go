package format

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Protobuf is read by the schema with which it was written: a value is one message, and a message is one row. Between
// the prefix and the message stand indexes that say which message of the schema it is. Its fields are the columns, in the
// schema's order.
//
//	bool, float, double                      bool, float32, float64
//	int32, sint32, sfixed32, and so on       int32, uint32, int64, uint64
//	string, enum                             utf8
//	bytes                                    binary
//	a message, repeated, map                 struct, list, map
//	google.protobuf.DoubleValue and so on    the value, with nulls
//	google.protobuf.Timestamp, Duration      timestamp and duration in microseconds
//	google.type.Decimal, confluent's too     float64
//
// A field that tells whether it is there (optional, of a oneof, of proto2, a message) is null where it is not, unless the
// schema has another default; any other is then 0 or empty, as Protobuf has it. Where a message's type contains itself,
// the inner one is left out: Arrow has no such types. Config.LeftOut says so, and counts.
//
// The schema is parsed by a library and made into a plan, along which the bytes are read. The library's own messages
// (dynamicpb) cost several times as much, because every value of theirs is an object.

// The codes of Protobuf.
const (
	CodeProtobufInvalid  = "protobuf_invalid"   // the body is not what its schema says
	CodeProtobufTooLarge = "protobuf_too_large" // more items than the limits
)

// protobufFormat is Protobuf as the value of a message.
var protobufFormat = spec{
	name:        Protobuf,
	title:       "Protobuf",
	contentType: "protobuf",
	decoder:     func(Config) valueDecoder { return protobufWithoutSchema{} },
	invalid:     CodeProtobufInvalid,
	tooLarge:    CodeProtobufTooLarge,
	compile:     compileProtobuf,
	schemaType:  SchemaProtobuf,
}

// protobufWithoutSchema refuses values while there is no registry to have their schemas from.
type protobufWithoutSchema struct{}

func (protobufWithoutSchema) decode(_ context.Context, value []byte, _ *Arena) (arrow.Record, error) {
	if _, _, ok := SchemaID(value); ok {
		return nil, errorf(CodeProtobufInvalid, "the value names a schema in a registry: set source.registry.url")
	}
	return nil, errorf(CodeProtobufInvalid, "the value names no schema: write it with a schema registry's serializer")
}

// protobufDecoder reads the bodies of one schema.
type protobufDecoder struct {
	file   protoreflect.FileDescriptor
	config Config

	mu    sync.RWMutex
	plans map[string]*protoPlan // by the bytes of the indexes
}

func compileProtobuf(c Config, s *Schema) (valueDecoder, error) {
	file, err := parseProtobuf(s)
	if err != nil {
		return nil, err
	}
	if file.Messages().Len() == 0 {
		return nil, fmt.Errorf("it has no message")
	}
	return &protobufDecoder{file: file, config: c, plans: map[string]*protoPlan{}}, nil
}

// decode reads one message.
func (d *protobufDecoder) decode(_ context.Context, body []byte, a *Arena) (arrow.Record, error) {
	p, body, err := d.plan(body)
	if err != nil {
		return nil, err
	}
	r := protoReader{left: a.budget(ipcguard.MessageLimits().Decoded)}
	rec := p.read(&r, body)
	if r.err != nil {
		return nil, r.err
	}
	a.spend(r.spent)
	d.config.count(r.lost)
	return rec, nil
}

const (
	// mostIndexes bounds how deep the message of a value is nested in others of the schema.
	mostIndexes = 32

	// mostProtoPlans bounds the messages of one schema whose plans are kept.
	mostProtoPlans = 64
)

// plan returns the plan of the message that the indexes before a body choose, and the body without them.
func (d *protobufDecoder) plan(body []byte) (*protoPlan, []byte, error) {
	var indexes [mostIndexes]int64
	count, rest := int64(0), body
	next := func() (v int64, ok bool) {
		v, n := binary.Varint(rest)
		rest = rest[max(n, 0):]
		return v, n > 0 && v >= 0
	}
	count, ok := next()
	if !ok || count > mostIndexes {
		return nil, nil, errorf(CodeProtobufInvalid, "the indexes that choose a message of the schema are cut off, or %d of them; was the value written by a registry's serializer?", count)
	}
	for i := range count {
		if indexes[i], ok = next(); !ok {
			return nil, nil, errorf(CodeProtobufInvalid, "the %d indexes that choose a message of the schema are cut off; was the value written by a registry's serializer?", count)
		}
	}
	key := body[:len(body)-len(rest)]
	d.mu.RLock()
	p := d.plans[string(key)]
	d.mu.RUnlock()
	if p == nil {
		if p = d.prepare(indexes[:max(count, 1)]); p.err == nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.plans) >= mostProtoPlans {
				clear(d.plans)
			}
			d.plans[string(key)] = p
		}
	}
	if p.err != nil {
		return nil, nil, p.err
	}
	return p, rest, nil
}

// prepare makes the plan of a message of the schema.
func (d *protobufDecoder) prepare(indexes []int64) *protoPlan {
	messages := d.file.Messages()
	var m protoreflect.MessageDescriptor
	for _, i := range indexes {
		if i >= int64(messages.Len()) {
			return &protoPlan{err: errorf(CodeProtobufInvalid, "message %v of the schema, which has %d there", indexes, messages.Len())}
		}
		m = messages.Get(int(i))
		messages = m.Messages()
	}
	return newProtoPlan(m, d.config)
}
