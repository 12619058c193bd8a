package rowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"
)

// An Arrow IPC file is a stream between a mark and a footer, which has the schema again and says where each batch stands
// (Arrow columnar format, "IPC File Format").
var fileMark = []byte("ARROW1\x00\x00") // padded to 8 bytes at the beginning; 6 bytes at the end

// arrowFile writes an Arrow IPC file: the batches of messages byte for byte, as stream does, and the footer.
type arrowFile struct {
	stream stream
	out    *counter
	footer []byte // of a file without batches
	blocks []block
}

// block is where a batch stands.
type block struct {
	offset int64
	meta   int32 // with the prefix
	body   int64
}

// counter knows how much was written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

func newArrowFile(w io.Writer, schema *arrow.Schema, several bool) (Writer, error) {
	of := schema
	if several {
		schema = widened(schema)
	}
	footer, err := emptyFooter(schema)
	if err != nil {
		return nil, fmt.Errorf("rowfile: %w", err)
	}
	out := &counter{w: w}
	if _, err := out.Write(fileMark); err != nil {
		return nil, err
	}
	if hasDictionary(schema) {
		return newDictionaryFile(out, of, schema, footer)
	}
	return &arrowFile{stream: stream{w: out, of: schema}, out: out, footer: footer}, nil
}

func hasDictionary(schema *arrow.Schema) bool {
	for _, f := range schema.Fields() {
		if within(f.Type) {
			return true
		}
	}
	return false
}

// within reports whether a type is a dictionary, or holds one.
func within(t arrow.DataType) bool {
	if t.ID() == arrow.DICTIONARY {
		return true
	}
	if e, ok := t.(arrow.ExtensionType); ok {
		return within(e.StorageType())
	}
	nested, ok := t.(arrow.NestedType)
	if !ok {
		return false
	}
	for _, f := range nested.Fields() {
		if within(f.Type) {
			return true
		}
	}
	return false
}

func (a *arrowFile) Write(pieces ...[]byte) error {
	before, begun := a.out.n, a.stream.schema != nil
	if err := a.stream.Write(pieces...); err != nil {
		return err
	}
	at := before
	if !begun {
		at += int64(len(a.stream.schema))
	}
	prefix := pieces[0][len(a.stream.schema):] // of the batch, which follows the schema
	for i := 1; len(prefix) < prefixBytes && i < len(pieces); i++ {
		prefix = append(prefix[:len(prefix):len(prefix)], pieces[i]...)
	}
	if len(prefix) < prefixBytes {
		return errors.New("rowfile: the batch of a message is cut")
	}
	meta := prefixBytes + int64(binary.LittleEndian.Uint32(prefix[4:]))
	body := a.out.n - at - meta
	if at%8 != 0 || meta%8 != 0 || body < 0 || body%8 != 0 {
		return fmt.Errorf("rowfile: a batch of %d and %d bytes at %d is not aligned", meta, body, at)
	}
	a.blocks = append(a.blocks, block{at, int32(meta), body})
	return nil
}

func (a *arrowFile) Close() error {
	if err := a.stream.Close(); err != nil {
		return err
	}
	return writeFooter(a.out, withBlocks(a.footer, footerBatches, a.blocks))
}

func writeFooter(w io.Writer, footer []byte) error {
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	_, err := w.Write(append(footer, fileMark[:6]...))
	return err
}

// emptyFooter returns the footer of a file without batches.
func emptyFooter(schema *arrow.Schema) ([]byte, error) {
	var file bytes.Buffer
	w, err := ipc.NewFileWriter(&seeker{counter{w: &file}}, ipc.WithSchema(schema))
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	b := file.Bytes()
	end := len(b) - 4 - 6
	footer := b[end-int(binary.LittleEndian.Uint32(b[end:])) : end]
	if listOf(footer, footerBatches) == 0 {
		return nil, errors.New("the footer has no list of batches")
	}
	return footer, nil
}

// The lists of a footer by its fields (File.fbs).
const (
	footerDictionaries = 4 + 2*2
	footerBatches      = 4 + 2*3
)

// listOf returns where a footer refers to a list; 0: it has none.
func listOf(footer []byte, list flatbuffers.VOffsetT) flatbuffers.UOffsetT {
	t := flatbuffers.Table{Bytes: footer, Pos: flatbuffers.GetUOffsetT(footer)}
	field := t.Offset(list)
	if field == 0 {
		return 0
	}
	return t.Pos + flatbuffers.UOffsetT(field)
}

// withBlocks returns a footer with another list: it stands behind all else, and the footer refers to it.
func withBlocks(footer []byte, list flatbuffers.VOffsetT, blocks []block) []byte {
	reference := listOf(footer, list)
	out := bytes.Clone(footer)
	for len(out)%8 != 4 { // the elements, behind their number, are aligned
		out = append(out, 0)
	}
	binary.LittleEndian.PutUint32(out[reference:], uint32(len(out))-uint32(reference))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(blocks)))
	for _, b := range blocks {
		out = binary.LittleEndian.AppendUint64(out, uint64(b.offset))
		out = binary.LittleEndian.AppendUint64(out, uint64(uint32(b.meta)))
		out = binary.LittleEndian.AppendUint64(out, uint64(b.body))
	}
	return out
}

// seeker knows where it is, which is all that the writer of files asks for.
type seeker struct{ counter }

func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.New("rowfile: a file is written from its beginning to its end")
	}
	return s.n, nil
}

// dictionaryFile writes an Arrow IPC file with columns that are dictionaries. A file has each dictionary once, and a message its own: the
// batches are decoded, and written with places in the words of all messages. These stand behind the batches, where readers
// find them by the footer; additions to a dictionary, which a file may have instead, are not read by all of them.
type dictionaryFile struct {
	of      *arrow.Schema // of the messages
	schema  *arrow.Schema // of the file
	columns []*dictionaryColumn
	out     *counter
	footer  []byte // of a file without batches
	begun   bool   // the schema is written
	blocks  []block
	encoded bytes.Buffer // of the last batch with rows
}

func newDictionaryFile(out *counter, of, schema *arrow.Schema, footer []byte) (*dictionaryFile, error) {
	if listOf(footer, footerDictionaries) == 0 {
		return nil, errors.New("the footer has no list of dictionaries")
	}
	d := &dictionaryFile{of: of, schema: schema, out: out, footer: footer}
	for _, f := range schema.Fields() {
		d.columns = append(d.columns, dictionaryColumnOf(f.Type))
	}
	return d, nil
}

func (d *dictionaryFile) Write(pieces ...[]byte) error { return eachBatch(pieces, d.write) }

func (d *dictionaryFile) write(rec arrow.Record) error {
	if !rec.Schema().Equal(d.of) {
		return errors.New("rowfile: a message has another schema than those before it")
	}
	columns := make([]arrow.Array, len(d.columns))
	for i, c := range d.columns {
		data, err := c.unified(rec.Column(i).Data())
		if err != nil {
			return fmt.Errorf("column %q: %w", rec.ColumnName(i), err)
		}
		columns[i] = array.MakeFromData(data)
	}
	if rec.NumRows() == 0 {
		return nil
	}
	return d.put(array.NewRecord(d.schema, columns, rec.NumRows()), ofBatch, &d.blocks)
}

// put writes the messages of one kind that a record is made of, and the schema before the first. Without a record there is the schema alone.
func (d *dictionaryFile) put(rec arrow.Record, kind byte, blocks *[]block) error {
	d.encoded.Reset()
	w := ipc.NewWriter(&d.encoded, ipc.WithSchema(d.schema))
	if rec != nil {
		if err := w.Write(rec); err != nil {
			return fmt.Errorf("rowfile: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("rowfile: %w", err)
	}
	return messages(d.encoded.Bytes(), func(of byte, message []byte, meta int32) error {
		at := d.out.n
		switch {
		case of == ofSchema && !d.begun:
			d.begun = true
		case of == kind:
			*blocks = append(*blocks, block{at, meta, int64(len(message)) - int64(meta)})
		default:
			return nil
		}
		if at%8 != 0 || len(message)%8 != 0 {
			return fmt.Errorf("rowfile: a message of %d bytes at %d is not aligned", len(message), at)
		}
		_, err := d.out.Write(message)
		return err
	})
}

func (d *dictionaryFile) Close() error {
	rec, err := d.words()
	if err != nil {
		return err
	}
	var dictionaries []block
	kind := byte(ofDictionary)
	if len(d.blocks) == 0 {
		kind = ofSchema // there is nothing that has words
	}
	if err := d.put(rec, kind, &dictionaries); err != nil {
		return err
	}
	if _, err := d.out.Write(endMark); err != nil {
		return err
	}
	footer := d.footer
	if len(d.blocks) > 0 {
		footer = withBlocks(withBlocks(footer, footerDictionaries, dictionaries), footerBatches, d.blocks)
	}
	return writeFooter(d.out, footer)
}

// words returns the last batch with the words of all messages, nil where there is none: the library cannot make a row of nulls for each type, such as views
// and unions, and fails on some columns without rows.
func (d *dictionaryFile) words() (arrow.Record, error) {
	if len(d.blocks) == 0 {
		return nil, nil
	}
	var last arrow.Record
	err := eachBatch([][]byte{d.encoded.Bytes()}, func(rec arrow.Record) error {
		columns := make([]arrow.Array, len(d.columns))
		for i, c := range d.columns {
			data, err := c.whole(rec.Column(i).Data())
			if err != nil {
				return fmt.Errorf("rowfile: column %q: %w", rec.ColumnName(i), err)
			}
			columns[i] = array.MakeFromData(data)
		}
		last = array.NewRecord(d.schema, columns, rec.NumRows())
		return nil
	})
	return last, err
}

// Kinds of messages (Message.fbs).
const (
	ofSchema     = 1
	ofDictionary = 2
	ofBatch      = 3
)

// messages calls use with each message of a stream, and the bytes of its metadata with the prefix.
func messages(b []byte, use func(kind byte, message []byte, meta int32) error) error {
	const headerType, bodyLength = 4 + 2*1, 4 + 2*3
	for len(b) >= prefixBytes {
		n := int(binary.LittleEndian.Uint32(b[4:]))
		if n == 0 {
			return nil
		}
		meta := b[prefixBytes : prefixBytes+n]
		t := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
		kind, body := byte(0), int64(0)
		if o := t.Offset(headerType); o != 0 {
			kind = t.GetByte(t.Pos + flatbuffers.UOffsetT(o))
		}
		if o := t.Offset(bodyLength); o != 0 {
			body = t.GetInt64(t.Pos + flatbuffers.UOffsetT(o))
		}
		size := int64(prefixBytes+n) + body
		if err := use(kind, b[:size], int32(prefixBytes+n)); err != nil {
			return err
		}
		b = b[size:]
	}
	return io.ErrUnexpectedEOF
}

// eachBatch decodes the batch of a message.
func eachBatch(pieces [][]byte, use func(arrow.Record) error) error {
	r, err := ipc.NewReader(bytes.NewReader(bytes.Join(pieces, nil)))
	if err != nil {
		return fmt.Errorf("rowfile: %w", err)
	}
	defer r.Release()
	for r.Next() {
		if err := use(r.Record()); err != nil {
			return err
		}
	}
	return r.Err()
}
