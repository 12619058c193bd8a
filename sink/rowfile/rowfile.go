// Package rowfile writes rows that come as Arrow IPC streams of one batch each, such as the values of an output topic,
// as one file or stream.
package rowfile

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
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
