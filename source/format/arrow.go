package format

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/flatipc"
	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// The codes of Arrow: arrow_ and an ipcguard.Cause.
const (
	CodeArrowTruncated   = "arrow_truncated"   // the stream ends within a message
	CodeArrowInvalid     = "arrow_invalid"     // the bytes contradict themselves or the Arrow format
	CodeArrowFileFormat  = "arrow_file_format" // an Arrow file (Feather) instead of a stream
	CodeArrowTooLarge    = "arrow_too_large"   // more rows, columns, nesting or decoded bytes than the limits
	CodeArrowUnsupported = "arrow_unsupported" // sound, but of a type or version that is not read here
)

// arrowFormat is Arrow IPC: a stream is the value of a message, and streams and files are read from disk.
var arrowFormat = spec{
	name:        Arrow,
	title:       "an Arrow IPC stream",
	looks:       looksArrow,
	contentType: "arrow",
	decoder:     func(Config) valueDecoder { return new(arrowDecoder) },
	invalid:     CodeArrowInvalid,
	tooLarge:    CodeArrowTooLarge,
	otherCodes:  []string{CodeArrowTruncated, CodeArrowFileFormat, CodeArrowUnsupported},
	extensions:  []string{".arrow", ".feather", ".arrows"},
	open:        openArrowFile,
}

// looksArrow reports whether value opens as a message of a stream, or as a file, which the guard
// then refuses with the remedy. Streams from before Arrow 0.15 have no mark but a length that fits. Since
// the guard takes 16 MiB of metadata at most, that length has a zero byte, so it is never JSON.
func looksArrow(value []byte) bool {
	if bytes.HasPrefix(value, []byte("ARROW1")) || bytes.HasPrefix(value, []byte{0xFF, 0xFF, 0xFF, 0xFF}) {
		return true
	}
	if len(value) < 8 {
		return false
	}
	n := int64(binary.LittleEndian.Uint32(value))
	return n >= 8 && n%4 == 0 && n <= min(int64(len(value)-4), ipcguard.MessageLimits().Metadata)
}

// arrowDecoder reads IPC streams.
type arrowDecoder struct {
	schemas schemas
	codecs  codecs
	layouts flatipc.Layouts
}

// decode reads one IPC stream, by its layout where that is known.
func (d *arrowDecoder) decode(_ context.Context, value []byte, a *Arena) (arrow.Record, error) {
	if l := d.layouts.Match(value); l != nil {
		f := a.flat()
		f.layout, f.value, f.decoder = l, value, d
		f.init(f, l.Schema, l.Rows)
		return f, nil
	}
	rec, err := d.decodeBatches(value, a)
	if err == nil {
		d.layouts.Learn(flatipc.Read(value, rec))
	}
	return rec, err
}

// decodeBatches reads one IPC stream. The Arrow library decodes schemas, which hold no data, once
// each; batches are laid over the bytes of value by loader, without a copy unless compressed.
func (d *arrowDecoder) decodeBatches(value []byte, a *Arena) (arrow.Record, error) {
	limits := ipcguard.MessageLimits()
	guard := ipcguard.NewStream(limits)
	schema, rest, err := d.schemas.open(guard, value)
	if err != nil {
		return nil, err
	}
	budget := a.budget(limits.Decoded)
	l := newLoader(guard, schema, &d.codecs, budget)
	defer func() { a.spend(budget - l.mem.left) }()
	var recs []arrow.Record
	for {
		m, after, err := guard.Next(rest)
		if errors.Is(err, io.EOF) {
			rest = after
			break
		}
		if err != nil {
			return nil, asError(err)
		}
		if rest = after; m.Kind == ipcguard.DictionaryMessage {
			err = l.dictionary(&m.Batch)
		} else {
			var rec arrow.Record
			rec, err = l.record(&m.Batch)
			recs = append(recs, rec)
		}
		if err != nil {
			return nil, asError(err)
		}
	}
	if n := len(bytes.TrimLeft(rest, "\x00")); n > 0 {
		return nil, errorf(CodeArrowInvalid, "%d bytes after the end of the stream; send one stream per message", n)
	}
	return joinRecords(schema, recs, l.mem)
}

// schemas remembers the schemas of an arrowDecoder by the bytes of their message: producers repeat one
// schema in every message, and decoding it costs more than the batch that follows.
type schemas struct {
	mu     sync.Mutex
	known  map[string]knownSchema
	weight int64 // bytes of all known
}

type knownSchema struct {
	guard *ipcguard.Schema
	arrow *arrow.Schema
}

// maxSchemas bounds the bytes that schemas remembers: a topic has few of some KB; one with more
// only loses time.
const maxSchemas = 16 << 20

// open returns the schema that value begins with and the bytes after it.
func (c *schemas) open(guard *ipcguard.Stream, value []byte) (*arrow.Schema, []byte, error) {
	frame := ipcguard.First(value)
	c.mu.Lock()
	known, ok := c.known[string(frame)]
	c.mu.Unlock()
	if ok {
		guard.Assume(known.guard)
		return known.arrow, value[len(frame):], nil
	}
	m, rest, err := guard.Next(value)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil, errorf(CodeArrowInvalid, "a stream without a schema")
	case err != nil:
		return nil, nil, asError(err)
	case m.Kind != ipcguard.SchemaMessage:
		return nil, nil, errorf(CodeArrowInvalid, "a stream that does not begin with its schema")
	}
	r, err := ipc.NewReader(bytes.NewReader(m.Frame))
	if err != nil {
		return nil, nil, errorf(CodeArrowUnsupported, "schema: %w", err)
	}
	defer r.Release()
	known = knownSchema{guard: guard.Schema(), arrow: plainSchema(r.Schema())}
	c.keep(m.Frame, known)
	return known.arrow, rest, nil
}

// keep remembers a schema, forgetting all others when there are too many.
func (c *schemas) keep(frame []byte, s knownSchema) {
	weight := s.guard.Weight() + int64(len(frame))
	if weight > maxSchemas/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[string(frame)]; ok {
		return // another goroutine was first
	}
	if c.known == nil || c.weight+weight > maxSchemas {
		c.known, c.weight = map[string]knownSchema{}, 0
	}
	c.weight += weight
	c.known[string(frame)] = s
}

// joinRecords makes one record of all batches of a stream. It copies, into mem, when there are
// several.
func joinRecords(schema *arrow.Schema, recs []arrow.Record, mem *cappedAllocator) (arrow.Record, error) {
	var full []arrow.Record
	var rows int64
	for _, r := range recs {
		if r.NumRows() > 0 {
			full = append(full, r)
			rows += r.NumRows()
		}
	}
	switch {
	case len(full) == 0 && len(recs) > 0:
		return recs[0], nil
	case len(full) == 1:
		return full[0], nil
	}
	cols := make([]arrow.Array, schema.NumFields())
	for i := range cols {
		col, err := joinColumn(schema.Field(i).Type, full, i, mem)
		if errors.Is(err, errBudget) {
			return nil, errorf(CodeArrowTooLarge, "joining %d batches of %d rows takes too many bytes; send one batch per message", len(full), rows)
		}
		if err != nil {
			return nil, errorf(CodeArrowUnsupported, "joining %d batches in column %q: %w; send one batch per message",
				len(full), schema.Field(i).Name, err)
		}
		cols[i] = col
	}
	return array.NewRecord(schema, cols, rows), nil
}

func joinColumn(dt arrow.DataType, recs []arrow.Record, i int, mem *cappedAllocator) (arrow.Array, error) {
	if len(recs) == 0 {
		return array.MakeFromData(emptyData(dt)), nil
	}
	parts := make([]arrow.Array, len(recs))
	for k, r := range recs {
		parts[k] = r.Column(i)
	}
	return array.Concatenate(parts, mem)
}

// emptyData is an array without values.
func emptyData(dt arrow.DataType) *array.Data {
	typ := dt
	if ext, ok := dt.(arrow.ExtensionType); ok {
		typ = ext.StorageType()
	}
	n := len(typ.Layout().Buffers)
	if _, ok := typ.(arrow.UnionType); ok {
		n++ // its arrays have a slot for a bitmap that its layout leaves out
	}
	buffers := make([]*memory.Buffer, 1, n)
	for len(buffers) < n {
		buffers = append(buffers, memory.NewBufferBytes(nil))
	}
	if d, ok := typ.(*arrow.DictionaryType); ok {
		return array.NewDataWithDictionary(dt, 0, buffers, 0, 0, emptyData(d.ValueType))
	}
	var children []arrow.ArrayData
	if nested, ok := typ.(arrow.NestedType); ok {
		for _, f := range nested.Fields() {
			children = append(children, emptyData(f.Type))
		}
	}
	return array.NewData(dt, 0, buffers, children, 0, 0)
}

// errBudget ends what would take more memory than one input may.
var errBudget = errors.New("format: out of budget")

// cappedAllocator hands out memory of the garbage collector until its budget is spent, and then
// panics with errBudget; the Arrow functions that allocate give panics back as errors.
type cappedAllocator struct{ left int64 }

// Allocate returns size bytes.
func (a *cappedAllocator) Allocate(size int) []byte {
	if a.left -= int64(size); a.left < 0 {
		panic(errBudget)
	}
	return make([]byte, size)
}

// Reallocate returns a copy of b of another size; b itself is left to the collector.
func (a *cappedAllocator) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	c := a.Allocate(size)
	copy(c, b)
	return c
}

// Free does nothing: the collector frees.
func (a *cappedAllocator) Free([]byte) {}

// flat is a record that is decoded only when its columns are needed. Its message has a layout that was met
// before, so its numbers are where they were then and, whatever they are, they are sound: one comparison stands for
// the whole of decoding, and Buffers gives the numbers as they lie.
type flat struct {
	lazyRecord
	layout  *flatipc.Layout
	value   []byte
	decoder *arrowDecoder
}

// Buffers appends the buffers of all columns to dst.
func (f *flat) Buffers(dst [][]byte) [][]byte { return f.layout.Buffers(dst, f.value) }

// Buffer returns one of them.
func (f *flat) Buffer(i int) []byte { return f.layout.Buffer(f.value, i) }

// record decodes the message.
func (f *flat) record() arrow.Record {
	rec, err := f.decoder.decodeBatches(f.value, nil)
	if err != nil {
		panic("format: internal error: a message of a known layout cannot be decoded: " + err.Error())
	}
	return rec
}

var _ flatipc.Record = (*flat)(nil)

// Polars writes categories as dictionaries of string views. Arrow/go v15 reads them but cannot
// write them: it repeats the buffer counts of views in a dictionary in whatever it writes next,
// which then no reader can make sense of. So dictionaries of views are read as dictionaries of
// plain text or bytes: the same values, of a type that every reader and writer knows. Views
// outside dictionaries are read as they are.

// plainSchema returns s with dictionaries of views replaced; s itself where it has none.
func plainSchema(s *arrow.Schema) *arrow.Schema {
	fields, changed := plainFields(s.Fields())
	if !changed {
		return s
	}
	metadata := s.Metadata()
	return arrow.NewSchema(fields, &metadata)
}

func plainFields(fields []arrow.Field) (out []arrow.Field, changed bool) {
	out = append(out, fields...)
	for i := range out {
		if dt := plainType(out[i].Type); dt != nil {
			out[i].Type, changed = dt, true
		}
	}
	return out, changed
}

// plainType returns the replacement of a type; nil where there is nothing to replace, or where a
// dictionary stands within a type that is not rebuilt here (maps, unions, run ends).
func plainType(dt arrow.DataType) arrow.DataType {
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		plain := *dt
		switch dt.ValueType.ID() {
		case arrow.STRING_VIEW:
			plain.ValueType = arrow.BinaryTypes.String
		case arrow.BINARY_VIEW:
			plain.ValueType = arrow.BinaryTypes.Binary
		default:
			return nil
		}
		return &plain
	case *arrow.StructType:
		if fields, changed := plainFields(dt.Fields()); changed {
			return arrow.StructOf(fields...)
		}
		return nil
	}
	nested, ok := dt.(arrow.NestedType)
	if !ok || len(nested.Fields()) != 1 {
		return nil
	}
	item, changed := plainFields(nested.Fields())
	if !changed {
		return nil
	}
	switch dt := dt.(type) {
	case *arrow.ListType:
		return arrow.ListOfField(item[0])
	case *arrow.LargeListType:
		return arrow.LargeListOfField(item[0])
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(dt.Len(), item[0])
	}
	return nil
}

// storedType is the type in which the values of a dictionary are stored, where plainSchema gave
// it another.
func storedType(f *ipcguard.Field, dt arrow.DataType) arrow.DataType {
	switch {
	case f.Kind == ipcguard.Utf8View && dt.ID() == arrow.STRING:
		return arrow.BinaryTypes.StringView
	case f.Kind == ipcguard.BinaryView && dt.ID() == arrow.BINARY:
		return arrow.BinaryTypes.BinaryView
	}
	return dt
}

// plain copies validated views into an array of plain text or bytes.
func (l *loader) plain(data *array.Data, dt arrow.DataType) *array.Data {
	views := array.MakeFromData(data).(array.ViewLike)
	n := views.Len()
	size := 0
	for i := range n {
		if views.IsValid(i) {
			size += views.ValueHeader(i).Len()
		}
	}
	if int64(size+4*(n+1)) > min(l.mem.left, 1<<31-1) {
		l.fail(errorf(CodeArrowTooLarge, "a dictionary of %d bytes of text; send it as plain strings", size))
		return nil
	}
	text := l.mem.Allocate(size)[:0]
	offsets := arrow.Int32Traits.CastFromBytes(l.mem.Allocate(4 * (n + 1)))
	for i := range n {
		if views.IsValid(i) {
			text = append(text, viewBytes(views, i)...)
		}
		offsets[i+1] = int32(len(text))
	}
	buffers := []*memory.Buffer{data.Buffers()[0], memory.NewBufferBytes(arrow.GetBytes(offsets)), memory.NewBufferBytes(text)}
	return array.NewData(dt, n, buffers, nil, data.NullN(), 0)
}

func viewBytes(views array.ViewLike, i int) []byte {
	h := views.ValueHeader(i)
	if h.IsInline() {
		return h.InlineBytes()
	}
	from := int(h.BufferOffset())
	return views.Data().Buffers()[2+h.BufferIndex()].Bytes()[from : from+h.Len()]
}
