package ipcguard

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
