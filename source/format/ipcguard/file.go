package ipcguard

import "bytes"

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
