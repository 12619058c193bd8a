package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format"
)

// Pipe reads an Arrow IPC stream from a reader, such as standard input, in messages of at most 65,536 rows. It is for one goroutine.
type Pipe struct {
	name string
	pipe *format.Pipe
	n    int64 // messages that were read
	rows int   // in them
}

// OpenPipe reads the schema of the stream. The name is that of the partition of its messages.
func OpenPipe(name string, r io.Reader) (*Pipe, error) {
	return OpenPipeWith(name, r, format.FileConfig{})
}

// OpenPipeWith is OpenPipe with other bounds.
func OpenPipeWith(name string, r io.Reader, c format.FileConfig) (*Pipe, error) {
	p, err := format.OpenPipe(r, bounded(c))
	if err != nil {
		return nil, fmt.Errorf("source: %s: %w", name, err)
	}
	return &Pipe{name: name, pipe: p}, nil
}

// Read returns the next rows as one message, or ErrEnd after the last. A stream has no second half that could be read after a fault.
func (p *Pipe) Read(ctx context.Context) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return Batch{}, err
	}
	rec, err := p.pipe.Read()
	switch {
	case errors.Is(err, io.EOF):
		return Batch{}, ErrEnd
	case err != nil:
		return Batch{}, fmt.Errorf("source: %s, after %d rows: %w", p.name, p.rows, err)
	}
	m := Message{Partition: Partition{Topic: p.name}, Offset: p.n, Row: p.rows + 1, Record: rec}
	p.n++
	p.rows += int(rec.NumRows())
	return Batch{Messages: []Message{m}}, nil
}

// Reuse lets each message have the memory of the one before, of which nothing may be used then.
func (p *Pipe) Reuse() { p.pipe.Reuse() }

// Schema is the schema of all messages' records.
func (p *Pipe) Schema() *arrow.Schema { return p.pipe.Schema() }

// Close does nothing: the reader is the caller's.
func (p *Pipe) Close() error { return nil }
