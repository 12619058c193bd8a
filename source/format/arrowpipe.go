package format

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Pipe reads an Arrow IPC stream as it comes, such as from a pipe. It holds one message in memory at a time, as [File] does, and is as strict.
// What ends without the mark of the end is refused, because the program that wrote it may have stopped in the middle. So is what goes on after it;
// the reader is therefore read to its own end.
//
// A Pipe is for one goroutine.
type Pipe struct {
	r       *bufio.Reader
	limits  ipcguard.Limits
	maxRows int64
	codecs  codecs
	loader  *loader
	memory  bodies
	record  arrow.Record // the message that was loaded last
	from    int64        // its rows that were returned
}

// OpenPipe reads the schema of a stream.
func OpenPipe(r io.Reader, c FileConfig) (p *Pipe, err error) {
	defer func() {
		if v := recover(); v != nil { // of a library
			p, err = nil, errorf(CodeDecodePanic, "decoding the schema: %v", v)
		}
	}()
	c = c.withDefaults()
	p = &Pipe{r: bufio.NewReaderSize(r, 1<<16), limits: batchLimits(c), maxRows: int64(c.MaxRows)}
	frame, err := p.frame()
	if errors.Is(err, io.EOF) {
		return nil, errorf(CodeArrowInvalid, "no schema")
	}
	if err == nil {
		p.loader, err = loaderOf(frame, p.limits, &p.codecs)
	}
	if err != nil {
		return nil, orError(err)
	}
	return p, nil
}

// Reuse lets each record have the memory of the one before, of which nothing may be used then.
func (p *Pipe) Reuse() { p.memory.again = true }

// Schema is the schema of all records.
func (p *Pipe) Schema() *arrow.Schema { return p.loader.schema }

// orError returns the fault of the bytes as an *Error, and others as they are.
func orError(err error) error {
	if e := errorOf(err); e != nil {
		return e
	}
	return err
}

// Read returns the next rows, which the caller releases; io.EOF at the end. An error about the bytes is an *Error, and nothing can be
// read after it.
func (p *Pipe) Read() (rec arrow.Record, err error) {
	defer func() {
		if v := recover(); v != nil { // of a library
			rec, err = nil, errorf(CodeDecodePanic, "decoding: %v", v)
		}
	}()
	for p.record == nil || p.from >= p.record.NumRows() {
		p.record, p.from = nil, 0 // let go before the next is loaded
		if err := p.next(); err != nil {
			return nil, orError(err)
		}
	}
	to := min(p.record.NumRows(), p.from+p.maxRows)
	rec = p.record.NewSlice(p.from, to)
	p.from = to
	return rec, nil
}

// next loads the next message: a batch, or a dictionary.
func (p *Pipe) next() error {
	frame, err := p.frame()
	if err != nil {
		return err
	}
	p.loader.guard.Renew()
	p.loader.mem.left = p.limits.Decoded
	m, _, err := p.loader.guard.Next(frame)
	switch {
	case err != nil:
		return err
	case m.Kind == ipcguard.DictionaryMessage:
		return p.loader.dictionary(&m.Batch)
	case m.Kind != ipcguard.BatchMessage:
		return errorf(CodeArrowInvalid, "a message of type %d where a batch should be", m.Kind)
	}
	p.record, err = p.loader.record(&m.Batch)
	return err
}

// frame reads a whole message: its prefix, metadata and body; io.EOF at the mark of the end.
func (p *Pipe) frame() ([]byte, error) {
	prefix := make([]byte, 4, 8)
	if err := p.fill(prefix); err != nil {
		return nil, err
	}
	if string(prefix) == "ARRO" {
		return nil, errorf(CodeArrowFileFormat, "this is an Arrow file (Feather); write the stream format: pa.ipc.new_stream(sink, schema) in pyarrow, write_ipc_stream in polars")
	}
	n := int64(int32(binary.LittleEndian.Uint32(prefix)))
	if n == -1 {
		prefix = prefix[:8]
		if err := p.fill(prefix[4:]); err != nil {
			return nil, err
		}
		n = int64(int32(binary.LittleEndian.Uint32(prefix[4:])))
	}
	switch {
	case n == 0:
		return nil, cmp.Or(nothingAfter(p.r), io.EOF)
	case n < 0 || n > p.limits.Metadata:
		return nil, errorf(CodeArrowInvalid, "metadata of %d bytes; the bytes are no Arrow stream", n)
	}
	head := append(prefix, make([]byte, n)...)
	meta := head[len(prefix):]
	if err := p.fill(meta); err != nil {
		return nil, err
	}
	h, err := ipcguard.ReadHead(meta)
	if err != nil {
		return nil, err
	}
	if h.Body > p.limits.Decoded {
		return nil, errorf(CodeArrowTooLarge, "a batch of %d bytes, at most %d are read; write smaller ones", h.Body, p.limits.Decoded)
	}
	frame := p.memory.take(h.Kind, int64(len(head))+h.Body)
	copy(frame, head)
	return frame, p.fill(frame[len(head):])
}

// nothingAfter reads what follows the mark of the end, which may be zeros, as in a message. Two streams one after the other, as cat joins them, have
// an end in the middle: a reader that stops there loses the rows of the second.
func nothingAfter(r io.Reader) error {
	b := make([]byte, 4096)
	for {
		n, err := r.Read(b)
		switch {
		case len(bytes.TrimLeft(b[:n], "\x00")) > 0:
			return errorf(CodeArrowInvalid, "there is more after the end of the stream: streams are not joined by cat, name each file, or write all rows as one stream")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the stream: %w", err)
		}
	}
}

// fill reads all of b.
func (p *Pipe) fill(b []byte) error {
	switch n, err := io.ReadFull(p.r, b); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errorf(CodeArrowTruncated, "the stream ends after %d of %d bytes, without its mark of the end: what wrote it has stopped in the middle", n, len(b))
	case err != nil:
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}
