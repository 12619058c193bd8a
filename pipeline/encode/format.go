package encode

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/internal/enum"
	"github.com/lca-stream/lca-stream/internal/flatipc"
	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Format is what the values of output messages are.
type Format uint8

// The formats; the zero value is FormatArrow.
const (
	FormatArrow Format = iota // an Arrow IPC stream
	FormatJSON                // JSON text: that of the input with our keys added, or an array of objects
	FormatInput               // as the message came
	FormatAvro                // Avro by a schema in a registry: that of the input with our fields, or one made of the columns of what came otherwise

	FormatJSONSchema // JSON behind the prefix that names its schema
)

var formats = enum.Names[Format]{FormatArrow: "arrow", FormatJSON: "json", FormatInput: "input", FormatAvro: "avro"}

// Check refuses what is no Format that can be chosen.
func (f Format) Check() error { return formats.Check(f, "pipeline: unknown transform.format") }

// String returns the name that the configuration uses.
func (f Format) String() string { return formats.Of(f) }

// Formats returns every Format.
func Formats() []Format { return formats.All() }

// MediaTypes are the headers that say what a value is.
var MediaTypes = [...]source.Header{
	FormatArrow: reject.Text(reject.ContentType, "application/vnd.apache.arrow.stream"),
	FormatJSON:  reject.Text(reject.ContentType, "application/json"),
	FormatAvro:  reject.Text(reject.ContentType, "application/avro"),
}

// Of returns the format of the output of a message; FormatInput where its own cannot be written.
func (f Format) Of(m *source.Message) Format {
	if f != FormatInput {
		return f
	}
	switch m.Format {
	case format.JSON:
		return FormatJSON
	case format.Avro:
		return FormatAvro
	case format.JSONSchema:
		return FormatJSONSchema
	case format.Protobuf:
		return FormatInput
	}
	return FormatArrow
}

// Copied returns the formats of which an output begins with the bytes of the input, so that of a record it needs no columns but those that
// are whitened.
func (f Format) Copied() []format.Format {
	switch f {
	case FormatInput:
		return []format.Format{format.JSON, format.JSONSchema, format.Avro}
	case FormatJSON:
		return []format.Format{format.JSON, format.JSONSchema}
	case FormatAvro:
		return []format.Format{format.Avro}
	default: // made of columns
		return nil
	}
}

// Copies reports whether an output of this format begins with the bytes of an input.
func (f Format) Copies(in format.Format) bool {
	return (f.Text() && (in == format.JSON || in == format.JSONSchema)) || f == FormatAvro && in == format.Avro
}

// Names returns the names that an output of up to k coordinates gives to our columns: an input must not have them.
func (c OutputConfig) Names(k int) (names []string) {
	c = c.withDefaults()
	for _, f := range c.fields(k) {
		names = append(names, f.Name)
	}
	return names
}

// Text reports whether values of a format are JSON.
func (f Format) Text() bool { return f == FormatJSON || f == FormatJSONSchema }

// KeepsType reports whether the output of a message has the content type of its input, because it names its schema in the same way.
func (f Format) KeepsType(m *source.Message) bool {
	as := f.Of(m)
	return as == FormatAvro && m.Format == format.Avro || as == FormatJSONSchema
}

// Whitened is what N rows have become.
type Whitened struct {
	K        int                // number of coordinates per row
	Y        []float32          // N×K coordinates; nil: there is no model, so that everything is null
	Score    []float32          // N times −log p(x); read where OutputConfig.Score is set
	P        []float32          // N probabilities of a score at least as high; nil: the model does not say, so that they are null
	Recent   []float32          // N scores of the last rows of the row's series; nil: the model has none, so that they are null
	RecentP  []float32          // their probabilities, nil with them; NaN, which is written as null: too little is known
	NoRecent []bool             // N: neither of these is known, and both are null; nil: they are for all rows that are not invalid. The numbers are 0
	Episode  []string           // N ids of the episodes that are open with the rows; "": none. nil: none with any row
	Why      []lca.Gain         // as many gains for each row, the largest first; read where OutputConfig.Why is not 0
	Features []string           // names of the columns in Why
	Imputed  []int16            // how many features of each row were filled; nil: none
	Invalid  []minibatch.Reason // why a row is null, except for what NoRecent says is known; read where there is a model
	Models   []Origin           // the model of each row; nil: none has one. Read where OutputConfig.Models is set
}

// Origin is the model that a row was whitened with; the zero value is none.
type Origin struct {
	ID      string
	Version uint64
}

// Added is at most how many bytes our columns take per row, with the gains that lca_why is made of.
func (c *OutputConfig) Added(features []string) int64 {
	const float32Bytes, int16Bytes, gainBytes, ends, usualID = 4, 2, 16, 2 * 4, 40
	size := float32Bytes * len(features)
	if c.Scores() {
		size += float32Bytes
	}
	if c.P {
		size += float32Bytes
	}
	if c.Recent {
		size += 2 * float32Bytes
	}
	if c.Episode {
		size += usualID + ends
	}
	if c.Imputed {
		size += int16Bytes
	}
	if c.Models {
		size += usualID + ends
	}
	if c.Why > 0 {
		size += min(c.Why, len(features)) * (gainBytes + ends + float32Bytes + longest(features))
	}
	return int64(size)
}

// AddedText is at most how many bytes our keys take per row of JSON, apart from names that have to be escaped.
func (c *OutputConfig) AddedText(features []string) int64 {
	const key, item, number = 16, len(`{"feature":"","nats":},`), jsontext.MostFloat32 + 1
	size := number * len(features)
	if c.Layout == LayoutColumns {
		size += (key + len(c.Column)) * len(features)
	}
	if c.Why > 0 {
		size += min(c.Why, len(features)) * (item + number + longest(features))
	}
	if c.Models {
		size += 2*(key+len(c.Column)) + 40 + number // an id as a rule
	}
	if c.Episode {
		size += key + len(c.Column) + 40
	}
	const others = 7 // lca, lca_score, lca_p, lca_recent_score, lca_recent_p, lca_why and lca_imputed
	return int64(size + others*(key+len(c.Column)+number))
}

// longest is the length of the longest name.
func longest(names []string) (n int) {
	for _, name := range names {
		n = max(n, len(name))
	}
	return n
}

// Scores reports whether the columns need scores.
func (c *OutputConfig) Scores() bool { return c.Score || c.P }

// Rows is some of the rows.
func (w *Whitened) Rows(first, last int) Whitened {
	part := Whitened{K: w.K, Features: w.Features, Invalid: w.Invalid[first:last]}
	if w.Y != nil {
		part.Y = w.Y[first*w.K : last*w.K]
	}
	if w.Score != nil {
		part.Score = w.Score[first:last]
	}
	if w.P != nil {
		part.P = w.P[first:last]
	}
	if w.Recent != nil {
		part.Recent, part.RecentP = w.Recent[first:last], w.RecentP[first:last]
	}
	if w.NoRecent != nil {
		part.NoRecent = w.NoRecent[first:last]
	}
	if w.Episode != nil {
		part.Episode = w.Episode[first:last]
	}
	if w.Imputed != nil {
		part.Imputed = w.Imputed[first:last]
	}
	if w.Models != nil {
		part.Models = w.Models[first:last]
	}
	if w.Why != nil {
		each := len(w.Why) / len(w.Invalid)
		part.Why = w.Why[first*each : last*each]
	}
	return part
}

// check panics where the slices are not those of n rows.
func (w *Whitened) check(n int, c *OutputConfig) {
	switch {
	case w.K < 1:
		panic(fmt.Sprintf("pipeline: output of %d coordinates", w.K))
	case w.Models != nil && len(w.Models) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d models", n, len(w.Models)))
	case w.Y == nil:
	case len(w.Y) != n*w.K || len(w.Invalid) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows of %d has %d numbers and %d reasons", n, w.K, len(w.Y), len(w.Invalid)))
	case c.Score && len(w.Score) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d scores", n, len(w.Score)))
	case c.P && w.P != nil && len(w.P) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d probabilities", n, len(w.P)))
	case c.Recent && w.Recent != nil && (len(w.Recent) != n || len(w.RecentP) != n || w.NoRecent != nil && len(w.NoRecent) != n):
		panic(fmt.Sprintf("pipeline: output of %d rows has %d recent scores and %d probabilities of them", n, len(w.Recent), len(w.RecentP)))
	case w.Episode != nil && len(w.Episode) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d episodes", n, len(w.Episode)))
	case w.Imputed != nil && len(w.Imputed) != n:
		panic(fmt.Sprintf("pipeline: output of %d rows says of %d how much was filled", n, len(w.Imputed)))
	case c.Why > 0 && n > 0 && len(w.Why)%n != 0:
		panic(fmt.Sprintf("pipeline: output of %d rows has %d gains", n, len(w.Why)))
	}
}

// LeastPieces is how many pieces a message has: what comes before the numbers, x, y and what follows.
const LeastPieces = 4

// Pieces is Append without a copy: it appends to dst the pieces of the message, which are buffers of
// rec, of w, and of this Output, and must not be changed. ok is false where the
// layout of the message is not known: then it takes Append.
func (o *Output) Pieces(dst [][]byte, rec arrow.Record, w *Whitened) (pieces [][]byte, ok bool) {
	// Columns are made of y in a buffer that the next message uses again.
	if o.layouts.Empty() || o.config.Layout != LayoutVector {
		return dst, false
	}
	w.check(int(rec.NumRows()), &o.config)
	if o.prepare(rec.Schema(), w.K) != nil || !o.plain(rec, w) {
		return dst, false
	}
	l := o.layouts.Fit(o.parts)
	if l == nil {
		return dst, false
	}
	return l.Pieces(dst, o.parts), true
}

// bitmapOfNulls is what the Arrow library fills the bitmap of a column up to, to a multiple of it, if all of its values are null; others it writes as they are.
const bitmapOfNulls = 64

// plain collects the buffers of a message in the order of the format. It is false for a message that is not flat.
func (o *Output) plain(rec arrow.Record, w *Whitened) bool {
	if w.Y == nil || o.config.P && w.P == nil || o.config.Recent && (w.Recent == nil || w.NoRecent != nil || hasNaN(w.RecentP)) || o.config.Why > 0 || o.config.Models || w.Episode != nil || !allValid(w.Invalid) {
		return false
	}
	o.parts = o.parts[:0]
	if o.config.Passthrough {
		var ok bool
		if o.parts, ok = flatipc.Buffers(o.parts, rec); !ok {
			return false
		}
	}
	switch o.config.Layout {
	case LayoutVector:
		o.parts = append(o.parts, nil, nil, arrow.Float32Traits.CastToBytes(w.Y))
	case LayoutColumns:
		n := len(w.Y) / w.K
		o.columns = slices.Grow(o.columns[:0], len(w.Y))[:len(w.Y)]
		transpose(o.columns, w.Y, n, w.K)
		for j := range w.K {
			o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(o.columns[j*n:(j+1)*n]))
		}
	}
	if o.config.Score {
		o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(w.Score))
	}
	if o.config.P {
		o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(w.P))
	}
	if o.config.Recent {
		o.parts = append(o.parts, nil, arrow.Float32Traits.CastToBytes(w.Recent), nil, arrow.Float32Traits.CastToBytes(w.RecentP))
	}
	if o.config.Episode { // all rows are null: no bit is set, and no text has a byte
		n := int(rec.NumRows())
		bits, ends := (bitmapBytes(n)+bitmapOfNulls-1)/bitmapOfNulls*bitmapOfNulls, arrow.Int32SizeBytes*(n+1)
		if len(o.noEpisodes) < max(bits, ends) {
			o.noEpisodes = make([]byte, max(bits, ends)) // never written to
		}
		o.parts = append(o.parts, o.noEpisodes[:bits], o.noEpisodes[:ends], nil)
	}
	if o.config.Imputed {
		o.parts = append(o.parts, nil, arrow.Int16Traits.CastToBytes(o.imputed(w, int(rec.NumRows()))))
	}
	return true
}

// write encodes the record. The writer of the last message has the schema's bytes already; it
// also remembers dictionaries in order not to write them twice, so that a schema with
// dictionaries needs a new one each time.
func (o *Output) write(dst []byte, rec arrow.Record) (value []byte, rest [][]byte, err error) {
	if o.writer == nil || o.dicts {
		o.stream.schema = o.stream.schema[:0]
		o.writer = ipc.NewWriterWithPayloadWriter(&o.stream, ipc.WithSchema(o.Out))
	}
	defer rec.Release()
	o.stream.dst, o.stream.apart = append(dst, o.stream.schema...), nil
	err = o.writer.Write(rec)
	if err != nil {
		o.writer = nil // it may have stopped anywhere
		o.stream.dst, o.stream.apart = nil, nil
		return dst, nil, fmt.Errorf("pipeline: encode output of %d rows: %w", rec.NumRows(), err)
	}
	value, rest = o.stream.pieces(append(o.stream.dst, endOfStream...))
	if o.stream.dst = nil; rest != nil {
		o.valid, o.columns, o.why, o.models, o.episodes = nil, nil, whyColumn{}, modelColumns{}, texts{} // they may be among the pieces
	}
	return value, rest, nil
}

// Forget lets go of the last message's columns, which may be large.
func (o *Output) Forget() {
	clear(o.arrays[:cap(o.arrays)])
	clear(o.parts[:cap(o.parts)])
}

// Every message of a stream begins with a mark and its length; length 0 is the end.
const (
	continuation = "\xff\xff\xff\xff"
	endOfStream  = continuation + "\x00\x00\x00\x00"
)

const (
	// LeastApart is how large the body of a message is whose buffers are not copied, except for those of less than
	// leastPiece.
	LeastApart = 1 << 20
	leastPiece = 4 << 10
)

// payloads is where an ipc.Writer's messages go. The first of a new writer is the schema.
type payloads struct {
	dst    []byte
	schema []byte
	body   int     // where the last message's body begins
	apart  []apart // buffers that are not copied to dst, in order
	large  bool    // the current message is large
}

// apart is a buffer, and where it belongs in dst.
type apart struct {
	at     int
	buffer []byte
}

func (p *payloads) Start() error { return nil }

func (p *payloads) Close() error { return nil }

// WritePayload appends one message.
func (p *payloads) WritePayload(payload ipc.Payload) error {
	start := len(p.dst)
	meta := payload.Meta()
	defer meta.Release()
	padding := -meta.Len() & 7 // the body begins at a multiple of eight
	p.dst = append(p.dst, continuation...)
	p.dst = binary.LittleEndian.AppendUint32(p.dst, uint32(meta.Len()+padding))
	p.dst = append(p.dst, meta.Bytes()...)
	p.dst = append(p.dst, make([]byte, padding)...)
	p.body = len(p.dst)
	var body size
	if err := payload.SerializeBody(&body); err != nil {
		return err
	}
	p.large = body >= LeastApart
	if err := payload.SerializeBody(p); err != nil {
		return err
	}
	if len(p.schema) == 0 {
		p.schema = append(p.schema, p.dst[start:]...)
	}
	return nil
}

// Write appends bytes.
func (p *payloads) Write(b []byte) (int, error) {
	if p.large && len(b) >= leastPiece {
		p.apart = append(p.apart, apart{len(p.dst), b})
		return len(b), nil
	}
	p.dst = append(p.dst, b...)
	return len(b), nil
}

// pieces puts the buffers back into their places: what stands before the first, and the rest.
func (p *payloads) pieces(dst []byte) (value []byte, rest [][]byte) {
	if len(p.apart) == 0 {
		return dst, nil
	}
	for i, a := range p.apart {
		end := len(dst)
		if i+1 < len(p.apart) {
			end = p.apart[i+1].at
		}
		rest = append(rest, a.buffer, dst[a.at:end:end])
	}
	first := p.apart[0].at
	p.apart = nil
	return dst[:first:first], rest
}

// size counts bytes.
type size int

// Write takes none of them.
func (s *size) Write(b []byte) (int, error) {
	*s += size(len(b))
	return len(b), nil
}
