package format

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// arrowFile is an IPC file or stream on disk. Opening it reads the metadata of all messages, which
// is where they stand and how many rows they have; bodies are read when their turn comes.
type arrowFile struct {
	f       *os.File
	size    int64
	limits  ipcguard.Limits
	maxRows int
	loader  *loader
	codecs  codecs

	messages []fileMessage // dictionaries and batches, in the order they are to be read
	pieces   []piece
	total    int64

	memory bodies

	done   int          // messages[:done]: of these all dictionaries are loaded
	at     int          // the message that was loaded last
	record arrow.Record // the loaded batch; nil if it has a fault
	fault  error
}

// fileMessage is where a message stands.
type fileMessage struct {
	kind   ipcguard.MessageKind
	offset int64
	length int64 // prefix, metadata, body
}

// piece is a run of rows of one batch.
type piece struct {
	message int
	from    int64
	to      int64
}

func openArrowFile(path string, c FileConfig) (_ table, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	a := &arrowFile{f: f, limits: batchLimits(c), maxRows: c.MaxRows, at: -1}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading its index: %v", p)
		}
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	a.size = info.Size()
	head := make([]byte, min(a.size, ipcguard.FileHead))
	if _, err = f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("ARROW1")) {
		return a, a.indexFile()
	}
	return a, a.indexStream()
}

func batchLimits(c FileConfig) ipcguard.Limits {
	l := ipcguard.BatchLimits()
	l.Decoded = c.MaxBytes
	return l
}

// indexFile takes the places of messages from the footer.
func (a *arrowFile) indexFile() error {
	tail := make([]byte, ipcguard.FileTail)
	if a.size < int64(ipcguard.FileHead+len(tail)) {
		return errorf(CodeArrowTruncated, "%d bytes are no Arrow file", a.size)
	}
	if _, err := a.f.ReadAt(tail, a.size-int64(len(tail))); err != nil {
		return err
	}
	n, err := ipcguard.FooterLength(tail, a.size)
	if err != nil {
		return err
	}
	end := a.size - int64(len(tail)) - n
	b := make([]byte, n)
	if _, err := a.f.ReadAt(b, end); err != nil {
		return err
	}
	footer, err := ipcguard.CheckFooter(b, end, a.limits)
	if err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	if _, err := a.open(ipcguard.FileHead, end); err != nil && a.openBare(footer, end) != nil {
		return err
	}
	if !a.loader.guard.Schema().Same(footer.Schema) {
		return errorf(CodeArrowInvalid, "the schemas at the beginning and in the footer differ")
	}
	for _, d := range footer.Dictionaries {
		a.messages = append(a.messages, fileMessage{ipcguard.DictionaryMessage, d.Offset, d.Meta + d.Body})
	}
	for k, d := range footer.Batches {
		h, _, err := a.head(d.Offset, end)
		if err != nil {
			return fmt.Errorf("batch %d: %w", k, err)
		}
		if h.Kind != ipcguard.BatchMessage {
			return errorf(CodeArrowInvalid, "the footer names a message of type %d as a batch", h.Kind)
		}
		if err := a.add(h, d.Offset, d.Meta+d.Body); err != nil {
			return err
		}
	}
	return nil
}

// indexStream walks from message to message. A file that ends without the mark of the end may be part of a stream, as a pipe may.
func (a *arrowFile) indexStream() error {
	at, err := a.open(0, a.size)
	if err != nil {
		return err
	}
	for at < a.size {
		h, meta, err := a.head(at, a.size)
		if errors.Is(err, io.EOF) {
			return nothingAfter(io.NewSectionReader(a.f, at+meta, a.size-at-meta))
		}
		if err != nil {
			return fmt.Errorf("at byte %d: %w", at, err)
		}
		if h.Body > a.size-at-meta {
			return errorf(CodeArrowTruncated, "at byte %d: a body of %d bytes is announced, %d are left", at, h.Body, a.size-at-meta)
		}
		if err := a.add(h, at, meta+h.Body); err != nil {
			return err
		}
		at += meta + h.Body
	}
	return errorf(CodeArrowTruncated, "the stream ends without its mark of the end: what wrote it has stopped in the middle, or has not been closed")
}

// add appends a message, and the pieces of a batch.
func (a *arrowFile) add(h ipcguard.Head, offset, length int64) error {
	a.messages = append(a.messages, fileMessage{h.Kind, offset, length})
	if h.Kind != ipcguard.BatchMessage {
		return nil
	}
	if h.Rows > a.limits.Rows {
		return errorf(CodeArrowTooLarge, "a batch of %d rows, at most %d are read", h.Rows, a.limits.Rows)
	}
	a.total += h.Rows
	for from := int64(0); from < h.Rows; from += int64(a.maxRows) {
		a.pieces = append(a.pieces, piece{len(a.messages) - 1, from, min(h.Rows, from+int64(a.maxRows))})
	}
	return nil
}

// head reads the metadata of the message at an offset and returns it with its length, prefix
// included; io.EOF at the mark of the end.
func (a *arrowFile) head(at, end int64) (h ipcguard.Head, length int64, err error) {
	prefix := make([]byte, min(8, end-at))
	if _, err := a.f.ReadAt(prefix, at); err != nil {
		return h, 0, err
	}
	n, skip := int64(-1), int64(4)
	if len(prefix) >= 4 {
		n = int64(int32(binary.LittleEndian.Uint32(prefix)))
	}
	if n == -1 { // before Arrow 0.15 there was no such mark, and four bytes of zero are the end
		if len(prefix) < 8 {
			return h, 0, errorf(CodeArrowTruncated, "%d bytes where a message begins", len(prefix))
		}
		n, skip = int64(int32(binary.LittleEndian.Uint32(prefix[4:]))), 8
	}
	switch {
	case n == 0:
		return h, skip, io.EOF
	case n < 0 || n > a.limits.Metadata:
		return h, 0, errorf(CodeArrowInvalid, "metadata of %d bytes; the bytes are no Arrow stream", n)
	case n > end-at-skip:
		return h, 0, errorf(CodeArrowTruncated, "metadata of %d bytes is announced, %d are left", n, end-at-skip)
	}
	meta := make([]byte, n)
	if _, err := a.f.ReadAt(meta, at+skip); err != nil {
		return h, 0, err
	}
	h, err = ipcguard.ReadHead(meta)
	return h, skip + n, err
}

// loaderOf returns the loader of the batches that follow a schema message.
func loaderOf(frame []byte, limits ipcguard.Limits, c *codecs) (*loader, error) {
	guard := ipcguard.NewStream(limits)
	m, _, err := guard.Next(frame)
	if err != nil {
		return nil, err
	}
	if m.Kind != ipcguard.SchemaMessage {
		return nil, errorf(CodeArrowInvalid, "it does not begin with its schema")
	}
	r, err := ipc.NewReader(bytes.NewReader(m.Frame))
	if err != nil {
		return nil, errorf(CodeArrowUnsupported, "schema: %w", err)
	}
	defer r.Release()
	return newLoader(guard, plainSchema(r.Schema()), c, limits.Decoded), nil
}

// open reads the schema message at an offset and returns where the next message begins.
func (a *arrowFile) open(at, end int64) (int64, error) {
	_, n, err := a.head(at, end)
	if errors.Is(err, io.EOF) {
		return 0, errorf(CodeArrowInvalid, "no schema")
	}
	if err != nil {
		return 0, err
	}
	frame := make([]byte, n)
	if _, err := a.f.ReadAt(frame, at); err != nil {
		return 0, err
	}
	if a.loader, err = loaderOf(frame, a.limits, &a.codecs); err != nil {
		return 0, err
	}
	return at + n, nil
}

// openBare reads a schema message that stands at the beginning of a file without its length, as polars 2 writes it. Other readers pass
// over it and take the footer's.
func (a *arrowFile) openBare(footer *ipcguard.Footer, end int64) (err error) {
	for _, blocks := range [][]ipcguard.Block{footer.Dictionaries, footer.Batches} {
		for _, b := range blocks {
			end = min(end, b.Offset)
		}
	}
	n := end - ipcguard.FileHead
	if n <= 0 || n > a.limits.Metadata {
		return errorf(CodeArrowInvalid, "a schema of %d bytes", n)
	}
	frame := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.MaxUint32), uint32(n))
	frame = append(frame, make([]byte, n)...)
	if _, err := a.f.ReadAt(frame[len(frame)-int(n):], ipcguard.FileHead); err != nil {
		return err
	}
	a.loader, err = loaderOf(frame, a.limits, &a.codecs)
	return err
}

func (a *arrowFile) rows() int64  { return a.total }
func (a *arrowFile) batches() int { return len(a.pieces) }

func (a *arrowFile) schema() *arrow.Schema { return a.loader.schema }
func (a *arrowFile) close() error          { return a.f.Close() }

func (a *arrowFile) read(i int) (arrow.Record, error) {
	p := a.pieces[i]
	if a.at != p.message {
		a.record, a.fault = nil, nil // let go before the next is loaded
		a.record, a.fault = a.load(p.message)
		a.at = p.message
	}
	if a.fault != nil {
		return nil, a.fault
	}
	if a.record.NumRows() < p.to {
		return nil, errorf(CodeArrowInvalid, "a batch of %d rows where the index says %d or more", a.record.NumRows(), p.to)
	}
	return a.record.NewSlice(p.from, p.to), nil
}

// load reads message k, a batch, after the dictionaries before it.
func (a *arrowFile) load(k int) (arrow.Record, error) {
	if k < a.done { // back: later dictionaries must not be used
		a.loader.guard.Forget()
		clear(a.loader.dicts)
		a.done = 0
	}
	for ; a.done < k; a.done++ {
		if a.messages[a.done].kind != ipcguard.DictionaryMessage {
			continue
		}
		m, err := a.message(a.done)
		if err != nil {
			return nil, err
		}
		if err := a.loader.dictionary(&m.Batch); err != nil {
			return nil, err
		}
	}
	m, err := a.message(k)
	if err != nil {
		return nil, err
	}
	return a.loader.record(&m.Batch)
}

// message reads and checks message k.
func (a *arrowFile) message(k int) (ipcguard.Message, error) {
	m := a.messages[k]
	if m.length > a.limits.Decoded {
		return ipcguard.Message{}, errorf(CodeArrowTooLarge, "a batch of %d bytes, at most %d are read (half of memory.limit); write smaller ones: write_table(t, max_chunksize=65536) in pyarrow", m.length, a.limits.Decoded)
	}
	b := a.memory.take(m.kind, m.length)
	if _, err := a.f.ReadAt(b, m.offset); err != nil {
		return ipcguard.Message{}, err
	}
	a.loader.guard.Renew()
	a.loader.mem.left = a.limits.Decoded
	got, _, err := a.loader.guard.Next(b)
	if err == nil && got.Kind != m.kind {
		err = errorf(CodeArrowInvalid, "a message of type %d where the index says %d", got.Kind, m.kind)
	}
	return got, err
}

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

func (p *Pipe) fill(b []byte) error {
	switch n, err := io.ReadFull(p.r, b); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errorf(CodeArrowTruncated, "the stream ends after %d of %d bytes, without its mark of the end: what wrote it has stopped in the middle", n, len(b))
	case err != nil:
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}
