package rowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// An encapsulated message begins with a continuation mark and the length of its metadata; a stream ends with a mark
// and a length of 0 (Arrow columnar format, "IPC Streaming Format").
const prefixBytes = 8

var endMark = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// stream writes the schema of the first message, and of each what follows the schema, byte for byte.
type stream struct {
	w      io.Writer
	of     *arrow.Schema
	schema []byte // the message of the schema, as it was written; nil: not yet
}

func (s *stream) Write(pieces ...[]byte) error {
	if len(pieces) == 0 || len(pieces[0]) < prefixBytes {
		return errors.New("rowfile: a message without a schema")
	}
	first := pieces[0]
	n := prefixBytes + int(binary.LittleEndian.Uint32(first[4:]))
	if n > len(first) {
		return errors.New("rowfile: the schema of a message is cut")
	}
	switch {
	case s.schema == nil:
		s.schema = slices.Clone(first[:n])
		if _, err := s.w.Write(s.schema); err != nil {
			return err
		}
	case !bytes.Equal(s.schema, first[:n]):
		return errors.New("rowfile: a message has another schema than those before it")
	}
	last := len(pieces) - 1
	for i, piece := range pieces {
		if i == 0 {
			piece = piece[n:]
		}
		if i == last {
			var ends bool
			if piece, ends = bytes.CutSuffix(piece, endMark); !ends {
				return fmt.Errorf("rowfile: the last of %d pieces of a message has no mark of the end", len(pieces))
			}
		}
		if _, err := s.w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) Close() error {
	if s.schema == nil { // there was no batch
		return ipc.NewWriter(s.w, ipc.WithSchema(s.of)).Close()
	}
	_, err := s.w.Write(endMark)
	return err
}
