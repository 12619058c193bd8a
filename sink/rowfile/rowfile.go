// Package rowfile writes rows that come as Arrow IPC streams of one batch each, such as the values of an output topic,
// as one file or stream.
package rowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// Writer writes messages, each of them an Arrow IPC stream in pieces, with one batch. All have one schema. It is for one goroutine.
type Writer interface {
	// Write writes the batch of a message, of which nothing is kept.
	Write(pieces ...[]byte) error
	// Close writes what ends the file. It does not close what the file is written to.
	Close() error
}

// Kind is a format of files.
type Kind int

// Formats of files.
const (
	Stream    Kind = iota // Arrow IPC stream (.arrows), also for pipes
	ArrowFile             // Arrow IPC file (.arrow, .feather)
	Parquet               // Parquet file (.parquet), compressed with Zstandard
)

var extensions = map[string]Kind{".arrows": Stream, ".arrow": ArrowFile, ".feather": ArrowFile, ".parquet": Parquet}

// KindOf returns the format of a file by its extension.
func KindOf(path string) (Kind, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if kind, ok := extensions[ext]; ok {
		return kind, nil
	}
	return 0, fmt.Errorf("extension %q; want .parquet, .arrow, .arrows, or - for an Arrow IPC stream on standard output", ext)
}

// New returns a Writer of a format to w, for messages of a schema. Where they come of several files or of a stream, whose dictionaries
// may differ, an Arrow file has all words of a column in one, and indices of 32 bits or more.
func New(kind Kind, w io.Writer, schema *arrow.Schema, several bool) (Writer, error) {
	switch kind {
	case ArrowFile:
		return newArrowFile(w, schema, several)
	case Parquet:
		return newParquetFile(w, schema)
	}
	return &stream{w: w, of: schema}, nil
}

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
