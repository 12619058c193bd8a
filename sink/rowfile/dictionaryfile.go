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
