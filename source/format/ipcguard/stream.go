package ipcguard

import (
	"bytes"
	"io"
)

// MessageKind is what a message of a stream holds.
type MessageKind uint8

// The kinds of messages, numbered as in Message.fbs.
const (
	SchemaMessage     MessageKind = 1
	DictionaryMessage MessageKind = 2
	BatchMessage      MessageKind = 3
)

// Message is one checked message of a stream. It aliases the bytes it was read from.
type Message struct {
	Kind  MessageKind
	Frame []byte // length prefix and metadata
	Batch Batch  // of a dictionary or record batch
}

// Stream checks the messages of one stream, in order, and holds what they say about each other:
// the schema, the dictionaries so far, and how much of the limits is spent.
type Stream struct {
	limits   Limits
	schema   *Schema
	messages int
	rows     int64
	decoded  int64
	viewed   int64
	known    map[int64]bool // dictionaries that came
	pairs    *[]Pair        // see Note
}

// NewStream returns a Stream that has seen nothing.
func NewStream(l Limits) *Stream { return &Stream{limits: l, known: map[int64]bool{}} }

// Note makes s append the key-value metadata of the schema to dst, which then aliases the bytes.
func (s *Stream) Note(dst *[]Pair) { s.pairs = dst }

// Schema returns the schema; nil before the first message.
func (s *Stream) Schema() *Schema { return s.schema }

// Assume makes s go on after a schema message that passed a guard with the same limits before.
func (s *Stream) Assume(schema *Schema) { s.schema, s.messages = schema, 1 }

// Next checks the first message of b and returns it with the bytes after it. At the end-of-stream
// mark, and where b is empty, it returns io.EOF; every other error is an *Error.
func (s *Stream) Next(b []byte) (m Message, rest []byte, err error) {
	head, meta, fault := frame(b, s.limits)
	if fault != nil {
		return m, nil, fault
	}
	if meta == 0 {
		return m, b[head:], io.EOF
	}
	if s.messages++; s.messages > s.limits.Messages {
		return m, nil, errorf(TooLarge, "more than %d messages in one stream", s.limits.Messages)
	}
	m.Frame = b[: head+meta : head+meta]
	body := b[head+meta:]
	if fault = s.message(&m, b[head:head+meta:head+meta], &body); fault != nil {
		return Message{}, nil, fault
	}
	return m, body, nil
}

// First returns the length prefix and the metadata of the first message of b, unchecked except for
// their length; nil where b does not begin with a message. Equal frames of a schema message are
// equal schemas, which is what a cache needs.
func First(b []byte) []byte {
	head, meta, err := frame(b, MessageLimits())
	if err != nil || meta == 0 {
		return nil
	}
	return b[: head+meta : head+meta]
}

// frame returns the length of the prefix and of the metadata after it; both 0 where b is empty.
func frame(b []byte, l Limits) (head, meta int, err *Error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	if bytes.HasPrefix(b, []byte(fileMagic)) {
		return 0, 0, errorf(FileFormat, "this is an Arrow file (Feather); write the stream format instead: "+
			"pa.ipc.new_stream(sink, schema) in pyarrow, write_ipc_stream in polars")
	}
	if len(b) < 4 {
		return 0, 0, errorf(Truncated, "%d bytes where a message begins", len(b))
	}
	head, n := 4, le.Uint32(b) // before Arrow 0.15 there was no continuation mark
	if n == continuation {
		if len(b) < 8 {
			return 0, 0, errorf(Truncated, "%d bytes where a message begins", len(b))
		}
		head, n = 8, le.Uint32(b[4:])
	}
	switch {
	case n > 1<<31-1:
		return 0, 0, errorf(Invalid, "metadata length %d is negative; the bytes are no Arrow stream", int32(n))
	case int64(n) > l.Metadata && int64(n) <= int64(len(b)-head):
		return 0, 0, errorf(TooLarge, "metadata of %d bytes, at most %d are read", n, l.Metadata)
	case int64(n) > int64(len(b)-head):
		return 0, 0, errorf(Truncated, "metadata of %d bytes is announced, %d are left", n, len(b)-head)
	}
	return head, int(n), nil
}

// message walks a Message table: version 0, header tag 1, header 2, body length 3.
func (s *Stream) message(m *Message, meta []byte, body *[]byte) *Error {
	w := newWalk(meta)
	t := w.root()
	version, kind, header, length := t.i16(0, 0), t.u8(1, 0), t.sub(2), t.i64(3, 0)
	switch {
	case w.err != nil:
		return w.err
	case !header.present():
		return errorf(Invalid, "a message without a header")
	case version < 3: // V4
		return errorf(Unsupported, "metadata version V%d; write V4 or V5 (Arrow 0.8 or later)", int(version)+1)
	case version > 4: // V5
		return errorf(Unsupported, "metadata version V%d is newer than V5", int(version)+1)
	case length < 0:
		return errorf(Invalid, "body length %d", length)
	case length > int64(len(*body)):
		return errorf(Truncated, "a body of %d bytes is announced, %d are left", length, len(*body))
	}
	n := int(length)
	m.Kind, m.Batch.Body, *body = MessageKind(kind), (*body)[:n:n], (*body)[n:]
	m.Batch.V4 = version == 3
	switch m.Kind {
	case SchemaMessage:
		if n > 0 {
			return errorf(Invalid, "a schema with a body of %d bytes", n)
		}
		return s.schemaMessage(header)
	case DictionaryMessage:
		return s.dictionaryMessage(header, &m.Batch)
	case BatchMessage:
		return s.batchMessage(header, &m.Batch)
	}
	return errorf(Unsupported, "a message of type %d (a tensor?); send record batches", kind)
}

func (s *Stream) schemaMessage(t table) (err *Error) {
	if s.schema != nil {
		return errorf(Invalid, "a second schema in one stream; send one stream a message")
	}
	s.schema, err = checkSchema(t, s.limits, s.pairs)
	return err
}

// dictionaryMessage walks a DictionaryBatch: id 0, data 1, delta 2.
func (s *Stream) dictionaryMessage(t table, b *Batch) *Error {
	if s.schema == nil {
		return errorf(Invalid, "a dictionary before the schema")
	}
	id, data, delta := t.i64(0, 0), t.sub(1), t.u8(2, 0) != 0
	value := s.schema.values[id]
	switch {
	case t.w.err != nil:
		return t.w.err
	case !data.present():
		return errorf(Invalid, "dictionary %d without data", id)
	case value == nil:
		return errorf(Invalid, "dictionary %d belongs to no column", id)
	case delta && !s.known[id]:
		return errorf(Invalid, "dictionary %d begins with an addition to it", id)
	}
	b.Dict, b.Delta, s.known[id] = id, delta, true
	plain := *value
	plain.Dict = nil // the values themselves
	err := s.checkBatch(data, b, []Field{plain})
	if err != nil && err.Cause == Invalid {
		return errorf(Invalid, "dictionary %d is broken, or its values are a dictionary themselves, which Arrow IPC has no form for: send them as they are: %w", id, err.Err)
	}
	return err
}

func (s *Stream) batchMessage(t table, b *Batch) *Error {
	if s.schema == nil {
		return errorf(Invalid, "a record batch before the schema")
	}
	if f := s.missing(); f != nil {
		return errorf(Invalid, "dictionary %d of column %s did not come before the batch", f.Dict.ID, f.Path)
	}
	if err := s.checkBatch(t, b, s.schema.Fields); err != nil {
		return err
	}
	if s.rows += b.Rows; s.rows > s.limits.Rows {
		return errorf(TooLarge, "more than %d rows; send fewer a message", s.limits.Rows)
	}
	return nil
}

// missing returns a field whose dictionary did not come; the one with the lowest id, so that the
// same bytes give the same error.
func (s *Stream) missing() (first *Field) {
	for id, f := range s.schema.values {
		if !s.known[id] && (first == nil || id < first.Dict.ID) {
			first = f
		}
	}
	return first
}

// The bytes around the messages of an Arrow file:
//
//	"ARROW1" 00 00 | a whole stream | footer (a flatbuffer) | footer length i32 | "ARROW1"
const (
	// FileHead is where the stream within a file begins.
	FileHead = 8
	// FileTail is the length of what follows the footer.
	FileTail = 4 + len(fileMagic)
)

// Head is what the metadata of a message says of itself, for those who only skip through a file.
type Head struct {
	Kind MessageKind
	Body int64 // bytes after the metadata
	Rows int64 // of a record batch
}

// ReadHead reads the head of a message from its metadata, the length prefix left out. It checks
// that body and rows are not negative, and no more.
func ReadHead(meta []byte) (Head, error) {
	w := newWalk(meta)
	t := w.root()
	header := t.sub(2)
	h := Head{Kind: MessageKind(t.u8(1, 0)), Body: t.i64(3, 0)}
	if h.Kind == BatchMessage {
		h.Rows = header.i64(0, 0)
	}
	if w.err != nil {
		return Head{}, w.err
	}
	if h.Body < 0 || h.Rows < 0 {
		return Head{}, errorf(Invalid, "a message of %d rows and %d bytes", h.Rows, h.Body)
	}
	return h, nil
}

// Block is where a message of a file stands.
type Block struct {
	Offset int64
	Meta   int64 // bytes of length prefix, metadata and padding
	Body   int64
}

// Footer lists the messages of a file.
type Footer struct {
	Schema       *Schema
	Dictionaries []Block
	Batches      []Block
}

// FooterLength checks the last FileTail bytes of a file of the given size and returns the length
// of the footer before them.
func FooterLength(tail []byte, size int64) (int64, error) {
	if len(tail) != FileTail || !bytes.Equal(tail[4:], []byte(fileMagic)) {
		return 0, errorf(Truncated, "the file does not end with %s; it was not written to its end", fileMagic)
	}
	n := int64(int32(le.Uint32(tail)))
	if n <= 0 || n > size-int64(FileHead+FileTail) {
		return 0, errorf(Invalid, "a footer of %d bytes in a file of %d", n, size)
	}
	return n, nil
}

// CheckFooter walks a Footer table: version 0, schema 1, dictionaries 2, batches 3. Every block
// lies within the first size bytes of the file.
func CheckFooter(b []byte, size int64, l Limits) (*Footer, error) {
	w := newWalk(b)
	t := w.root()
	schema := t.sub(1)
	f := &Footer{Dictionaries: blocks(t, 2), Batches: blocks(t, 3)}
	if w.err != nil {
		return nil, w.err
	}
	if !schema.present() {
		return nil, errorf(Invalid, "a footer without a schema")
	}
	var err *Error
	if f.Schema, err = checkSchema(schema, l, nil); err != nil {
		return nil, err
	}
	for _, all := range [][]Block{f.Dictionaries, f.Batches} {
		for k, b := range all {
			if b.Offset < FileHead || b.Meta < 8 || b.Body < 0 || b.Offset > size || b.Meta > size-b.Offset || b.Body > size-b.Offset-b.Meta {
				return nil, errorf(Invalid, "block %d (%d and %d bytes at %d) lies outside the file of %d bytes", k, b.Meta, b.Body, b.Offset, size)
			}
		}
	}
	return f, nil
}

// blocks reads a vector of structs: offset i64, metadata length i32, padding, body length i64.
func blocks(t table, i int) []Block {
	start, n := t.vector(i, 24)
	out := make([]Block, n)
	for k := range out {
		p := t.w.b[start+24*k:]
		out[k] = Block{int64(le.Uint64(p)), int64(int32(le.Uint32(p[8:]))), int64(le.Uint64(p[16:]))}
	}
	return out
}

// Same reports whether two schemas have the same columns: names, types and order.
func (s *Schema) Same(o *Schema) bool {
	if len(s.Fields) != len(o.Fields) {
		return false
	}
	for i := range s.Fields {
		if a, b := &s.Fields[i], &o.Fields[i]; a.Path != b.Path || (a.Dict == nil) != (b.Dict == nil) || !sameType(a, b) {
			return false
		}
	}
	return true
}

// Renew forgets what of the limits is spent. A reader of a file, which holds one batch at a time,
// does so before each.
func (s *Stream) Renew() { s.messages, s.rows, s.decoded, s.viewed = 0, 0, 0, 0 }

// Forget forgets the dictionaries that came, for a reader that goes back.
func (s *Stream) Forget() { clear(s.known) }

// Codec is how the buffers of a batch are compressed.
type Codec int8

// The codecs of BodyCompression, and none.
const (
	Uncompressed Codec = -1
	LZ4Frame     Codec = 0
	Zstd         Codec = 1
)

// Node is the length and the null count of one array of a batch, in the order of the schema.
type Node struct{ Len, Nulls int64 }

// Buffer is a range of the body. Length 0 means absent.
type Buffer struct {
	Offset, Length int64
	Decoded        int64 // bytes once decompressed; Length when it is stored as it is
}

// Batch is a checked record batch or dictionary batch. Exactly Nodes and Buffers arrays and
// buffers make up its columns, in depth-first order of the schema; every buffer lies in Body.
type Batch struct {
	Rows     int64
	Nodes    []Node
	Buffers  []Buffer
	Variadic []int64 // number of data buffers of each view array, in order
	Codec    Codec
	Body     []byte
	V4       bool  // metadata V4: unions have a slot for a validity bitmap
	Dict     int64 // id, of a dictionary batch
	Delta    bool  // the values are added to those the dictionary has
}

// checkBatch walks a RecordBatch table: length 0, nodes 1, buffers 2, compression 3, variadic
// counts 4; then lays the schema over the nodes and buffers.
func (s *Stream) checkBatch(t table, b *Batch, fields []Field) *Error {
	b.Rows, b.Codec = t.i64(0, 0), Uncompressed
	b.read(t)
	if t.w.err != nil {
		return t.w.err
	}
	if b.Rows < 0 {
		return errorf(Invalid, "a batch of %d rows", b.Rows)
	}
	if b.Rows > s.limits.Rows {
		return errorf(TooLarge, "a batch of %d rows, at most %d are read", b.Rows, s.limits.Rows)
	}
	if b.V4 && s.schema.unions {
		return errorf(Unsupported, "a union or run-end-encoded column in metadata V4; write V5")
	}
	if err := b.bounds(&s.decoded, s.limits.Decoded); err != nil {
		return err
	}
	lay := layout{batch: b, limits: s.limits}
	for i := range fields {
		if err := lay.field(&fields[i], b.Rows, true); err != nil {
			return err
		}
	}
	if lay.node != len(b.Nodes) || lay.buffer != len(b.Buffers) || lay.variadic != len(b.Variadic) {
		return errorf(Invalid, "the schema has %d arrays and %d buffers, the batch %d and %d",
			lay.node, lay.buffer, len(b.Nodes), len(b.Buffers))
	}
	return nil
}

// read copies nodes and buffers (structs of two int64 each), the codec and the variadic counts.
// Their number is bounded by the bytes of the metadata, 16 of them for each.
func (b *Batch) read(t table) {
	w := t.w
	start, n := t.vector(1, 16)
	b.Nodes = make([]Node, n)
	for k := range b.Nodes {
		p := start + 16*k
		b.Nodes[k] = Node{int64(le.Uint64(w.b[p:])), int64(le.Uint64(w.b[p+8:]))}
	}
	start, n = t.vector(2, 16)
	b.Buffers = make([]Buffer, n)
	for k := range b.Buffers {
		p := start + 16*k
		b.Buffers[k] = Buffer{Offset: int64(le.Uint64(w.b[p:])), Length: int64(le.Uint64(w.b[p+8:]))}
	}
	if c := t.sub(3); c.present() { // codec 0, method 1
		codec, method := Codec(c.u8(0, 0)), c.u8(1, 0)
		if method != 0 || codec != LZ4Frame && codec != Zstd {
			w.fail(Unsupported, "body compression codec %d, method %d; use lz4, zstd or none", codec, method)
		}
		b.Codec = codec
	}
	start, n = t.vector(4, 8)
	b.Variadic = make([]int64, n)
	for k := range b.Variadic {
		b.Variadic[k] = int64(le.Uint64(w.b[start+8*k:]))
	}
}

// bounds checks every buffer against the body and spends what it holds once decompressed. A
// compressed buffer opens with that number; −1 says that it is stored as it is.
func (b *Batch) bounds(spent *int64, limit int64) *Error {
	body := int64(len(b.Body))
	for k := range b.Buffers {
		u := &b.Buffers[k]
		if u.Offset < 0 || u.Length < 0 || u.Offset > body || u.Length > body-u.Offset {
			return errorf(Invalid, "buffer %d (%d bytes at %d) lies outside the body of %d bytes", k, u.Length, u.Offset, body)
		}
		if u.Offset%8 != 0 {
			return errorf(Invalid, "buffer %d begins at %d, which is no multiple of 8", k, u.Offset)
		}
		u.Decoded = u.Length
		if b.Codec != Uncompressed && u.Length > 0 {
			if u.Length < 8 {
				return errorf(Invalid, "compressed buffer %d has %d bytes, too few for its length", k, u.Length)
			}
			if u.Decoded = int64(le.Uint64(b.Body[u.Offset:])); u.Decoded == -1 {
				u.Decoded = u.Length - 8
			}
		}
		if u.Decoded < 0 {
			return errorf(Invalid, "compressed buffer %d says it holds %d bytes", k, u.Decoded)
		}
		if *spent += u.Decoded; u.Decoded > limit || *spent > limit {
			return errorf(TooLarge, "buffers of more than %d bytes once decompressed (buffer %d alone has %d); send fewer rows per message",
				limit, k, u.Decoded)
		}
	}
	return nil
}
