package pipeline

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// write encodes the record. The writer of the last message has the schema's bytes already; it
// also remembers dictionaries in order not to write them twice, so that a schema with
// dictionaries needs a new one each time.
func (o *Output) write(dst []byte, rec arrow.Record) (value []byte, rest [][]byte, err error) {
	if o.writer == nil || o.dicts {
		o.stream.schema = o.stream.schema[:0]
		o.writer = ipc.NewWriterWithPayloadWriter(&o.stream, ipc.WithSchema(o.out))
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
		o.valid, o.columns, o.why, o.models = nil, nil, whyColumn{}, modelColumns{} // they may be among the pieces
	}
	return value, rest, nil
}

// forget lets go of the last message's columns, which may be large.
func (o *Output) forget() {
	clear(o.arrays[:cap(o.arrays)])
	clear(o.parts[:cap(o.parts)])
}

// Every message of a stream begins with a mark and its length; length 0 is the end.
const (
	continuation = "\xff\xff\xff\xff"
	endOfStream  = continuation + "\x00\x00\x00\x00"
)

const (
	// leastApart is how large the body of a message is whose buffers are not copied, except for those of less than
	// leastPiece.
	leastApart = 1 << 20
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
	p.large = body >= leastApart
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
