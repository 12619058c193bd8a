package format

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// DefaultMaxBytes bounds the bytes of one value unless Config.MaxBytes says otherwise: sixteen times what brokers take by default, and little enough
// that a message and what is made of it fit into the memory of a small process.
const DefaultMaxBytes = 16 << 20

// Config says what a Decoder takes.
type Config struct {
	Format   Format // one of Names; default Auto
	MaxBytes int    // bytes of one value; default DefaultMaxBytes

	// Registry has the schemas of values that name one: see SchemaID. Nil: such values are refused.
	Registry Registry

	// AvroSchema is the schema of values that name none, with Format Avro; "": each names its schema.
	AvroSchema string

	// Columns are the names or paths of the columns that will be read, such as payload.after.temp. A format whose records
	// have no nested columns gives each path a column of its name.
	Columns []string
	// Only leaves out the columns that neither Columns nor Also names, as far as that saves work.
	Only bool
	// OnlyOf are the formats that Only is for; nil: all.
	OnlyOf []Format
	// Also are names of fields of a row, not paths, that are columns with Only where a message has them. One that it lacks costs nothing.
	Also []string
	// Nested makes columns with fields of nested values that are text otherwise. It is for showing what is there. With Only,
	// the first values that lack one of Columns are read so, because an error will name what is similar.
	Nested bool

	// LeftOut is told what a schema of Avro or Protobuf has that no column can hold, because its type contains itself, or is nested too deeply.
	// It is called once for each record or message of a schema, perhaps by several goroutines at once; nil: it is not said.
	LeftOut func(LeftOut)
	// LeftOutValues counts the values that are left out so; nil: they are not counted.
	LeftOutValues *atomic.Uint64
}

// LeftOut is what of the rows of a schema is not read.
type LeftOut struct {
	Of    string   // full name of the record or message
	Paths []string // of fields, at most mostLeftOut
	More  int      // number of others
}

// mostLeftOut bounds the paths that are named.
const mostLeftOut = 20

func (l *LeftOut) add(path []string) {
	if len(l.Paths) == mostLeftOut {
		l.More++
		return
	}
	l.Paths = append(l.Paths, strings.Join(path, "."))
}

// count adds values that are left out.
func (c *Config) count(values int) {
	if values > 0 && c.LeftOutValues != nil {
		c.LeftOutValues.Add(uint64(values))
	}
}

// tell says what is left out, if anything is.
func (l *LeftOut) tell(c *Config, of string) {
	if l.Of = of; c.LeftOut != nil && len(l.Paths) > 0 {
		c.LeftOut(*l)
	}
}

// of returns what a format's decoder takes.
func (c Config) of(f Format) Config {
	c.Only = c.Only && (c.OnlyOf == nil || slices.Contains(c.OnlyOf, f))
	return c
}

// Decoder turns the value of a message into one Arrow record. Its input is hostile until proven
// otherwise: every byte is bounds-checked before anything is allocated or read by a library, no
// input panics, and one input never holds more than 64 MiB in addition to its own bytes.
//
// A Decoder may be used by several goroutines at once.
type Decoder struct {
	config   Config
	chosen   int            // place in formats of the only one that is read; −1: all
	decoders []valueDecoder // in the order of formats; nil: of files only
	named    *registered    // of values that name their schema; nil: they are not read
}

// NewDecoder returns a Decoder; zero fields of c take their defaults. A Format that is not one of Names is
// an error.
func NewDecoder(c Config) (*Decoder, error) {
	chosen, err := find(c.Format)
	if err != nil {
		return nil, err
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	d := &Decoder{config: c, chosen: chosen, decoders: make([]valueDecoder, len(formats))}
	for i, f := range formats {
		if f.decoder != nil {
			d.decoders[i] = f.decoder(c.of(f.name))
		}
	}
	if c.AvroSchema != "" {
		if c.Format != Avro {
			return nil, fmt.Errorf("format: a schema for values that name none is given, so source.format must be %s", Avro)
		}
		if d.decoders[chosen], err = compileAvro(c.of(Avro), &Schema{Type: SchemaAvro, Text: c.AvroSchema}); err != nil {
			return nil, fmt.Errorf("format: source.schema_file: %w", err)
		}
		return d, nil
	}
	if c.Registry != nil && (chosen < 0 || formats[chosen].compile != nil) {
		d.named = &registered{config: c, chosen: chosen, plans: map[int]*plan{}}
	}
	return d, nil
}

// Decode returns all rows of value as one record, which the caller releases. The record may alias
// value, so value must stay unchanged for as long as the record is in use. A stream or an array
// without rows gives a record of 0 rows. contentType is the content-type header, or "".
//
// An error about the bytes is an *Error: it will be the same next time. Any other says that they could not be
// decoded now: ctx has ended, or the schema registry refuses to answer. A nil value (a tombstone) is for the caller to leave out: it is
// refused as empty.
func (d *Decoder) Decode(ctx context.Context, value []byte, contentType string) (arrow.Record, error) {
	rec, _, err := d.DecodeIn(ctx, nil, value, contentType)
	return rec, err
}

// DecodeIn is Decode for one of several messages that are released together: what the record takes belongs
// to the arena, and fits into its room. It returns the format that the value was of, too.
func (d *Decoder) DecodeIn(ctx context.Context, a *Arena, value []byte, contentType string) (rec arrow.Record, as Format, err error) {
	defer func() {
		if p := recover(); p != nil {
			rec, err = nil, errorf(CodeDecodePanic, "decoding %d bytes: %v", len(value), p)
		}
	}()
	switch {
	case len(value) == 0:
		return nil, "", errorf(CodeEmpty, "no bytes; send %s", titles())
	case len(value) > d.config.MaxBytes:
		return nil, "", errorf(CodeTooLarge, "%d bytes, at most %d are read", len(value), d.config.MaxBytes)
	}
	if _, _, ok := SchemaID(value); ok && d.named != nil {
		return d.named.decode(ctx, value, a)
	}
	i, err := d.choose(value, contentType)
	if err != nil {
		return nil, "", err
	}
	rec, err = d.decoders[i].decode(ctx, value, a)
	return rec, formats[i].name, err
}

// Arena is what a batch of messages is decoded into: it bounds what the next one may take, says what the last one
// took, and keeps memory for the next batch. The zero value is bounded by the limits of a message
// alone. An Arena is for one goroutine.
type Arena struct {
	flats pool[flat]
	texts pool[jsonFlat]
	slab  []float64 // those in use, of records of text
	room  int64     // what the next message may decode to; 0: whatever a message may
	spent int64     // what the last one has decoded to
}

// Begin sets what the next message may decode to, in bytes and in addition to its own.
func (a *Arena) Begin(room int64) { a.room, a.spent = room, 0 }

// Spent is the bytes that the message since Begin has decoded to.
func (a *Arena) Spent() int64 { return a.spent }

// Short reports whether err, of the message since Begin, may be for lack of room: with more of it, the message
// may decode.
func (a *Arena) Short(err error) bool {
	var e *Error
	if a.room == 0 || a.room >= ipcguard.MessageLimits().Decoded || !errors.As(err, &e) {
		return false
	}
	return slices.ContainsFunc(formats, func(f spec) bool { return f.decoder != nil && f.tooLarge == e.Code })
}

// Reset makes the memory of all records that were decoded into the arena that of later ones.
func (a *Arena) Reset() {
	a.flats.reset()
	a.texts.reset()
	a.slab = a.slab[:0]
}

// budget is what one message may decode to, where most is the most of any.
func (a *Arena) budget(most int64) int64 {
	if a == nil || a.room == 0 {
		return most
	}
	return min(most, a.room)
}

// spend notes what a message has decoded to.
func (a *Arena) spend(n int64) {
	if a != nil {
		a.spent = n
	}
}

// flat returns one that is free until the next Reset.
func (a *Arena) flat() *flat {
	if a == nil {
		return new(flat)
	}
	return a.flats.take()
}

// text is flat for a record of text.
func (a *Arena) text() *jsonFlat {
	if a == nil {
		return new(jsonFlat)
	}
	return a.texts.take()
}

// slabNumbers is how many numbers of small records share memory.
const slabNumbers = 2048

// numbers returns room for n numbers, which is free until the next Reset.
func (a *Arena) numbers(n int) []float64 {
	if a == nil || n > slabNumbers/8 {
		return make([]float64, 0, n)
	}
	if cap(a.slab)-len(a.slab) < n {
		a.slab = make([]float64, 0, slabNumbers) // the one before stays with its records
	}
	at := len(a.slab)
	a.slab = a.slab[:at+n]
	return a.slab[at : at : at+n]
}

// pool is objects that are used again after a reset.
type pool[T any] struct {
	all  []*T
	used int
}

func (p *pool[T]) take() *T {
	if p.used == len(p.all) {
		more := make([]T, 64)
		for i := range more {
			p.all = append(p.all, &more[i])
		}
	}
	p.used++
	return p.all[p.used-1]
}

func (p *pool[T]) reset() {
	var zero T
	for _, one := range p.all[:p.used] {
		*one = zero
	}
	p.used = 0
}

// lazyRecord is the part that records share whose columns are made only when they are needed. A record embeds one, and init makes it point back.
type lazyRecord struct {
	schema *arrow.Schema
	rows   int64
	of     columnMaker
	once   sync.Once
	made   arrow.Record
}

// columnMaker makes the columns of a record, as a record that has them.
type columnMaker interface{ record() arrow.Record }

func (r *lazyRecord) init(of columnMaker, schema *arrow.Schema, rows int64) {
	r.of, r.schema, r.rows = of, schema, rows
}

func (r *lazyRecord) whole() arrow.Record {
	r.once.Do(func() { r.made = r.of.record() })
	return r.made
}

// Schema, NumRows, NumCols and ColumnName need no column.
func (r *lazyRecord) Schema() *arrow.Schema   { return r.schema }
func (r *lazyRecord) NumRows() int64          { return r.rows }
func (r *lazyRecord) NumCols() int64          { return int64(r.schema.NumFields()) }
func (r *lazyRecord) ColumnName(i int) string { return r.schema.Field(i).Name }

// Retain and Release do nothing: the values belong to the collector.
func (r *lazyRecord) Retain()  {}
func (r *lazyRecord) Release() {}

// Columns and the others make the columns.
func (r *lazyRecord) Columns() []arrow.Array           { return r.whole().Columns() }
func (r *lazyRecord) Column(i int) arrow.Array         { return r.whole().Column(i) }
func (r *lazyRecord) MarshalJSON() ([]byte, error)     { return r.whole().MarshalJSON() }
func (r *lazyRecord) NewSlice(i, j int64) arrow.Record { return r.whole().NewSlice(i, j) }

// SetColumn returns a record with another column i.
func (r *lazyRecord) SetColumn(i int, col arrow.Array) (arrow.Record, error) {
	return r.whole().SetColumn(i, col)
}
