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
	return s.checkBatch(data, b, []Field{plain})
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
