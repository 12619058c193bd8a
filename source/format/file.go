package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// table is one open file, cut into batches of bounded rows. Which rows a batch holds depends
// on the file alone, so a batch's number serves as an offset.
type table interface {
	rows() int64                      // of all batches
	batches() int                     // number of them
	schema() *arrow.Schema            // of all batches
	read(i int) (arrow.Record, error) // batch i; going forward by one is cheap
	close() error
}

// FileConfig says what is read of a file. The zero value is everything, in batches of any number of rows.
type FileConfig struct {
	MaxRows  int                    // of a batch
	Head     int64                  // of a CSV file, whose end must be found: no more rows are wanted than these; 0: all are
	MaxBytes int64                  // of a batch, decoded; 0, or more than 2 GiB: 2 GiB
	Need     func(arrow.Field) bool // whether a column is needed: of one that is not, Parquet reads nothing, and it is a column of nulls; nil: all are
	// Bad is told of each line of a CSV file that is no row, with the column "", and of each value that is none of its column's, which most others are: the
	// line is passed over, the value null. Nil: with such a line a file is refused, and with such a value a column is text.
	Bad     func(Bad)
	Changed func(column, how string, n int) // told by Close of values that their type cannot hold; nil: it is not called
}

// Bad is a line, or a value, of a CSV file.
type Bad struct {
	Path   string
	Line   int64  // from 1 on
	Column string // of the value; "": it is a line
	What   string // why it is no row, or the value
}

func (c FileConfig) withDefaults() FileConfig {
	most := ipcguard.BatchLimits().Decoded
	if c.MaxRows <= 0 {
		c.MaxRows = math.MaxInt32
	}
	if c.MaxBytes <= 0 || c.MaxBytes > most {
		c.MaxBytes = most
	}
	return c
}

// File is an open file of rows, cut into batches of bounded rows. Which rows a batch holds depends on the file and
// the bounds alone. What ipcguard demands of messages holds here as well, except for the limits on size: a batch
// may have 2^31−1 rows, and as many bytes as FileConfig says. One batch is held in memory at a time.
//
// A File is for one goroutine.
type File struct{ table table }

// OpenFile opens a file by its extension: .arrow and .feather (IPC file), .arrows (IPC stream), .parquet, .csv or .tsv, also .csv.gz.
func OpenFile(path string, c FileConfig) (*File, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	f, err := byExtension(path)
	if err != nil {
		return nil, err
	}
	if err := sameAsExtension(path, f); err != nil {
		return nil, err
	}
	t, err := f.open(path, c.withDefaults())
	if err != nil {
		return nil, err
	}
	return &File{t}, nil
}

// regular refuses what can be seen to be no file of rows before it is opened.
func regular(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("it is a directory: name each of its files (in a shell: $(printf -- '--input %%s ' %s))", filepath.Join(path, "*.parquet"))
	case !info.Mode().IsRegular():
		return errors.New("it is no file but a pipe or a device, which cannot be read twice: write the rows to a file first")
	}
	return nil
}

// signatures lists the extensions of files by what the files begin with.
// Both formats of Arrow are read by the names of either.
var signatures = []struct{ magic, is, extension string }{
	{"PAR1", "a Parquet file", ".parquet"},
	{"ARROW1", "an Arrow file", ".arrow"},
	{"\xff\xff\xff\xff", "an Arrow stream", ".arrows"},
}

// errEncrypted is of a Parquet file whose columns or footer are encrypted.
var errEncrypted = errors.New("the file is encrypted, and encrypted files are not read: decrypt it first")

// notRead lists the files that are often meant, and not read.
var notRead = []struct {
	magic string
	err   error
}{
	{"PARE", errEncrypted},
	{"FEA1", errors.New("this is Feather version 1, which is not read: rewrite it as version 2, such as by pyarrow.feather.write_feather(pyarrow.feather.read_table(…), …)")},
}

// sameAsExtension refuses an empty file, and one that is of another format than its name says.
func sameAsExtension(path string, f spec) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	head := make([]byte, 8)
	n, err := io.ReadFull(file, head)
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty: it has 0 bytes, and a file without rows would have a schema")
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	for _, s := range notRead {
		if bytes.HasPrefix(head[:n], []byte(s.magic)) {
			return s.err
		}
	}
	for _, s := range signatures {
		if bytes.HasPrefix(head[:n], []byte(s.magic)) && !slices.Contains(f.extensions, s.extension) {
			return fmt.Errorf("this is %s: let its name end in %s", s.is, s.extension)
		}
	}
	return nil
}

// Rows is the number of rows in all batches.
func (f *File) Rows() int64 { return f.table.rows() }

// Schema is the schema of all batches.
func (f *File) Schema() *arrow.Schema { return f.table.schema() }

// Batches is the number of batches.
func (f *File) Batches() int { return f.table.batches() }

// Reuse lets each batch have the memory of the one before, of which nothing may be used then. Parquet has no such memory.
func (f *File) Reuse() {
	if a, ok := f.table.(*arrowFile); ok {
		a.memory.again = true
	}
}

// Read returns batch i, which the caller releases and which stays usable after Close; going forward by one is
// cheap. An error about the bytes is an *Error, and other batches may still be read; any other is of the disk.
func (f *File) Read(i int) (rec arrow.Record, err error) {
	defer func() {
		if p := recover(); p != nil { // of a library
			rec, err = nil, errorf(CodeDecodePanic, "decoding batch %d: %v", i, p)
		}
	}()
	if rec, err = f.table.read(i); err != nil {
		if e := errorOf(err); e != nil {
			return nil, e
		}
		return nil, err
	}
	return rec, nil
}

// Close closes the file.
func (f *File) Close() error { return f.table.close() }
