// Package encode turns rows and what they have become into the values of output messages: Arrow streams, JSON, and Avro or JSON with a
// schema in a registry.
//
// Begin with [NewOutput] and [Output.Append], which need no more than a record and its [Whitened] rows. [Format] says what is written,
// [OutputConfig] which columns of ours are added. Where the layout of a message is known, [Output.Pieces] writes it without a copy.
//
// What whitening adds to one message is bounded ([MostWhitened]); an input that has a column of one of our names is an [OutputError]. An
// Output is for one goroutine.
package encode

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/enum"
	"github.com/lca-stream/lca-stream/internal/flatipc"
	"github.com/lca-stream/lca-stream/internal/nested"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// OutputConfig says what an output message holds.
type OutputConfig struct {
	Format      Format // default FormatArrow
	Column      string // name of the whitened column, and prefix of the others; default "lca"
	Layout      Layout // default LayoutVector
	Score       bool   // add the column lca_score: −log p(x), nats
	P           bool   // add the column lca_p: how often rows like the neighbours have a score at least as high
	Recent      bool   // add the columns lca_recent_score and lca_recent_p, of the last rows of the row's series
	Episode     bool   // add the column lca_episode, the id of the episode that is open with the row
	Why         int    // number of features that the column lca_why names, at most; 0: no such column
	Imputed     bool   // add the column lca_imputed: the number of features that were missing and have been filled
	Models      bool   // add the columns lca_model and lca_version: the model of each row
	Passthrough bool   // begin with the columns of the input, untouched
}

// OutputError is an input that has no place for the output columns.
type OutputError struct {
	Code   string // CodeOutputColumnExists
	Column string // the column that is there already
}

// Error names the column and both ways out.
func (e *OutputError) Error() string {
	return fmt.Sprintf("pipeline: the input already has a column %q: set transform.column to another name, or transform.passthrough to false", e.Column)
}

// Output encodes output messages as Arrow, whatever the Format: one Arrow IPC stream each, with one batch, an uncompressed
// body and the end-of-stream mark. It keeps what depends on the schema alone from one message to
// the next, and is for one goroutine.
//
// Compression is left to Kafka, which compresses whole record batches: arrow/go v15 sets up an
// encoder per message, at several times the cost of the rest.
type Output struct {
	config OutputConfig

	in, Out *arrow.Schema // the input schema seen last, and the output schema that it becomes
	k       int           // coordinates per row of the message seen last
	dicts   bool          // out holds dictionaries, which each message must carry itself
	writer  *ipc.Writer
	stream  payloads

	zeros    []float32    // numbers of a message without a model
	unfilled []int16      // of a message without a row that was filled
	columns  []float32    // y transposed, for LayoutColumns
	valid    []byte       // validity bitmap of the current message
	none     []byte       // validity bitmap of a column without values
	why      whyColumn    // lca_why of the current message
	models   modelColumns // lca_model and lca_version of the current message
	episodes texts        // lca_episode of the current message

	noEpisodes []byte        // zeros
	arrays     []arrow.Array // columns of the current message

	layouts flatipc.Layouts // of messages of the schema seen last
	parts   [][]byte        // the buffers of the current message
}

// NewOutput returns an Output for c.
func NewOutput(c OutputConfig) *Output {
	return &Output{config: c.withDefaults()}
}

func (c OutputConfig) withDefaults() OutputConfig {
	c.Column = cmp.Or(c.Column, "lca")
	return c
}

// Append appends to dst the message for rec, whose rows have become w. A row that has a reason in w.Invalid becomes
// null; w.Y then holds zeros in that row on return.
//
// On error dst comes back as it was. An *OutputError concerns the schema, any other the record.
// Nothing of rec or w is kept.
func (o *Output) Append(dst []byte, rec arrow.Record, w *Whitened) ([]byte, error) {
	value, rest, err := o.Encode(dst, rec, w)
	for _, piece := range rest {
		value = append(value, piece...)
	}
	return value, err
}

// Encode is Append without copying what is large: rest is the pieces that follow. The first of them and every second
// one after it are buffers of rec and of w, and must not be changed; the others follow value in dst.
func (o *Output) Encode(dst []byte, rec arrow.Record, w *Whitened) (value []byte, rest [][]byte, err error) {
	n := int(rec.NumRows())
	w.check(n, &o.config)
	if err := o.prepare(rec.Schema(), w.K); err != nil {
		return dst, nil, err
	}
	plain := o.plain(rec, w)
	if plain {
		if l := o.layouts.Fit(o.parts); l != nil {
			return l.Append(dst, o.parts), nil, nil
		}
	}
	o.arrays = o.arrays[:0]
	if o.config.Passthrough {
		o.arrays = append(o.arrays, rec.Columns()...)
	}
	if w.Y == nil {
		o.zeros = slices.Grow(o.zeros[:0], n*w.K)[:n*w.K] // never written to
		o.appendLCA(&Whitened{K: w.K, Y: o.zeros, Score: o.zeros[:n], Models: w.Models}, o.nothing(n), n)
	} else {
		valid, nulls := o.markValid(w)
		o.appendLCA(w, valid, nulls)
	}
	value, rest, err = o.write(dst, array.NewRecord(o.Out, o.arrays, int64(n)))
	if err == nil && plain && rest == nil {
		o.layouts.Learn(flatipc.Written(value[len(dst):], o.stream.body-len(dst), o.parts))
	}
	return value, rest, err
}

func allValid(invalid []minibatch.Reason) bool {
	for _, r := range invalid {
		if r != minibatch.ReasonNone {
			return false
		}
	}
	return true
}

// Check returns an *OutputError if messages of a schema have no place for k coordinates and what goes with them.
func (o *Output) Check(in *arrow.Schema, k int) error { return o.prepare(in, k) }

// prepare makes the output schema, unless the last one serves.
func (o *Output) prepare(in *arrow.Schema, k int) error {
	if o.Out != nil && o.k == k && (o.in == in || in.Equal(o.in) && in.Metadata().Equal(o.in.Metadata())) {
		return nil
	}
	var fields []arrow.Field
	var metadata *arrow.Metadata
	if o.config.Passthrough {
		fields = in.Fields()
		if m := in.Metadata(); !nested.IsOpen(in) { // an open schema has no metadata of its own
			metadata = &m
		}
	}
	ours := o.config.fields(k)
	if err := o.config.place(in, ours); err != nil {
		return err
	}
	fields = append(fields, ours...)
	o.in, o.k, o.writer = in, k, nil
	o.layouts.Forget()
	o.Out = arrow.NewSchema(fields, metadata)
	o.dicts = false
	for _, f := range fields {
		o.dicts = o.dicts || hasDictionary(f.Type)
	}
	return nil
}

// place returns an *OutputError if messages of a schema have no place for our columns.
func (c *OutputConfig) place(in *arrow.Schema, ours []arrow.Field) error {
	for _, f := range ours {
		if c.Passthrough && in.HasField(f.Name) {
			return &OutputError{Code: reject.CodeOutputColumnExists, Column: f.Name}
		}
	}
	return nil
}

// fields are the columns that a message gains.
func (c *OutputConfig) fields(k int) []arrow.Field {
	var fields []arrow.Field
	switch c.Layout {
	case LayoutVector:
		fields = append(fields, arrow.Field{Name: c.Column, Type: arrow.FixedSizeListOfNonNullable(int32(k), arrow.PrimitiveTypes.Float32), Nullable: true})
	case LayoutColumns:
		for j := range k {
			fields = append(fields, arrow.Field{Name: fmt.Sprintf("%s_%d", c.Column, j), Type: arrow.PrimitiveTypes.Float32, Nullable: true})
		}
	}
	if c.Score {
		fields = append(fields, arrow.Field{Name: c.Column + "_score", Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	}
	if c.P {
		fields = append(fields, arrow.Field{Name: c.Column + "_p", Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	}
	if c.Recent {
		fields = append(fields,
			arrow.Field{Name: c.Column + "_recent_score", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
			arrow.Field{Name: c.Column + "_recent_p", Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	}
	if c.Episode {
		fields = append(fields, arrow.Field{Name: c.Column + "_episode", Type: arrow.BinaryTypes.String, Nullable: true})
	}
	if c.Why > 0 {
		fields = append(fields, arrow.Field{Name: c.Column + "_why", Type: whyType, Nullable: true})
	}
	if c.Imputed {
		fields = append(fields, arrow.Field{Name: c.Column + "_imputed", Type: arrow.PrimitiveTypes.Int16, Nullable: true})
	}
	if c.Models {
		fields = append(fields,
			arrow.Field{Name: c.Column + "_model", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: c.Column + "_version", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	return fields
}

// columnTypes are the types of our columns in the languages of schemas: of Avro, where ENTRY is the name of a record, of Kafka Connect and of JSON Schema.
var columnTypes = map[arrow.Type]struct{ avro, connect, json string }{
	arrow.FLOAT32: {`"float"`, `"type":"float","optional":true`, `{"type":["number","null"]}`},
	arrow.INT16:   {`"int"`, `"type":"int16","optional":true`, `{"type":["integer","null"]}`},
	arrow.INT64:   {`"long"`, `"type":"int64","optional":true`, `{"type":["integer","null"]}`},
	arrow.STRING:  {`"string"`, `"type":"string","optional":true`, `{"type":["string","null"]}`},
	arrow.FIXED_SIZE_LIST: {
		`{"type":"array","items":"float"}`,
		`"type":"array","items":{"type":"float","optional":true},"optional":true`,
		`{"type":["array","null"],"items":{"type":"number"}}`,
	},
	arrow.LIST: { // whyType
		`{"type":"array","items":{"type":"record","name":ENTRY,"fields":[{"name":"feature","type":"string"},{"name":"nats","type":"float"}]}}`,
		`"type":"array","items":{"type":"struct","fields":[{"type":"string","optional":true,"field":"feature"},{"type":"float","optional":true,"field":"nats"}],"optional":true},"optional":true`,
		`{"type":["array","null"],"items":{"type":"object","properties":{"feature":{"type":"string"},"nats":{"type":"number"}}}}`,
	},
}

// hasDictionary looks for dictionaries at any depth.
func hasDictionary(t arrow.DataType) bool {
	if t.ID() == arrow.DICTIONARY {
		return true
	}
	if e, ok := t.(arrow.ExtensionType); ok {
		return hasDictionary(e.StorageType())
	}
	nested, ok := t.(arrow.NestedType)
	if !ok {
		return false
	}
	for _, f := range nested.Fields() {
		if hasDictionary(f.Type) {
			return true
		}
	}
	return false
}

// markValid makes the validity bitmap, zeroes the rows that are null, and counts them. It is nil if there are none.
func (o *Output) markValid(w *Whitened) (valid *memory.Buffer, nulls int) {
	if allValid(w.Invalid) {
		return nil, 0
	}
	size := bitmapBytes(len(w.Invalid))
	o.valid = slices.Grow(o.valid[:0], size)[:size]
	clear(o.valid)
	for i, reason := range w.Invalid {
		if reason == minibatch.ReasonNone {
			o.valid[i/8] |= 1 << (i % 8)
			continue
		}
		clear(w.Y[i*w.K : (i+1)*w.K])
		nulls++
	}
	return memory.NewBufferBytes(o.valid), nulls
}

// nothing is the validity bitmap of n nulls.
func (o *Output) nothing(n int) *memory.Buffer {
	o.none = slices.Grow(o.none[:0], bitmapBytes(n))[:bitmapBytes(n)] // never written to
	return memory.NewBufferBytes(o.none)
}

// appendLCA makes our columns as views of w, whose null rows are not valid.
func (o *Output) appendLCA(w *Whitened, valid *memory.Buffer, nulls int) {
	n, k := len(w.Y)/w.K, w.K
	switch o.config.Layout {
	case LayoutVector:
		child := floats(nil, w.Y, 0)
		typ := arrow.FixedSizeListOfNonNullable(int32(k), arrow.PrimitiveTypes.Float32)
		o.arrays = append(o.arrays, array.NewFixedSizeListData(array.NewData(typ, n, []*memory.Buffer{valid}, []arrow.ArrayData{child}, nulls, 0)))
	case LayoutColumns:
		o.columns = slices.Grow(o.columns[:0], len(w.Y))[:len(w.Y)]
		transpose(o.columns, w.Y, n, k)
		for j := range k {
			o.arrays = append(o.arrays, array.NewFloat32Data(floats(valid, o.columns[j*n:(j+1)*n], nulls)))
		}
	}
	if o.config.Score {
		o.arrays = append(o.arrays, array.NewFloat32Data(floats(valid, w.Score, nulls)))
	}
	if o.config.P {
		o.appendFloats(w.P, n, valid, nulls)
	}
	if o.config.Recent {
		valid, nulls := valid, nulls
		if w.NoRecent != nil {
			valid, nulls = validWhere(nil, 0, n, true, func(i int) bool { return !w.NoRecent[i] })
		}
		o.appendFloats(w.Recent, n, valid, nulls)
		valid, nulls = validWhere(valid, nulls, n, hasNaN(w.RecentP), func(i int) bool { return w.RecentP[i] == w.RecentP[i] })
		o.appendFloats(w.RecentP, n, valid, nulls)
	}
	if o.config.Episode {
		ids, _, _ := o.episodes.of(n, func(i int) (string, bool) {
			if w.Episode == nil || w.Episode[i] == "" {
				return "", false
			}
			return w.Episode[i], true
		})
		o.arrays = append(o.arrays, ids)
	}
	if o.config.Why > 0 {
		o.arrays = append(o.arrays, o.why.of(w, n, valid, nulls))
	}
	if o.config.Imputed {
		counts := memory.NewBufferBytes(arrow.Int16Traits.CastToBytes(o.imputed(w, n)))
		o.arrays = append(o.arrays, array.NewInt16Data(array.NewData(arrow.PrimitiveTypes.Int16, n, []*memory.Buffer{valid, counts}, nil, nulls, 0)))
	}
	if o.config.Models {
		o.arrays = o.models.append(o.arrays, w.Models, n)
	}
}

func hasNaN(values []float32) bool {
	return slices.ContainsFunc(values, func(v float32) bool { return v != v })
}

// validWhere is the part of a validity bitmap of n rows where is holds; some says that it does not hold for some of them.
func validWhere(valid *memory.Buffer, nulls int, n int, some bool, is func(i int) bool) (*memory.Buffer, int) {
	if !some {
		return valid, nulls
	}
	bits := make([]byte, bitmapBytes(n))
	nulls = 0
	for i := range n {
		if is(i) && (valid == nil || valid.Bytes()[i/8]&(1<<(i%8)) != 0) {
			bits[i/8] |= 1 << (i % 8)
		} else {
			nulls++
		}
	}
	return memory.NewBufferBytes(bits), nulls
}

// appendFloats makes a column of values, or of nulls where there are none.
func (o *Output) appendFloats(values []float32, n int, valid *memory.Buffer, nulls int) {
	if values == nil {
		o.zeros = slices.Grow(o.zeros[:0], n)[:n]
		values, valid, nulls = o.zeros, o.nothing(n), n
	}
	o.arrays = append(o.arrays, array.NewFloat32Data(floats(valid, values, nulls)))
}

// imputed returns how many features of each of n rows were filled.
func (o *Output) imputed(w *Whitened, n int) []int16 {
	if w.Imputed != nil {
		return w.Imputed
	}
	o.unfilled = slices.Grow(o.unfilled[:0], n)[:n] // never written to
	return o.unfilled
}

// floats is a column of values without a copy.
func floats(valid *memory.Buffer, values []float32, nulls int) *array.Data {
	buffers := []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Float32Traits.CastToBytes(values))}
	return array.NewData(arrow.PrimitiveTypes.Float32, len(values), buffers, nil, nulls, 0)
}

// transpose writes the k columns of the n rows y one after the other.
func transpose(dst, y []float32, n, k int) {
	for i := range n {
		for j, v := range y[i*k : (i+1)*k] {
			dst[j*n+i] = v
		}
	}
}

func bitmapBytes(n int) int { return (n + 7) / 8 }

// Keys of JSON come and go, and ten that do so have a thousand sets. A schema for each set would be a version of the subject for each. So
// a message has the columns of all messages before it, and those that it lacks are null.

// MostColumns bounds the columns, and with them the versions of a subject, each of which has more than the one before.
const MostColumns = 1000

// columnsSoFar are the columns that messages have had. All outputs of a process share them.
type columnsSoFar struct {
	mu     sync.Mutex
	schema *arrow.Schema // nil: there was no message
}

// with returns the columns so far, those of a message among them. One whose type has changed has the type of the message.
func (c *columnsSoFar) with(in *arrow.Schema) (*arrow.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schema == in {
		return in, nil
	}
	if c.schema == nil {
		c.schema = arrow.NewSchema(nil, nil)
	}
	var fields []arrow.Field // nil: nothing is new
	for _, f := range in.Fields() {
		at := c.schema.FieldIndices(f.Name)
		if len(at) > 0 && arrow.TypeEqual(c.schema.Field(at[0]).Type, f.Type) {
			continue
		}
		if fields == nil {
			fields = slices.Clone(c.schema.Fields())
		}
		if len(at) > 0 {
			fields[at[0]] = f
		} else {
			fields = append(fields, f)
		}
	}
	if len(fields) > MostColumns {
		return nil, fmt.Errorf("%w: the messages have had more than %d keys, which would all be fields; set transform.format to json", errNotAvro, MostColumns)
	}
	switch {
	case fields != nil && slices.EqualFunc(fields, in.Fields(), arrow.Field.Equal):
		c.schema = in
	case fields != nil:
		c.schema = arrow.NewSchema(fields, nil)
	}
	return c.schema, nil
}

// oddFeature returns a feature of a row of JSON whose column is no number, as where it is text: in the schema of all rows, its type would take the place of the numbers'. nil: there is none.
func oddFeature(row *arrow.Schema, features []string) *arrow.Field {
	columns := minibatch.ColumnsOf(features)
	lists := !slices.Equal(columns, features)
	for i := range row.NumFields() {
		f := row.Field(i)
		odd := lists
		switch f.Type.(type) {
		case *arrow.Float64Type, *arrow.Int64Type, *arrow.Uint64Type, *arrow.BooleanType:
		case *arrow.FixedSizeListType, *arrow.ListType:
			odd = !lists
		default:
			odd = true
		}
		if odd && slices.Contains(columns, f.Name) {
			return &f
		}
	}
	return nil
}

// paddedRow is the row of a message with further columns, which are null.
func paddedRow(row arrow.Record, schema *arrow.Schema) arrow.Record {
	if own := row.Schema(); own == schema || own.Equal(schema) {
		return row
	}
	columns := make([]arrow.Array, schema.NumFields())
	for i := range columns {
		f := schema.Field(i)
		if at := row.Schema().FieldIndices(f.Name); len(at) > 0 {
			columns[i] = row.Column(at[0])
		} else {
			columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, 1)
		}
	}
	return array.NewRecord(schema, columns, 1)
}

// texts is memory for a column of texts, which the next message uses again.
type texts struct {
	ends  []int32 // where the text of each row begins, and the end of the last
	text  []byte  // all of them
	valid []byte  // validity bitmap
}

// of makes the column of n rows, of which text returns the one of a row; false: it is null. It also returns the validity bitmap, nil where nothing is null,
// and the number of nulls.
func (c *texts) of(n int, text func(i int) (string, bool)) (column arrow.Array, valid *memory.Buffer, nulls int) {
	size := bitmapBytes(n)
	c.ends, c.text, c.valid = slices.Grow(c.ends[:0], n+1), c.text[:0], slices.Grow(c.valid[:0], size)[:size]
	clear(c.valid)
	nulls = n
	for i := range n {
		c.ends = append(c.ends, int32(len(c.text)))
		if one, ok := text(i); ok {
			c.text = append(c.text, one...)
			c.valid[i/8] |= 1 << (i % 8)
			nulls--
		}
	}
	c.ends = append(c.ends, int32(len(c.text)))
	if nulls > 0 {
		valid = memory.NewBufferBytes(c.valid)
	}
	buffers := []*memory.Buffer{valid, integers(c.ends), memory.NewBufferBytes(c.text)}
	return array.NewStringData(array.NewData(arrow.BinaryTypes.String, n, buffers, nil, nulls, 0)), valid, nulls
}

// modelColumns is memory for the columns lca_model and lca_version, which the next message uses again.
type modelColumns struct {
	ids      texts
	versions []int64
}

// append adds the columns of n rows. Rows without a model are null in both.
func (c *modelColumns) append(arrays []arrow.Array, models []Origin, n int) []arrow.Array {
	c.versions = slices.Grow(c.versions[:0], n)[:n]
	clear(c.versions)
	ids, valid, nulls := c.ids.of(n, func(i int) (string, bool) {
		if models == nil || models[i].Version == 0 {
			return "", false
		}
		c.versions[i] = int64(models[i].Version)
		return models[i].ID, true
	})
	versions := []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(c.versions))}
	return append(arrays, ids, array.NewInt64Data(array.NewData(arrow.PrimitiveTypes.Int64, n, versions, nil, nulls, 0)))
}

// whyItem is an entry of lca_why: a feature, and how many nats the score of the row would fall by if that feature had its
// best other value.
var whyItem = arrow.StructOf(
	arrow.Field{Name: "feature", Type: arrow.BinaryTypes.String},
	arrow.Field{Name: "nats", Type: arrow.PrimitiveTypes.Float32},
)

var whyType = arrow.ListOfNonNullable(whyItem)

// whyColumn is memory for the column lca_why, which the next message uses again.
type whyColumn struct {
	lists []int32 // where the entries of each row begin, and the end of the last
	names []int32 // where the name of each entry begins, and the end of the last
	text  []byte  // all names
	nats  []float32
}

// of makes the column of n rows. Rows that are null have no entries.
func (c *whyColumn) of(w *Whitened, n int, valid *memory.Buffer, nulls int) arrow.Array {
	c.lists, c.names, c.text, c.nats = slices.Grow(c.lists[:0], n+1), slices.Grow(c.names[:0], len(w.Why)+1), c.text[:0], slices.Grow(c.nats[:0], len(w.Why))
	each := 0
	if n > 0 {
		each = len(w.Why) / n
	}
	for i := range n {
		c.lists = append(c.lists, int32(len(c.nats)))
		if each == 0 || w.Invalid[i] != minibatch.ReasonNone {
			continue
		}
		for _, gain := range w.Why[i*each : (i+1)*each] {
			c.names = append(c.names, int32(len(c.text)))
			c.text = append(c.text, w.Features[gain.Column]...)
			c.nats = append(c.nats, float32(min(gain.Nats, math.MaxFloat32)))
		}
	}
	c.lists, c.names = append(c.lists, int32(len(c.nats))), append(c.names, int32(len(c.text)))
	m := len(c.nats)
	features := array.NewData(arrow.BinaryTypes.String, m, []*memory.Buffer{nil, integers(c.names), memory.NewBufferBytes(c.text)}, nil, 0, 0)
	items := array.NewData(whyItem, m, []*memory.Buffer{nil}, []arrow.ArrayData{features, floats(nil, c.nats, 0)}, 0, 0)
	return array.NewListData(array.NewData(whyType, n, []*memory.Buffer{valid, integers(c.lists)}, []arrow.ArrayData{items}, nulls, 0))
}

// integers is a buffer of values without a copy.
func integers(values []int32) *memory.Buffer {
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(values))
}

// Layout is how the whitened rows stand in an output message.
type Layout uint8

var layouts = enum.Names[Layout]{LayoutVector: "vector", LayoutColumns: "columns"}

// Check refuses what is no Layout.
func (l Layout) Check() error { return layouts.Check(l, "pipeline: unknown layout") }

// String returns the name that the configuration uses.
func (l Layout) String() string { return layouts.Of(l) }

// Layouts returns every Layout.
func Layouts() []Layout { return layouts.All() }

// The layouts; the zero value is LayoutVector.
const (
	LayoutVector  Layout = iota // one column lca: FixedSizeList<float32, k>
	LayoutColumns               // k columns lca_0 … lca_{k−1}: float32
)

// MostWhitened bounds the bytes of all that whitening adds to one message: our columns. It is more than
// what 64 MiB of float32 whiten to. Columns of narrower numbers, or of nothing but nulls, would come to gigabytes.
const MostWhitened = 128 << 20

// Refused gives an error of a message the code under which the message is set aside.
func Refused(m *source.Message, err error) *source.RecordError {
	return reject.Bad(m, CodeOf(err), err)
}

// CodeOf returns the code under which a message with this error is set aside.
func CodeOf(err error) string {
	var feature *minibatch.FeatureError
	var column *modelkey.ColumnError
	var output *OutputError
	switch {
	case errors.As(err, &feature):
		return feature.Code
	case errors.As(err, &column):
		return column.Code
	case errors.As(err, &output):
		return output.Code
	case errors.Is(err, errNotAvro):
		return reject.CodeNotAvro
	case errors.Is(err, errTooLong):
		return reject.CodeOutputTooLarge
	}
	return reject.CodeRefused
}
