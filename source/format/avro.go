package format

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Avro is read by the schema with which it was written: a value is one record, and a record is one row. Its fields are
// the columns, in the schema's order.
//
//	boolean, int, long, float, double    bool, int32, int64, float32, float64
//	string, enum                         utf8
//	bytes, fixed                         binary, fixed_size_binary
//	decimal                              decimal128 or decimal256
//	date, time-*, timestamp-*            date32, time32 or time64, timestamp in UTC
//	local-timestamp-*                    timestamp without a zone
//	record, array, map                   struct, list, map
//	[null, T]                            T, with nulls
//	a union of numbers                   float64
//	another union                        dense_union
//
// An array of numbers that is a column of its own is a list of fixed size, as in JSON. Where a record's type contains
// itself, the inner one is left out: Arrow has no such types. Config.LeftOut says so, and counts.
//
// The schema is parsed by a library, and made into a plan: a tree of what to read, and of what to skip. The bytes are
// read by the plan alone, straight into Arrow's buffers, because values of interface{} cost ten times as much.

// The codes of Avro.
const (
	CodeAvroInvalid  = "avro_invalid"   // the body is not what its schema says
	CodeAvroTooLarge = "avro_too_large" // more items or nesting than the limits
)

// avroFormat is Avro as the value of a message.
var avroFormat = spec{
	name:        Avro,
	title:       "Avro",
	contentType: "avro",
	decoder:     func(Config) valueDecoder { return avroWithoutSchema{} },
	invalid:     CodeAvroInvalid,
	tooLarge:    CodeAvroTooLarge,
	compile:     compileAvro,
	schemaType:  SchemaAvro,
}

// avroWithoutSchema refuses values that name no schema while none is configured for them.
type avroWithoutSchema struct{}

func (avroWithoutSchema) decode(_ context.Context, value []byte, _ *Arena) (arrow.Record, error) {
	if _, _, ok := SchemaID(value); ok {
		return nil, errorf(CodeAvroInvalid, "the value names a schema in a registry: set source.registry.url")
	}
	return nil, errorf(CodeAvroInvalid, "the value names no schema: set source.schema_file to the schema with which it was written")
}

// compileAvro makes the plan of a schema.
func compileAvro(c Config, s *Schema) (valueDecoder, error) {
	parsed, err := parseAvro(s)
	if err != nil {
		return nil, err
	}
	nodes := avroNodes{named: map[string]*avroNode{}}
	root, err := nodes.node(parsed.Root(), "")
	if err != nil {
		return nil, err
	}
	d := &avroDecoder{config: c}
	switch root.kind {
	case avroRecord:
		d.plans = []*avroPlan{newAvroPlan(root, c)}
	case avroUnion:
		d.union = true
		for _, b := range root.branches {
			if b.kind != avroRecord {
				return nil, fmt.Errorf("a row is a record, and this is a union with %s", b.kind)
			}
			d.plans = append(d.plans, newAvroPlan(b, c))
		}
	default:
		return nil, fmt.Errorf("a row is a record, and this is %s; wrap it into a record", root.kind)
	}
	for _, p := range d.plans {
		if p.err != nil {
			return nil, p.err
		}
	}
	return d, nil
}

// avroDecoder reads the bodies of one schema.
type avroDecoder struct {
	config Config
	plans  []*avroPlan // of the record, or of each branch of a union of records
	union  bool
}

// avroPlan reads a record.
type avroPlan struct {
	err     error
	root    *avroShape
	columns []*avroShape // of the Arrow record
	shapes  int          // number of shapes, which number the state of reading
	schema  *arrow.Schema
	flat    bool // all columns are numbers, or lists of numbers
	numbers int  // number of columns that are numbers
	lists   int  // number of columns that are lists of numbers
	left    LeftOut

	sized atomic.Pointer[avroSized] // of the last record that has lists
}

// avroSized is the schema of records whose lists have certain lengths.
type avroSized struct {
	lengths []int32 // of the columns; 0: not a list of fixed size
	schema  *arrow.Schema
}

// decode reads one record.
func (d *avroDecoder) decode(_ context.Context, body []byte, a *Arena) (arrow.Record, error) {
	r := avroReader{b: body, left: a.budget(ipcguard.MessageLimits().Decoded)}
	p := d.plans[0]
	if d.union {
		i := r.long()
		if i < 0 || i >= int64(len(d.plans)) {
			return nil, errorf(CodeAvroInvalid, "branch %d of a union of %d", i, len(d.plans))
		}
		p = d.plans[i]
	}
	rec := p.read(&r)
	if r.err == nil && len(r.b) > 0 {
		r.err = errorf(CodeAvroInvalid, "%d bytes are left behind the record: it was written with another schema", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	a.spend(r.spent)
	d.config.count(r.lost)
	return rec, nil
}

// read makes a record of what is there, or leaves an error in the reader.
func (p *avroPlan) read(r *avroReader) arrow.Record {
	if p.flat {
		again := *r
		if rec, ok := p.readFlat(r); ok {
			return rec
		}
		*r = again // there is a null
	}
	return p.readColumns(r)
}
